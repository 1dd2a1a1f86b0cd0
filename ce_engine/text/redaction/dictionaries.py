"""Named dictionaries: the words of an app, and those that come with the engine (A-19)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ce_engine.config import INTERNAL_URLS, PII
from ce_engine.errors import RedactionError
from ce_engine.text.redaction.plain_form import readable
from ce_engine.text.redaction.scan import lowered


class Match(Protocol):
    """What was found, as `re` and `regex` give it."""

    def __getitem__(self, group: int, /) -> Any: ...

    def span(self) -> tuple[int, int]: ...


class OwnerRule(NamedTuple):
    """A rule of the user's; `word` is the literal that must occur, in lower case, or empty."""

    rule: str
    label: str
    pattern: str
    find: Callable[[str], Iterable[Match]]
    """Yields the matches of the pattern in a text."""
    word: str = ""


_NAME = re.compile(r"[^\W\d_]\w*")
_BYTE = "[0-9]{1,3}"
_PART = r"[a-z0-9_](?:[a-z0-9_\-]{0,62})"
_INTERNAL_HOST = (
    rf"(?:10|127)(?:\.{_BYTE}){{3}}|192\.168(?:\.{_BYTE}){{2}}|169\.254(?:\.{_BYTE}){{2}}"
    rf"|172\.(?:1[6-9]|2[0-9]|3[01])(?:\.{_BYTE}){{2}}|\[(?:::1|f[cde][0-9a-f:]{{1,40}})\]"
    rf"|(?:{_PART}\.){{1,8}}(?:internal|intranet|local|localdomain|lan|corp|home\.arpa)"
    rf"|{_PART}"
)
_INTERNAL_URL = re.compile(
    r"(?<![a-z0-9+.\-])[a-z][a-z0-9+.\-]{1,20}://(?:[^\s/@\"'<>]{0,128}@)?"
    rf"(?:{_INTERNAL_HOST})(?![a-z0-9_\-]|\.[a-z0-9])(?::[0-9]{{1,5}})?"
    r"(?:[/?#][!-~]{0,2000}(?<![.,;:!?)\]}\"'<>]))?",
    re.IGNORECASE,
)
"""A URL whose host has a private address, a name of one part, or a top-level name that no one sells."""

BUILT_IN: Mapping[str, Sequence[OwnerRule]] = {
    PII: (),  # always found
    INTERNAL_URLS: (
        OwnerRule(
            INTERNAL_URLS, "INTERNAL_URL", _INTERNAL_URL.pattern, _INTERNAL_URL.finditer, "://"
        ),
    ),
}


def dictionary_rules(dictionaries: Mapping[str, Sequence[str]]) -> Iterator[OwnerRule]:
    """The rules of dictionaries, as `PatternRedactor` takes them.

    Raises:
        RedactionError: it is no list of words, or one is empty.
    """
    for name, words in dictionaries.items():
        if isinstance(words, str):
            raise RedactionError(
                f"the redaction dictionary {name!r} is one text, expected a list of words: put it into [...]"
            )
        if name in BUILT_IN:
            yield from BUILT_IN[name]
        for word in words:
            if not word.strip():
                raise RedactionError(
                    f"the redaction dictionary {name!r} has an empty word, which is everywhere: remove it"
                )
            before = "(?<![A-Za-z0-9_])" if word[0].isascii() and word[0].isalnum() else ""
            after = "(?![A-Za-z0-9_])" if word[-1].isascii() and word[-1].isalnum() else ""
            plain = readable(word)[0]
            pattern = re.compile(before + re.escape(plain) + after, re.IGNORECASE)
            yield OwnerRule(name, label_of(name), pattern.pattern, pattern.finditer, lowered(plain))


def label_of(name: str) -> str:
    """The label of a rule's placeholders.

    Raises:
        RedactionError: the name is no identifier.
    """
    if not _NAME.fullmatch(name):
        raise RedactionError(
            f"the redaction rule {name!r} has no name that a placeholder can carry, expected letters, "
            "digits and underscores, such as 'employee_no': rename it"
        )
    return name.upper()
