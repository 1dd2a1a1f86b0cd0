"""Live values behind a session's placeholders, in memory only, so that what we put in reads as it was said."""

from __future__ import annotations

import re
from collections import OrderedDict

from ce_engine.ports.redaction import RestoreResult


MAX_BYTES = 1_000_000
"""Of one session; the values that were not met for longest go first."""

MAX_SPELLED_OUT = 1000

_ENTRY_BYTES = 300  # beside the text: two strings, a place in the dict


class Vault:
    """Placeholder -> the live text that it stands for. Never written, never shown, of one session.

    A placeholder that somebody spelled out in a live text is not restored: a document that says
    `[PASSWORD_1]` must not get the password.
    """

    __slots__ = ("_bytes", "_live", "_max", "_spelled_out")

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max = max_bytes
        self._live: OrderedDict[str, str] = OrderedDict()
        self._spelled_out: set[str] = set()
        self._bytes = 0

    def __repr__(self) -> str:
        return f"<Vault of {len(self._live)} values>"

    @property
    def held_bytes(self) -> int:
        return self._bytes

    def hold(self, placeholder: str, live: str) -> None:
        """Remember what a placeholder stands for; of several spellings the newest."""
        if placeholder in self._spelled_out or not self._max:
            return
        self._forget(placeholder)
        self._live[placeholder] = live
        self._bytes += _size(placeholder, live)
        while self._bytes > self._max:
            self._forget(next(iter(self._live)))

    def spelled_out(self, placeholder: str) -> None:
        """Somebody wrote this placeholder: what it stands for is not told any more."""
        self._forget(placeholder)
        if len(self._spelled_out) >= MAX_SPELLED_OUT:
            self._live.clear()  # somebody tries them all: nothing is told any more
            self._bytes = self._max = 0
        self._spelled_out.add(placeholder)

    def restore(self, text: str, pattern: re.Pattern[str]) -> RestoreResult:
        """The text with the live values of the placeholders that `pattern` finds."""
        hits = [match[0] in self._live for match in pattern.finditer(text)]
        live = pattern.sub(lambda match: self._live.get(match[0], match[0]), text)
        return RestoreResult(live, sum(hits), len(hits) - sum(hits))

    def _forget(self, placeholder: str) -> None:
        live = self._live.pop(placeholder, None)
        if live is not None:
            self._bytes -= _size(placeholder, live)


def _size(placeholder: str, live: str) -> int:
    return 2 * (len(placeholder) + len(live)) + _ENTRY_BYTES
