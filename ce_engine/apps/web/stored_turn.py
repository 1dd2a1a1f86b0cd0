"""A turn as it is stored, with its session, and as it is made again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from ce_engine.apps.present.language import Say
from ce_engine.apps.present.questions import Questions
from ce_engine.apps.present.vocabulary import replay_words
from ce_engine.apps.web.reading import Reader
from ce_engine.audit.past_session import leaves_history
from ce_engine.audit.places.message_places import MessagePlaces
from ce_engine.audit.places.recorded_choice import RecordedChoice, recorded_choice, recorded_fates
from ce_engine.audit.replay import find_turn
from ce_engine.errors import ContextEngineError, SessionNotFoundError
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.replay import Explanation, Replay
from ce_engine.schema.report import Report, report_of
from ce_engine.schema.rows import TurnRow, archive_of
from ce_engine.schema.scope import Scope


SECONDS = 20.0
"""How long a turn is made again before the page goes on without."""


@dataclass
class StoredTurn:
    """A turn as it is stored, with the session round it."""

    scope: Scope
    document: SessionDocument
    turns: list[TurnRow]
    at: int
    _fates: dict[int, dict[str, str]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def places(self) -> MessagePlaces:
        """Of all messages of the session."""
        ids = [m.message_id for m in self.document.session.messages if m.message_id]
        return MessagePlaces(ids, self.document, self.turns)

    def fates(self, at: int) -> dict[str, str]:
        """What became of each message in a turn, by the turn's place."""
        if at not in self._fates:
            self._fates[at] = recorded_fates(self.places, self.turns[at])
        return self._fates[at]

    @property
    def row(self) -> TurnRow:
        return self.turns[self.at]

    @property
    def report(self) -> Report | None:
        return report_of(self.row.turn_id, self.row.report)

    @property
    def is_by_hand(self) -> bool:
        """Whether the app called the engine itself, which keeps the conversation then."""
        return bool(archive_of(self.row.report).get("by_hand"))

    @property
    def reads_back(self) -> bool:
        """Whether what was said before may have come from the store."""
        return reads_back(self.row)


def reads_back(row: TurnRow) -> bool:
    """Whether a turn's host keeps no history itself: the engine brings it, from memory or from the store."""
    return bool(archive_of(row.report).get("by_hand")) or leaves_history(row)


async def stored_turn(
    reader: Reader, scope: Scope, choice: str = "", question: str | None = None
) -> StoredTurn:
    """Read a turn of a session: by its number or id, or the first of a question, by that number.

    Raises:
        TurnNotFoundError: there is none, or no such question.
    """
    turns = list(await reader.store.list_turns(scope))
    if question is not None:
        choice = str(Questions.of(turns).first_call(question))
    at = find_turn(turns, choice, scope.session_id)
    document = await reader.store.get_session(scope)
    if document is None:
        raise SessionNotFoundError(f"session {scope.session_id!r} was deleted just now")
    return StoredTurn(scope, document, turns, at)


@dataclass(slots=True)
class MadeAgain:
    """A turn made again, or why it could not be.

    Where that gave another input, `recorded` is what the turn did by its record, and `why` what was brought in by that.
    """

    replay: Replay | None = None
    why: Explanation | None = None
    problem: str = ""
    recorded: RecordedChoice | None = None


async def made_again(reader: Reader, record: StoredTurn, say: Say) -> MadeAgain:
    """Make a turn again, within `SECONDS`."""
    again, engine = MadeAgain(), reader.engine()
    try:
        async with asyncio.timeout(SECONDS):
            again.replay = await engine.replay(record.scope, record.row.turn_id)
            with suppress(ContextEngineError):
                again.why = await engine.explain(record.scope, record.row.turn_id)
    except TimeoutError:
        again.problem = "slow"
    except ContextEngineError as error:
        again.problem = replay_words(error.code, str(error), say)
    if again.replay is not None and not again.replay.same_choice:
        await asyncio.to_thread(_keep_to_record, again, again.replay, record)
    return again


def _keep_to_record(again: MadeAgain, replay: Replay, record: StoredTurn) -> None:
    """What was made again is another input than went out: what is stored of the turn counts."""
    parts = (*replay.sent.dropped, *replay.sent.parts)
    ids, fates = {part.message_id for part in parts}, record.fates(record.at)
    own = {name: fate for name, fate in fates.items() if name in ids}
    of = record.document, record.turns, record.at
    again.recorded, again.why = recorded_choice(own, again.why, *of)
