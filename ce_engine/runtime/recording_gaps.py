"""What could not be recorded, by session, until the session's log can name it (decision 10)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

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
    """The gaps of all sessions that were not named yet."""

    def __init__(self) -> None:
        self._gaps: dict[tuple[str, str, str], Gap] = {}

    def add(self, scope: Scope, writes: Sequence[Write], refusal: str = "") -> None:
        """Count a group that is lost: the store refused it, or there was no room for it."""
        if refusal and scope.key not in self._gaps:
            logger.warning("a group of records was refused (%s)", refusal)
        elif not self._gaps:
            logger.warning("the buffer for records is full: what does not fit is lost, and counted")
        gap = self._gaps.setdefault(scope.key, Gap(scope))
        gap.refused = refusal or gap.refused
        gap.add(writes)

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
        self._gaps.setdefault(scope.key, Gap(scope)).refused = refusal

    def refusal(self, scope: Scope) -> str:
        """The code with which groups of a session were refused that are lost; empty for none."""
        gap = self._gaps.get(scope.key)
        return gap.refused if gap is not None and gap.groups else ""

    def pop(self, scope: Scope) -> list[Gap]:
        """Those that may be named now that the store has taken a group of this session."""
        named = [gap for key, gap in self._gaps.items() if key == scope.key or not gap.refused]
        for gap in named:
            del self._gaps[gap.scope.key]
        return named
