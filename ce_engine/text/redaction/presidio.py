"""Names and addresses by Microsoft Presidio and a model of spaCy: the extra `[presidio]` (B-04, layer three)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ce_engine.errors import ConfigError, MissingDependencyError
from ce_engine.ports.redaction import PiiSpan


ENTITIES = ("PERSON", "LOCATION")
"""Of Presidio's. What has a form or a check is found by patterns, with fewer false alarms."""

ASKING_THE_NETWORK = frozenset({"EMAIL_ADDRESS", "URL"})
"""Its recognizers fetch the list of top-level domains."""

MODELS = {
    "en": ("en_core_web_lg", "en_core_web_md", "en_core_web_trf", "en_core_web_sm"),
    "zh": ("zh_core_web_lg", "zh_core_web_md", "zh_core_web_trf", "zh_core_web_sm"),
}
"""Language -> models of spaCy, the best first; the first that is installed is taken."""

_NO_NAME = re.compile(r"[0-9_=/<>{}\[\]@]")
_CHINESE = re.compile("[\u4e00-\u9fff]")
_STREET = (
    "street|st|avenue|ave|road|rd|boulevard|blvd|lane|ln|drive|dr|court|ct|square|sq|terrace|place|pl|way|"
    "parkway|pkwy|highway|hwy|close|crescent|mews"
)
_HAN = "(?:(?![我你他她您住在于到去来是址为的寄往])[\u4e00-\u9fff])"
_ADDRESSES = (
    re.compile(
        r"(?<![\w.\-/])[0-9]{1,5}[A-Za-z]?,?[ ](?:[NSEW][.]?[ ])?(?:[A-Z][\w'\-]{1,20}[ ]){1,4}"
        rf"(?i:{_STREET})(?![a-z])[.]?(?:,?[ ](?i:apt|apartment|suite|unit|flat|floor|#)[.]?[ ]?[\w\-]{{1,6}})?"
        r"(?:,[ ][A-Z][\w'\-]{1,20}(?:[ ][A-Z][\w'\-]{1,20}){0,2})?(?:,?[ ][A-Z]{2}[ ][0-9]{5}(?:-[0-9]{4})?)?"
    ),
    re.compile(
        r"(?<!\w)[A-ZÄÖÜ][\wäöüß\-]{1,30}(?:straße|strasse|str\.|weg|platz|allee|gasse|ring|damm|ufer)[ ][0-9]{1,4}[ ]?[a-z]?(?!\w)"
        r"(?:,[ ][0-9]{5}[ ][A-ZÄÖÜ][\wäöüß\-]{1,30})?"
    ),
    re.compile(
        r"(?<!\w)(?:[0-9]{1,4},?[ ])?(?:rue|avenue|boulevard|place|calle|avenida|plaza|via|viale|piazza|rua|praça)[ ]"
        r"(?:d[eiou][ls]?[ ]|l[ao]s?[ ]|d')?[A-ZÀ-Ý][\w'\-]{1,20}(?:[ ][A-ZÀ-Ý][\w'\-]{1,20}){0,3}(?:,?[ ][0-9]{1,4}(?!\w))?"
    ),
    re.compile(
        rf"(?:{_HAN}{{2,8}}(?:省|自治区|市))?(?:{_HAN}{{1,8}}(?:市|州|盟))?{_HAN}{{1,8}}(?:区|县|旗|镇)"
        r"(?:[\u4e00-\u9fff]{1,12}(?:路|街|道|巷|胡同|弄|村))[0-9０-９]{1,5}(?:号|弄)(?:院)?"
        r"(?:[0-9\u4e00-\u9fff]{1,8}(?:楼|栋|幢|座))?(?:[0-9]{1,3}单元)?(?:[0-9]{1,5}(?:室|号))?"
    ),
)


class PresidioDetector:
    """A `PiiDetector` of Presidio: names of people and places, and postal addresses by their form.

    Its models are those of spaCy that are installed; nothing is downloaded. A text is read by the model
    of its language: Chinese where a fifth of its letters are, else that of the engine's locale, else
    English. Without a model for its language only addresses are found in it. Some 5 to 30 ms a message.
    Making one loads its models, which takes seconds: make one a process.

    Args:
        models: language -> model of spaCy, by name or folder. Left out, the best installed of `MODELS`;
            `{}` for none: addresses, and those of `entities` that Presidio finds by patterns.
        entities: Presidio's names of what is looked for; each becomes the label of its placeholders.

    Raises:
        MissingDependencyError: the extra `[presidio]`, or a model, is not installed.
        ConfigError: an entity is no label that a placeholder can carry, or Presidio asks the network for it.
    """

    def __init__(
        self,
        models: Mapping[str, str] | None = None,
        entities: Sequence[str] = ENTITIES,
    ) -> None:
        for package in ("presidio_analyzer", "spacy"):
            if find_spec(package) is None:
                raise MissingDependencyError(
                    f"PresidioDetector needs {package}, which is not installed. "
                    "Run: pip install 'ce-integrations[presidio]'"
                )
        self._models = dict(_installed_models() if models is None else models)
        if models is None and not self._models:
            raise MissingDependencyError(
                "PresidioDetector found no model of spaCy. Run: python -m spacy download en_core_web_lg "
                "(or give models={} for addresses alone)"
            )
        for model in self._models.values():
            if not _is_installed(model) and not Path(model).exists():
                raise MissingDependencyError(
                    f"the model {model!r} is not installed. Run: python -m spacy download {model}"
                )
        wrong = [
            entity for entity in entities if not re.fullmatch("[A-Z][A-Z_]{0,30}[A-Z]", entity)
        ]
        if wrong:
            raise ConfigError(
                f"expected names of Presidio's entities such as 'PERSON', found {wrong}"
            )
        asking = sorted(ASKING_THE_NETWORK & {*entities})
        if asking:
            raise ConfigError(
                f"Presidio asks the network for {', '.join(asking)}; leave it out: the patterns of the engine "
                "find mail addresses, and a pattern of your own finds URLs"
            )
        self._entities = list(entities)
        self._analyzer = _analyzer(self._models, entities)  # now: a text may not wait for it
        _ = list(self.detect("It is loaded.", "en"))

    @property
    def name(self) -> str:
        """Presidio's version and the models'."""
        models = ",".join(f"{model}-{_version(model)}" for model in self._models.values())
        return f"presidio-{_version('presidio-analyzer')}+{models or 'none'}/{','.join(self._entities)}"

    @property
    def labels(self) -> tuple[str, ...]:
        """The entities, and `ADDRESS`."""
        return (*self._entities, "ADDRESS")

    def detect(self, text: str, locale: str) -> Iterable[PiiSpan]:
        """What is found in a text."""
        yield from _addresses(text)
        language = self._language(text, locale)
        if language is None:
            return
        for result in self._analyzer.analyze(text, language, entities=self._entities):
            start, end, label = result.start, result.end, str(result.entity_type)
            if label in ENTITIES:
                end = start + len(_name(text[start:end]))
            if start < end:
                yield PiiSpan(start, end, label, float(result.score))

    def _language(self, text: str, locale: str) -> str | None:
        letters = sum(sign.isalpha() for sign in text)
        if len(_CHINESE.findall(text)) * 5 > letters:
            return "zh" if "zh" in self._models else None
        spoken = locale.partition("-")[0].partition("_")[0]
        if spoken != "zh" and spoken in self._models:
            return spoken
        return "en" if "en" in self._models or not self._models else None


def _name(text: str) -> str:
    """What of a find is a name: models take hashes, `Order 4412` and `status=200` for people, too."""
    if not _NO_NAME.search(text):
        return text
    words = _NO_NAME.split(text, maxsplit=1)[0].rpartition(" ")[0]
    return words if " " in words else ""


def _addresses(text: str) -> Iterator[PiiSpan]:
    for pattern in _ADDRESSES:
        for match in pattern.finditer(text):
            yield PiiSpan(*match.span(), "ADDRESS", 0.8)


def _installed_models() -> dict[str, str]:
    models = {}
    for language, names in MODELS.items():
        model = next((name for name in names if _is_installed(name)), None)
        if model is not None:
            models[language] = model
    return models


def _is_installed(model: str) -> bool:
    return _version(model) != ""


def _version(package: str) -> str:
    try:
        return version(package)
    except (PackageNotFoundError, ValueError):
        return ""


def _analyzer(models: Mapping[str, str], entities: Sequence[str]) -> Any:
    """An analyzer over these models, or over none: then recognizers of patterns alone."""
    presidio = import_module("presidio_analyzer")
    engines = import_module("presidio_analyzer.nlp_engine")
    recognizers = import_module("presidio_analyzer.predefined_recognizers")
    model_entries = [{"lang_code": code, "model_name": model} for code, model in models.items()]
    engine = engines.SpacyNlpEngine(
        models=model_entries or [{"lang_code": "en", "model_name": "blank"}]
    )
    if models:
        engine.load()
    else:
        engine.nlp = {"en": import_module("spacy").blank("en")}
    languages = list(models) or ["en"]
    registry = presidio.RecognizerRegistry(supported_languages=languages)
    if {*entities} <= {*recognizers.SpacyRecognizer.ENTITIES}:
        for language in languages:
            registry.add_recognizer(recognizers.SpacyRecognizer(supported_language=language))
    else:
        registry.load_predefined_recognizers(languages=languages, nlp_engine=engine)
    return presidio.AnalyzerEngine(
        registry=registry, nlp_engine=engine, supported_languages=languages
    )
