"""Which recorded answers are messages further up in the list, where answers say the same again and again."""

from __future__ import annotations

from bisect import bisect_left

from ce_engine.prepare.reconcile.match import ENOUGH, NEW, Matcher


class EarlierAnswers:
    """Where in the list recorded answers stand; it is asked from the end of the list on.

    A short answer is given again and again: where the new one was never recorded, an old one is not it. Of each
    entry a message of the list is looked at once, whatever is asked: a list costs what it is long.
    """

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._at: dict[bytes, list[int]] = {}
        self._reached: dict[tuple[int, bytes], int] = {}

    def has(self, n: int, *, start: int, before: int) -> bool:
        """Whether entry `n` is a message that says what message `before` says, and stands between `start` and it.

        It is one where the list up to it is the path of the entry, or so much of it that it is no coincidence.
        """
        key = self._matcher.line[before].key
        at = self._reached.get((n, key), before)
        if at >= before:
            at = self._reached[n, key] = self._newest(n, key, before)
        return at >= start

    def _newest(self, n: int, key: bytes, before: int) -> int:
        """The index of the newest message before `before` that is the entry; `NEW` where none is."""
        at = self._of(key)
        for k in range(bisect_left(at, before) - 1, -1, -1):
            run, whole = self._matcher.run(at[k], n, ENOUGH)
            if whole or run >= ENOUGH:
                return at[k]
        return NEW

    def _of(self, key: bytes) -> list[int]:
        if not self._at:
            for j, message in enumerate(self._matcher.line):
                self._at.setdefault(message.key, []).append(j)
        return self._at[key]
