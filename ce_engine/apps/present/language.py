"""The language of what is shown: English stands in the code, other languages in a file each."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol


FOLDER = Path(__file__).with_name("languages")
ENGLISH_CODE = "en"


class Say(Protocol):
    """Says an English text in the reader's language, with its values filled in."""

    def __call__(self, text: str, plural: str = "", /, **values: object) -> str: ...


@dataclass(frozen=True, slots=True)
class Language:
    """What is said in one language.

    `say("{count} turn", "{count} turns", count=3)` chooses by `count`; whole numbers get their thousands apart.
    """

    code: str
    name: str
    texts: Mapping[str, str] = field(default_factory=dict)
    """By the English text, of two forms by the plural."""

    def __call__(self, text: str, plural: str = "", /, **values: object) -> str:
        """Say a text; one that nobody has translated is said in English."""
        key = plural or text
        english = text if plural and values.get("count") == 1 else key
        translation = self.texts.get(key, english)
        filled = {name: _filled(value) for name, value in values.items()}
        return translation.format(**filled) if filled else translation


def _filled(value: object) -> object:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


ENGLISH = Language(ENGLISH_CODE, "English")


@cache
def languages() -> Mapping[str, Language]:
    """The languages by their codes, English first."""
    by_code = {ENGLISH_CODE: ENGLISH}
    for path in sorted(FOLDER.glob("*.toml")):
        sections = tomllib.loads(path.read_text(encoding="utf-8"))
        texts = {key: text for part in sections.values() for key, text in part.items()}
        by_code[path.stem] = Language(path.stem, texts.pop("language"), texts)
    return by_code


def choose_language(wanted_code: str, accepted: str = "") -> Language:
    """The language of this code, else the first of an `Accept-Language` header that is here, else English."""
    by_code = languages()
    if wanted_code in by_code:
        return by_code[wanted_code]
    for code in _by_weight(accepted):
        if (base := code.partition("-")[0].lower()) in by_code:
            return by_code[base]
    return ENGLISH


def _by_weight(accepted: str) -> list[str]:
    pairs: list[tuple[float, str]] = []
    for part in accepted.split(","):
        code, _, weight = part.strip().partition(";q=")
        try:
            pairs.append((-float(weight or 1), code))
        except ValueError:
            continue
    return [code for weight, code in sorted(pairs, key=lambda pair: pair[0]) if weight < 0]
