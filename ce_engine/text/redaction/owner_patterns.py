"""Patterns that an owner wrote: how long they take nobody knows, so they can be given up (A-19)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ce_engine.errors import RedactionError
from ce_engine.schema.time_limits import TimeUpError, seconds_left
from ce_engine.text.redaction.dictionaries import OwnerRule, label_of


if TYPE_CHECKING:
    import regex

QUICK_S = 0.005
"""A search that takes less is not worth waiting for the interpreter's lock a second time."""


def pattern_rules(patterns: Mapping[str, str]) -> Iterator[OwnerRule]:
    """The rules of patterns in the syntax of `re`, as `PatternRedactor` takes them.

    Raises:
        RedactionError: a pattern is no regular expression, or its name is no identifier.
    """
    for name, pattern in patterns.items():
        try:
            plain = re.compile(pattern)
        except re.error as error:
            raise RedactionError(
                f"the redaction pattern {name!r} is no regular expression: {error}, found {pattern!r}: "
                "mend it (Python's `re` syntax) or leave it out"
            ) from error
        yield OwnerRule(name, label_of(name), pattern, _Search(plain))


class _Search:
    """Finds what `re` finds, for as long as `pace.within` allows, and lets other threads run meanwhile."""

    def __init__(self, plain: re.Pattern[str]) -> None:
        import regex  # noqa: PLC0415 - slow to import, and most have no patterns of their own

        self._pattern: regex.Pattern[str] = regex.compile(plain.pattern, regex.VERSION0)

    def __call__(self, text: str) -> Sequence[regex.Match[str]]:
        """The matches.

        Raises:
            TimeUpError: it took longer than it may.
        """
        seconds, search = seconds_left(), self._pattern.finditer
        if seconds is None:
            return list(search(text))
        try:
            return list(search(text, timeout=min(seconds, QUICK_S)))
        except TimeoutError:
            pass
        try:
            return list(search(text, timeout=seconds, concurrent=True))
        except TimeoutError:
            raise TimeUpError("a pattern of the owner's took longer than it may") from None
