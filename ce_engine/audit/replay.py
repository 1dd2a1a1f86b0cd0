"""A turn's input once more, from what is stored, and with another configuration (A-21)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from ce_engine.audit.explanation import explanation, same_choice
from ce_engine.audit.past_session import PastSession, StandInCounter, before_in_lane, newest
from ce_engine.audit.trace import SETTLE_S
from ce_engine.config import RuntimeConfig
from ce_engine.errors import ReplayUnavailableError, SessionNotFoundError, TurnNotFoundError
from ce_engine.prepare.blocks.material import CollectedContext
from ce_engine.prepare.choose.budget import Limit
from ce_engine.prepare.choose.prune import pruner_of
from ce_engine.prepare.message_groups import MessageItem
from ce_engine.schema.call import ModelCall
from ce_engine.schema.ids import SHORT_ID, Fingerprinter
from ce_engine.schema.replay import Explanation, Replay, Sent
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.scope import Scope, as_scope, check_project
from ce_engine.sessions.bodies import LaneBodies, Unit
from ce_engine.turns.engine_base import EngineBase
from ce_engine.turns.input.history import History
from ce_engine.turns.input.preparation import Preparation
from ce_engine.turns.input.recall import Recall
from ce_engine.turns.input.stored_candidates import pins_again
from ce_engine.turns.report.archive import Selection
from ce_engine.turns.report.report import ReportWriter
from ce_engine.turns.report.sent_parts import ShownText, difference


EVERYTHING = 10**12
"""More tokens than any talk has."""

EMBED_S = 60.0
"""How long vectors may take: nobody waits for an answer meanwhile."""


def find_turn(turns: Sequence[TurnRow], choice: int | str | None, session_id: str) -> int:
    """The place of a turn by its number (from 1), its id or the start of that; `None` is the newest.

    Raises:
        TurnNotFoundError: none, or several, are meant.
    """
    if not turns:
        raise TurnNotFoundError(f"session {session_id!r} has no turns: nothing was prepared in it")
    if choice is None:
        return len(turns) - 1
    text = str(choice)
    if text.isdecimal() and len(text) < SHORT_ID:
        places = [int(text) - 1] if 0 < int(text) <= len(turns) else []
    else:
        places = [at for at, row in enumerate(turns) if text and row.turn_id.startswith(text)]
    if len(places) != 1:
        subject = f"{len(places)} turns start with" if places else "no turn is"
        raise TurnNotFoundError(
            f"{subject} {text!r} in session {session_id!r}. Give a number from 1 to {len(turns)}, or the "
            "start of one turn's id."
        )
    return places[0]


def body_of(preparation: Preparation, selection: Selection) -> list[Unit]:
    """What went out, as units: as the turn's own report tells them from those of the call before."""
    writer = ReportWriter(
        preparation.call, selection.outcome, selection.sources.count, LaneBodies()
    )
    return writer.body(preparation.counter.description, selection.extras)


def same_tokens(before: list[Unit] | None, body: list[Unit]) -> int | None:
    """Leading tokens of a body that are those of the one before; `None` without one."""
    same = LaneBodies(units=before).follow(body) if before else None
    return None if same is None else same[1]


def whole_talk(past: PastSession, preparation: Preparation) -> list[MessageItem]:
    """The stored messages that may be brought in again, whatever room there is; none where the app has its own list."""
    history = History(past.view, preparation.call, preparation.counter, past.bring(), past.question)
    history.bring_in(Limit(EVERYTHING, EVERYTHING, "all"))
    return history.items


def name_all(sent_input: Sent, shown_text: ShownText, talk: Sequence[MessageItem]) -> None:
    """Name in an input all messages of the talk that it leaves out, those too that it had no room to look at."""
    listed_ids = {part.message_id for part in (*sent_input.parts, *sent_input.dropped)}
    further = (item for item in talk if item.message_id not in listed_ids)
    sent_input.dropped = [*shown_text.left(further), *sent_input.dropped]


class ReplayMethods(EngineBase):
    """The part of the engine that makes a turn's input again; it writes nothing."""

    async def replay(
        self,
        session_id: Scope | str,
        turn: int | str | None = None,
        config: RuntimeConfig | None = None,
        system: str | Sequence[str] | None = None,
    ) -> Replay:
        """The input of a turn, made again from messages, evidence and the archived configuration.

        Args:
            session_id: whose; an id alone is a session of no account and no user.
            turn: its number, from 1, its id or the start of that; if not given, the newest that can be
                replayed.
            config: what another configuration would have sent, in `instead`.
            system: the host's system messages in order: they are never stored.

        Raises:
            SessionNotFoundError: there is no such session of this user.
            TurnNotFoundError: it has no such turn.
            ReplayUnavailableError: the turn has no archive.
        """
        system_texts = [system] if isinstance(system, str) else list(system or ())
        return await self.loop.share(self._replay(as_scope(session_id), turn, config, system_texts))

    async def _replay(
        self,
        scope: Scope,
        turn: int | str | None,
        config: RuntimeConfig | None,
        system: Sequence[str],
    ) -> Replay:
        past, skipped = await self._past(scope, turn)
        first, selection, recall = await self._as_it_was(past, system)
        input_hash = selection.hasher(past.view, past.config().locale).compute(past.macs)
        sent_input = ShownText(past.view, first.call, selection, first.counter).build()
        equal = past.is_equal(input_hash)
        replay = Replay(
            turn=past.at + 1,
            turn_id=past.row.turn_id,
            recorded=past.archive["hash"],
            hash=input_hash,
            equal=equal,
            same_choice=equal or (past.lacks_rules and same_choice(selection, past.row.report)),
            sent=sent_input,
            skipped=skipped,
        )
        if config is not None:
            second, other, again = await self._again(past, config, first)
            replay.instead = ShownText(past.view, second.call, other, second.counter).build()
            replay.diff = difference(sent_input, replay.instead)
            replay.why = explanation(past.row.turn_id, selection, recall, equal=equal)
            replay.why_instead = explanation(past.row.turn_id, other, again, equal=equal)
            talk = whole_talk(past, first)
            for variant, basis in ((sent_input, selection), (replay.instead, other)):
                name_all(variant, ShownText(past.view, first.call, basis, first.counter), talk)
            before = await self._body_before(past, system)
            replay.prefix = same_tokens(before, body_of(first, selection))
            replay.prefix_instead = same_tokens(before, body_of(second, other))
        replay.problems = past.problems
        return replay

    async def _body_before(self, past: PastSession, system: Sequence[str]) -> list[Unit] | None:
        """The body of the lane's call before; `None` of the first, and where it cannot be made again."""
        at = before_in_lane(past.turns, past.at)
        if at is None:
            return None
        with suppress(ReplayUnavailableError):
            earlier = PastSession(past.scope, past.state, past.turns, at, past.fingerprinter)
            preparation, selection, _ = await self._as_it_was(earlier, system)
            return body_of(preparation, selection)
        return None

    async def explain(self, session_id: Scope | str, turn: int | str | None = None) -> Explanation:
        """What was brought in for a turn, and why: chosen once more, with what each score is made of.

        Args:
            session_id: whose; an id alone is a session of no account and no user.
            turn: its number, from 1, its id or the start of that; if not given, the newest that can be
                replayed.

        Raises:
            SessionNotFoundError: there is no such session of this user.
            TurnNotFoundError: it has no such turn.
            ReplayUnavailableError: the turn has no archive.
        """
        return await self.loop.share(self._explain(as_scope(session_id), turn))

    async def _explain(self, scope: Scope, turn: int | str | None) -> Explanation:
        past, _ = await self._past(scope, turn)
        _, selection, recall = await self._as_it_was(past, ())
        input_hash = selection.hasher(past.view, past.config().locale).compute(past.macs)
        result = explanation(
            past.row.turn_id,
            selection,
            recall,
            equal=past.is_equal(input_hash),
            report=past.row.report if past.lacks_rules else None,
        )
        return result.model_copy(
            update={"problems": past.problems, "decisions": [], "recall": None}
        )

    async def _as_it_was(
        self, past: PastSession, system: Sequence[str]
    ) -> tuple[Preparation, Selection, Recall]:
        """Assemble a turn once more with its own configuration."""
        past.set_up(system)
        was = past.config()
        lane = past.view.lane(past.row.lane)
        lane.pins = pins_again(past.view, past.archive.get("pins", ()), was.locale)
        return await self._again(past, was, None)

    async def recorded_call(self, session_id: Scope | str) -> ModelCall | None:
        """The newest call of a session that can be replayed, without its messages; `None` without one.

        It has the configuration that was archived, the model and its window.

        Raises:
            SessionNotFoundError: there is no such session of this user.
        """
        return await self.loop.share(self._recorded_call(as_scope(session_id)))

    async def _recorded_call(self, scope: Scope) -> ModelCall | None:
        try:
            past, _ = await self._past(scope, None)
        except (ReplayUnavailableError, TurnNotFoundError):
            return None
        call = past.call()
        call.config = past.config()
        return call

    async def _past(self, scope: Scope, turn: int | str | None) -> tuple[PastSession, int]:
        """What is stored of a session, at a turn, and how many newer ones were passed over."""
        await self._land_all(SETTLE_S)
        state = await self.store.state(scope)
        if state is None:
            raise SessionNotFoundError(
                f"there is no session {scope.session_id!r} of this account and user to replay"
            )
        check_project(scope, state.head.project_id)
        turns = await self.store.list_turns(scope)
        at = find_turn(turns, turn, scope.session_id)
        scope = Scope.of_stored(*scope.key, state.head.project_id)
        key = Fingerprinter(self.store.secret, state.head.salt, scope)
        if turn is None:
            at = newest(turns, key)
        return PastSession(scope, state, turns, at, key), len(turns) - 1 - at if turn is None else 0

    async def _again(
        self, past: PastSession, config: RuntimeConfig, was: Preparation | None
    ) -> tuple[Preparation, Selection, Recall]:
        """Assemble once more; with another configuration after it `was` made with its own."""
        call, view = past.call(), past.view
        counter = StandInCounter(self.estimator, call.model_hint or config.model_hint)
        records = self._records(view, past.scope, call.framework, config)
        same = was is None or counter.name == was.counter.name
        if was is None:
            pruner = pruner_of(config, self.pruner)
            past.compare(records.ingest.counted_by(counter.name), pruner)
        elif not same:
            past.say("RECOUNTED", "what is not stored as it was sent cannot be counted anew")
        call.messages = past.messages(counter.name if same else None, counter.name)
        collected = CollectedContext()
        if past.archive.get("materials"):
            session_context = await self._session_context(call, view)
            _, now = await self._collector.gather(call, config, view, session_context, counter.text)
            collected = CollectedContext(past.find_materials(now, counter if same else None))
        again = Preparation(call, config, records, counter, self.pruner, collected=collected)
        again.passed = was is None and past.archive.get("passed", False)
        again.question, again.places = past.question, past.places
        again.history = History(view, call, counter, past.bring(), past.question)
        inputs = past.make_inputs() if same else replace(past.make_inputs(), saved={})
        texts, embedder_name = list(again.texts), past.archive.get("embedder", "")
        here = records.ingest.name(self.embedder.name) if self.embedder is not None else ""
        if not embedder_name or here != embedder_name:
            if embedder_name and was is None:
                past.say(
                    "EMBEDDER", f"chosen with vectors of {embedder_name!r} then, of {here!r} here"
                )
            return again, *await self._run_off_loop(
                lambda: again.choose(inputs), texts, again.unread
            )
        choice = await self._choose(again, texts, inputs, seconds=EMBED_S)
        if again.vectors is None and was is None:
            past.say("EMBEDDER", f"{embedder_name!r} embedded it then, and cannot here")
        return again, *choice
