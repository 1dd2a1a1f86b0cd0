"""What could not be recorded, by session, until the session's log can name it (decision 10)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ce_engine.errors import StoreUnavailableError
from ce_engine.schema.rows import AppendEvents, AppendMessages, PutSummary, Write
from ce_engine.schema.scope import Scope


logger = logging.getLogger("ce_engine.store")


@dataclass(slots=True)
class Gap:
    """Groups of records of a session that are lost, with the messages in them.

    Attributes:
        since: time of the first event in them; `until` of the last.
        refused: the code with which the store refused some; it may refuse whatever is of this session.
            With no groups, what it refused at first was taken when it was asked once more.
    """

    scope: Scope
    groups: int = 0
    messages: int = 0
    since: str = ""
    until: str = ""
    refused: str = ""

    def add(self, writes: Sequence[Write]) -> None:
        self.groups += 1
        for write in writes:
            if isinstance(write, AppendMessages):
                self.messages += len(write.rows)
            elif isinstance(write, AppendEvents):
                times = [event.ts for event in write.events]
                self.since = min(self.since or times[0], *times)
                self.until = max(self.until, *times)


class Gaps:
    """The gaps of all sessions that were not named yet; of at most `MOST` sessions, the newest."""

    MOST = 10_000

    def __init__(self) -> None:
        self._refused: dict[tuple[str, str, str], Gap] = {}
        self._others: dict[tuple[str, str, str], Gap] = {}
        self._is_full_told = self._has_grown = False

    def add(self, scope: Scope, writes: Sequence[Write], refusal: str = "") -> None:
        """Count a group that is lost: the store refused it, or there was no room for it."""
        if refusal and not self._has(scope):
            logger.warning("a group of records was refused (%s)", refusal)
        elif not self._others and not self._refused:
            logger.warning("the buffer for records is full: what does not fit is lost, and counted")
        self._at(scope, refusal).add(writes)
        self._has_grown = True

    def pop_loss(self) -> bool:
        """Whether a group was lost since the last time that somebody asked."""
        has_grown, self._has_grown = self._has_grown, False
        return has_grown

    def tell_late(self, writes: Sequence[Write]) -> None:
        """Say that something came for a session that was deleted meanwhile: no log of it can.

        A summary is late already where something of what it stands for was replaced: it is made anew.
        """
        if any(isinstance(write, PutSummary) for write in writes):
            logger.info(
                "a summary was not stored: something that it stands for was deleted or replaced meanwhile"
            )
            return
        logger.warning(
            "a session was deleted while a call of it was under way: %d records that came later were "
            "not stored",
            len(writes),
        )

    def note(self, scope: Scope, refusal: str) -> None:
        """The store refused a group, and took it when it was asked once more: nothing is lost."""
        self._at(scope, refusal)

    def refusal(self, scope: Scope) -> str:
        """The code with which groups of a session were refused that are lost; empty for none.

        One for which there was no room is lost because the store is away.
        """
        gap = self._refused.get(scope.key) or self._others.get(scope.key)
        if gap is None or not gap.groups:
            return ""
        return gap.refused or StoreUnavailableError.code

    def pop(self, scope: Scope) -> list[Gap]:
        """Those that may be named now that the store has taken a group of this session."""
        own = self._refused.pop(scope.key, None)
        gaps = [*self._others.values(), *([own] if own is not None else [])]
        self._others.clear()
        return gaps

    def _has(self, scope: Scope) -> bool:
        return scope.key in self._refused or scope.key in self._others

    def _at(self, scope: Scope, refusal: str) -> Gap:
        """The gap of a session, among those that were refused from its first refusal on."""
        gap = self._refused.get(scope.key) or self._others.pop(scope.key, None) or Gap(scope)
        gap.refused = refusal or gap.refused
        gaps = self._refused if gap.refused else self._others
        gaps[scope.key] = gap
        if len(gaps) > self.MOST:
            del gaps[next(iter(gaps))]
            if not self._is_full_told:
                self._is_full_told = True
                logger.warning(
                    "records of more than %d sessions are lost: the oldest of these gaps are not named",
                    self.MOST,
                )
        return gap
