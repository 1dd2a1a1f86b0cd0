"""Takes what is personal or secret out of text and data before they are stored (A-19, B-02, B-04)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

from ce_engine.config import RedactionConfig, RedactionRules
from ce_engine.ports.redaction import RedactedData, RedactResult, RestoreResult, SessionRedactor
from ce_engine.schema.rows import Placeholder
from ce_engine.schema.text_cache import text_cache
from ce_engine.schema.time_limits import breathe, breathing
from ce_engine.text.redaction.detection import Detection
from ce_engine.text.redaction.dictionaries import OwnerRule, dictionary_rules
from ce_engine.text.redaction.fields import FieldPaths
from ce_engine.text.redaction.json_walk import JsonWalk
from ce_engine.text.redaction.owner_patterns import pattern_rules
from ce_engine.text.redaction.patterns import LABELS, VERSION
from ce_engine.text.redaction.placeholders import Numbering
from ce_engine.text.redaction.plain_form import HOLE, around, readable, substitute
from ce_engine.text.redaction.scan import SensitiveSpan, longest, lowered, scan
from ce_engine.text.redaction.spelled_out import LETTERS, lettered, spelled_out
from ce_engine.text.redaction.vault import Vault


__all__ = [
    "BoundRedactor",
    "JsonRedaction",
    "Numbering",
    "PatternRedactor",
    "Redaction",
    "SensitiveSpan",
]

MAX_ROUNDS = 8
REACH = 512
"""Characters beside a match that may read differently once it is gone."""
SHORT = 80
"""Characters of a text whose findings are remembered, in memory only."""
_CONTEXT = 48  # characters of a JSON key that count as the label of its value


@dataclass(frozen=True, slots=True)
class Redaction:
    """A text with placeholders; `rules` are the names of those that hit, `spans` are in the original."""

    text: str
    rules: tuple[str, ...] = ()
    count: int = 0
    has_sensitive: bool = False
    spans: tuple[SensitiveSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class JsonRedaction:
    """Data with placeholders: a new value, the one given is left as it was; `count` is of fields."""

    value: Any
    rules: tuple[str, ...] = ()
    count: int = 0
    has_sensitive: bool = False


class PatternRedactor:
    """Finds and replaces by patterns, checksums and labels. Pure, linear, and total over every `str`.

    Args:
        patterns: name -> regular expression of the user's own; the name becomes the placeholder's
            label (`employee_no` -> `[EMPLOYEE_NO_1]`).
        dictionaries: name -> words, found whatever their case, as words of their own. The names `pii`
            (what is always found) and `internal_urls` need no words.
        field_paths: JSONPaths of values that are taken out whole (see `FieldPaths`).
        detection: finds more in what people and tools say (`BoundRedactor.detecting`).

    Raises:
        RedactionError: a name is no identifier, a pattern is no regular expression, a word is empty.
        SelectorResolveError: a path is no JSONPath.
    """

    def __init__(
        self,
        patterns: Mapping[str, str] | None = None,
        dictionaries: Mapping[str, Sequence[str]] | None = None,
        field_paths: Sequence[str] = (),
        detection: Detection | None = None,
    ) -> None:
        self.detection, self.detects = detection, False
        self._custom = [*dictionary_rules(dictionaries or {}), *pattern_rules(patterns or {})]
        self._fields = FieldPaths(field_paths)
        own = (*(rule.label for rule in self._custom), *self._fields.labels)
        names = {*LABELS, *LABELS.values(), *own, *(detection.labels if detection else ())}
        self._placeholder = _placeholders(names)
        self._own = _placeholders(own) if own else None
        self._stands_for = _placeholders(names, f"[0-9]{{1,12}}|{LETTERS}")
        self.version = VERSION + _digest(self._custom, self._fields.paths, detection)

    @classmethod
    def of(
        cls, rules: RedactionRules | None, detection: Detection | None = None
    ) -> PatternRedactor:
        """The redactor of some rules."""
        rules = rules or RedactionRules()
        return cls(rules.patterns, rules.dictionaries, rules.field_paths, detection)

    @classmethod
    def configured(cls, config: RedactionConfig) -> PatternRedactor:
        """The redactor of a configuration, with its detector."""
        if config.detector is None:
            return cls.of(config.rules)
        least, seconds = config.detector_min_score, config.timeout_s
        return cls.of(config.rules, Detection(config.detector, least, seconds))

    @property
    def own_rules(self) -> bool:
        """Whether somebody added rules: how long they take is not known."""
        return bool(self._custom or self._fields.paths or self.detection)

    def detecting(self) -> PatternRedactor:
        """This redactor as it also asks its detector."""
        other = copy(self)
        other.detects = self.detection is not None
        return other

    def find(self, text: str) -> list[SensitiveSpan]:
        """Return what is found in order of place: the longest match wins, none overlap.

        Placeholders in the text are no part of any match.
        """
        view, origin = readable(text)
        return [
            SensitiveSpan(origin(start), origin(end), label, rule)
            for start, end, label, rule in self._find(view)
        ]

    def redact(self, text: str, numbering: Numbering, locale: str = "en") -> Redaction:
        """Replace what is found by placeholders. Doing it again changes nothing.

        In a text that is JSON the field paths come first; then `spans` are in what that leaves.
        """
        fresh, hits = self.redact_paths(text, numbering, locale)
        done = self.redact_field("", fresh, numbering, locale)
        if not hits:
            return done
        rules = tuple(dict.fromkeys((*hits, *done.rules)))
        return Redaction(done.text, rules, len(hits) + done.count, True, done.spans)

    def redact_json(self, value: Any, numbering: Numbering, locale: str = "en") -> JsonRedaction:
        """Replace in keys, strings and whole numbers of nested data.

        A key is the label of its value (`{"phone": "4155552671"}`); the value of one that names a
        secret (`password`, `authorization`, `学号`) is taken out whole. So is a secret in an object under
        such a key, beside a name (`{"name": "password", "value": ...}`) or behind an option of a list.

        Raises:
            RedactionError: something is no JSON, or nested deeper than 1,000 levels.
        """
        walk = JsonWalk(self, numbering, locale)
        walked = walk.run(walk.without_fields(value))
        return JsonRedaction(walked, tuple(walk.rules), walk.count, walk.count > 0)

    def bind(self, key: bytes, known: Sequence[Placeholder], locale: str) -> BoundRedactor:
        """Return this redactor for one session (the `Redactor` port)."""
        return BoundRedactor(self, key, known, locale)

    def is_placeholder(self, text: str) -> bool:
        """Say whether the text is one placeholder, or one that somebody wrote out, and nothing else."""
        return self._stands_for.fullmatch(text) is not None

    def restore(self, text: str, vault: Vault) -> RestoreResult:
        """The text with the live values that the vault has."""
        return vault.restore(text, self._placeholder) if "[" in text else RestoreResult(text)

    def spelled_out(self, text: str) -> list[str]:
        """The placeholders that stand in a text, whoever wrote them."""
        return [match[0] for match in self._placeholder.finditer(text)] if "[" in text else []

    def lettered(self, text: str) -> str:
        """The text of somebody else with what looks like our placeholders so that it is none."""
        return lettered(text, self._placeholder)

    def doubtful(self, text: str, version: str) -> list[str]:
        """The placeholders in a stored text that somebody may have written out, by who redacted it.

        Up to the fifth version they were stored as they were spelled, as without redaction; since then
        those that the rules of that time did not have.
        """
        if _SPELLED.fullmatch(version):
            return spelled_out(text, self._placeholder)
        is_other = self._own is not None and version != self.version
        return spelled_out(text, self._own) if is_other and self._own else []

    def redact_paths(self, value: Any, numbering: Numbering, locale: str) -> tuple[Any, list[str]]:
        """Replace what the field paths lead to, in data or in a text that is JSON."""
        if not self._fields.paths:
            return value, []

        def place(label: str, live: str) -> str:
            return numbering.placeholder(label, live, locale)

        replace = self._fields.replaced_in_text if isinstance(value, str) else self._fields.replaced
        return replace(value, place, self.is_placeholder)

    def redact_field(self, key: str, text: str, numbering: Numbering, locale: str) -> Redaction:
        """Replace in a text that stands under `key`, which may be the label of what is in it."""
        context = f"{_NO_LABEL.sub(' ', key[-_CONTEXT:])}: " if key else ""
        view, origin = readable(context + text)
        view_spans = [
            span for span in breathing(self._find(view, locale)) if span.start >= len(context)
        ]
        if not view_spans:
            return Redaction(text)
        pieces: list[str] = []
        spans: list[SensitiveSpan] = []
        done = 0
        for span in breathing(view_spans):
            start, end = origin(span.start) - len(context), origin(span.end) - len(context)
            pieces += (
                text[done:start],
                numbering.placeholder(
                    span.label, view[span.start : span.end], locale, text[start:end]
                ),
            )
            spans.append(SensitiveSpan(start, end, span.label, span.rule))
            done = end
        rules = tuple(dict.fromkeys(span.rule for span in spans))
        return Redaction("".join((*pieces, text[done:])), rules, len(spans), True, tuple(spans))

    def _find(self, text: str, locale: str = "en") -> list[SensitiveSpan]:
        """Search until nothing more is found: what a match hid may matter once it is gone.

        Each round reads a hole for every placeholder and match, so that the last one reads what a
        second redaction will read: doing it again changes nothing.
        """
        holes = [match.span() for match in self._stands_for.finditer(text)] if "[" in text else []
        spans: list[SensitiveSpan] = []
        for _ in range(MAX_ROUNDS):
            view, origin = substitute(text, ((start, end, HOLE) for start, end in holes))
            if spans and not any(self._scan(part) for part in around(view, HOLE, REACH)):
                break
            view_spans = longest(self._scan(view))
            if self.detects and not spans:
                view_spans += self._beside(view_spans, view, locale)
            if not view_spans:
                break
            fresh = [
                SensitiveSpan(origin(start), origin(end), label, rule)
                for start, end, label, rule in breathing(view_spans)
            ]
            spans += fresh
            holes = sorted(holes + [(span.start, span.end) for span in fresh])
        return sorted(spans)

    def _scan(self, view: str) -> list[SensitiveSpan]:
        built_in_spans = scan(view) if len(view) > SHORT else _scan_short(view)
        spans = (
            [*self._scan_custom(view), *built_in_spans] if self._custom else list(built_in_spans)
        )
        return self._solid(view, spans)

    def _beside(
        self, view_spans: list[SensitiveSpan], view: str, locale: str
    ) -> list[SensitiveSpan]:
        """What the detector finds, without the places that patterns, which are surer, have found."""
        if self.detection is None:
            return []
        cuts = ((start, end, HOLE * (end - start)) for start, end, *_ in sorted(view_spans))
        rest, _ = substitute(view, cuts)
        detector_spans = longest(self.detection.spans(view, locale))
        return [
            SensitiveSpan(*word.span(), span.label, span.rule)
            for span in self._solid(rest, detector_spans)
            for word in _WORDS.finditer(rest, span.start, span.end)
        ]

    def _solid(self, view: str, spans: list[SensitiveSpan]) -> list[SensitiveSpan]:
        """The spans without what was taken out before."""
        if HOLE not in view:
            return spans
        return [
            SensitiveSpan(*part.span(), span.label, span.rule)
            for span in breathing(spans)
            for part in _SOLID.finditer(view, span.start, span.end)
            if not part[0].isspace()
        ]

    def _scan_custom(self, view: str) -> Iterator[SensitiveSpan]:
        lower = lowered(view)
        for rule in self._custom:
            if rule.word in lower:
                breathe()
                for match in rule.find(view):
                    if match[0]:  # `x*` matches nothing everywhere
                        yield SensitiveSpan(*match.span(), rule.label, rule.rule)


@text_cache(4096)
def _scan_short(view: str) -> Sequence[SensitiveSpan]:
    """`scan` for names, tags and keys, which come again with every call."""
    return tuple(scan(view))


def _placeholders(labels: Iterable[str], number: str = "[0-9]{1,12}") -> re.Pattern[str]:
    alternatives = "|".join(sorted(map(re.escape, labels), key=len, reverse=True))
    return re.compile(rf"\[(?P<label>{alternatives})_(?P<number>{number})\]")


_SPELLED = re.compile(r"off|patterns/[1-5](?:\+.*)?")
_NO_LABEL = re.compile(r"[^\w \-.]")
_WORDS = re.compile(r"\w(?:.*\w)?", re.DOTALL)
_SOLID = re.compile(f"[^{HOLE}]+")


def _digest(rules: Iterable[OwnerRule], paths: Sequence[str], detection: Detection | None) -> str:
    """Return a suffix that tells the user's rules apart, or nothing without any."""
    plain = [*([rule.rule, rule.pattern] for rule in rules), *paths]
    plain += [["detector", detection.name]] if detection else []
    text = json.dumps(plain).encode()
    return "+" + hashlib.blake2b(text, digest_size=4).hexdigest() if plain else ""


class BoundRedactor:
    """A redactor and the numbers of one session (the `SessionRedactor` port)."""

    __slots__ = ("_locale", "_numbering", "_redactor", "_vault")

    def __init__(
        self,
        redactor: PatternRedactor,
        key: bytes,
        known_placeholders: Sequence[Placeholder],
        locale: str,
    ) -> None:
        self._redactor, self._locale, self._vault = redactor, locale, Vault()
        self._numbering = Numbering(key, placeholders=known_placeholders, vault=self._vault)

    def detecting(self) -> BoundRedactor:
        """The same session's, as it also asks the detector: for what is said, not for names and ids."""
        if self._redactor.detection is None:
            return self
        return _Detecting(self._redactor.detecting(), self._numbering, self._vault, self._locale)

    def text(self, text: str) -> RedactResult:
        for placeholder in self._redactor.spelled_out(text):
            self._vault.spelled_out(placeholder)
        done = self._redactor.redact(text, self._numbering, self._locale)
        return RedactResult(done.text, done.rules, done.count, done.has_sensitive)

    def data(self, value: Any) -> RedactedData:
        done = self._redactor.redact_json(value, self._numbering, self._locale)
        return RedactedData(done.value, done.rules, done.count)

    def lettered(self, text: str) -> str:
        """The text of somebody else with what looks like our placeholders so that it is none."""
        return self._redactor.lettered(text)

    def met(self, text: str, version: str) -> None:
        """A text is stored that `version` has redacted: what somebody may have written out in it is not told."""
        for placeholder in self._redactor.doubtful(text, version):
            self._vault.spelled_out(placeholder)

    def learned(self) -> list[Placeholder]:
        return self._numbering.learned()

    def restore(self, text: str) -> RestoreResult:
        return self._redactor.restore(text, self._vault)

    @property
    def held_bytes(self) -> int:
        return self._vault.held_bytes


class _Detecting(BoundRedactor):
    """Another that asks the detector, with the same numbers and live values."""

    __slots__ = ()

    def __init__(
        self, redactor: PatternRedactor, numbering: Numbering, vault: Vault, locale: str
    ) -> None:
        self._redactor, self._numbering = redactor, numbering
        self._vault, self._locale = vault, locale


@cache
def _with_our_labels() -> Callable[[str], str]:
    return PatternRedactor().lettered


def lettering(redactor: SessionRedactor | None) -> Callable[[str], str]:
    """What makes placeholders in a text of others none; for a redactor of somebody else's, those of our labels."""
    return redactor.lettered if isinstance(redactor, BoundRedactor) else _with_our_labels()
