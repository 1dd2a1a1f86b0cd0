"""A turn's input once more, from what is stored, and with another configuration (A-21)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ce_engine.archiving import (
    Chosen,
    Given,
    expanded,
    input_hash,
    kind_of,
    material_mac,
    system_mac,
)
from ce_engine.config import RuntimeConfig
from ce_engine.counting import PRIMING
from ce_engine.errors import ReplayUnavailableError, SessionNotFoundError, TurnNotFoundError
from ce_engine.ports import Pruner, Store, TokenEstimator
from ce_engine.preparation import Preparation
from ce_engine.prepare.lanes import Lanes
from ce_engine.prepare.material import Collected
from ce_engine.prepare.reconcile import Reconciled
from ce_engine.recording import Records
from ce_engine.runtime.loop import LoopThread
from ce_engine.schema.call import HostMessage, ModelCall
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Origin, Role, TurnStatus
from ce_engine.schema.ids import Fingerprinter
from ce_engine.schema.replay import Replay, ReplayProblem
from ce_engine.schema.rows import CutMark, MessageRow, SessionState, TurnRow
from ce_engine.schema.scope import Scope, as_scope, check_project
from ce_engine.sent import Shown, difference
from ce_engine.tokens import Calibration
from ce_engine.tracing import SETTLE_S
from ce_engine.view import SessionView


SHORT_ID = 8
"""Digits of an id that are shown; fewer of them are a turn's number."""


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
        found = [int(text) - 1] if 0 < int(text) <= len(turns) else []
    else:
        found = [at for at, row in enumerate(turns) if text and row.turn_id.startswith(text)]
    if len(found) != 1:
        what = f"{len(found)} turns start with" if found else "no turn is"
        raise TurnNotFoundError(
            f"{what} {text!r} in session {session_id!r}. Give a number from 1 to {len(turns)}, or the "
            "start of one turn's id."
        )
    return found[0]


class Replaying(ABC):
    """The part of the engine that makes a turn's input again; it writes nothing."""

    store: Store
    loop: LoopThread
    estimator: TokenEstimator
    pruner: Pruner

    @abstractmethod
    async def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything handed over is stored."""

    @abstractmethod
    def _records(
        self,
        view: SessionView,
        scope: Scope,
        framework: str,
        config: RuntimeConfig,
        tags: Mapping[str, str] | None = None,
    ) -> Records:
        """A group of records in the making."""

    async def _collected(self, call: ModelCall) -> Collected:  # noqa: ARG002 - for who has sources
        """What sources give to a call, now."""
        return Collected()

    async def replay(
        self,
        session: Scope | str,
        turn: int | str | None = None,
        config: RuntimeConfig | None = None,
        system: str | Sequence[str] | None = None,
    ) -> Replay:
        """The input of a turn, made again from messages, evidence and the archived configuration.

        Args:
            session: whose; an id alone is a session of no account and no user.
            turn: its number, from 1, its id or the start of that; the newest if not given.
            config: what another configuration would have sent, in `instead`.
            system: the host's system messages in order: they are never stored.

        Raises:
            SessionNotFoundError: there is no such session of this user.
            TurnNotFoundError: it has no such turn.
            ReplayUnavailableError: the turn has no archive.
        """
        given = [system] if isinstance(system, str) else list(system or ())
        return await self.loop.share(self._replay(as_scope(session), turn, config, given))

    async def _replay(
        self,
        scope: Scope,
        turn: int | str | None,
        config: RuntimeConfig | None,
        system: Sequence[str],
    ) -> Replay:
        await self.flush(SETTLE_S)
        state = await self.store.state(scope)
        if state is None:
            raise SessionNotFoundError(
                f"there is no session {scope.session_id!r} of this account and user to replay"
            )
        check_project(scope, state.head.project_id)
        turns = await self.store.list_turns(scope)
        at = find_turn(turns, turn, scope.session_id)
        scope = replace(scope, agent_id="", project_id=state.head.project_id)
        past = Past(
            scope, state, turns, at, Fingerprinter(self.store.secret, state.head.salt, scope)
        )
        past.set_up(system)
        was = past.config()
        first, chosen = await self._again(past, was, None)
        made = input_hash(past.view, chosen, past.macs, was.locale)
        sent = Shown(past.view, first.call, chosen, first.counter).sent()
        equal = made == past.archive["hash"]
        if not equal and not past.problems:
            past.say("UNEXPLAINED", "another release may choose or word its texts in another way")
        replay = Replay(
            turn=at + 1,
            turn_id=past.row.turn_id,
            recorded=past.archive["hash"],
            hash=made,
            equal=equal,
            sent=sent,
        )
        if config is not None:
            second, other = await self._again(past, config, first)
            replay.instead = Shown(past.view, second.call, other, second.counter).sent()
            replay.diff = difference(sent, replay.instead)
        replay.problems = past.problems
        return replay

    async def _again(
        self, past: Past, config: RuntimeConfig, was: Preparation | None
    ) -> tuple[Preparation, Chosen]:
        """Assemble once more; with another configuration after it `was` made with its own."""
        call = past.call()
        materials = past.known(await self._collected(call)) if past.archive.get("materials") else []
        records = self._records(past.view, past.scope, call.framework, config)
        again = Preparation(
            call, config, records, self.estimator, self.pruner, collected=Collected(materials)
        )
        same = was is None or again.counter.name == was.counter.name
        if was is None:
            past.compare(records.ingest.name(again.counter.name), self.pruner)
        elif not same:
            past.say(
                "RECOUNTED", "tools, system messages and redacted texts cannot be counted anew"
            )
        call.messages = past.messages(again.counter.name if same else None, again.counter.name)
        again.question, again.places = past.question, past.places
        again.found = Reconciled(list(past.places), bring=past.bring())
        given = past.given() if same else replace(past.given(), saved={})
        return again, again.choose(given)


@dataclass(slots=True)
class Past:
    """A session as one of its turns knew it."""

    scope: Scope
    state: SessionState
    turns: Sequence[TurnRow]
    at: int
    fingerprinter: Fingerprinter
    archive: dict[str, Any] = field(init=False)
    view: SessionView = field(init=False)
    places: list[int | None] = field(default_factory=list)
    macs: dict[int, str] = field(default_factory=dict)
    system: dict[int, str] = field(default_factory=dict)
    problems: list[ReplayProblem] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.archive = _archive(self.row)
        self.view = SessionView(self.scope, self.state.head, self.fingerprinter, None)

    @property
    def row(self) -> TurnRow:
        return self.turns[self.at]

    @property
    def question(self) -> int | None:
        tip = self.row.tip_message_id
        return self.view.log.by_message_id(tip) if tip else None

    def say(self, code: str, detail: str) -> None:
        self.problems.append(ReplayProblem(code=f"CONTEXT_REPLAY_{code}", detail=detail))

    def config(self) -> RuntimeConfig:
        """The configuration that the turn had."""
        digest = self.archive["config"]
        kept = (found.report.get("extra", {}).get("replay", {}) for found in self.turns)
        for archive in kept:
            if archive.get("config") == digest and "settings" in archive:
                return RuntimeConfig(**archive["settings"])
        if digest == self.fingerprinter.mac("config", "{}").hex():
            return RuntimeConfig()
        raise ReplayUnavailableError(
            f"the configuration of turn {self.row.turn_id!r} is not in the store: the turn that it was "
            "archived with was never written. Only other turns can be replayed."
        )

    # The session as it was

    def set_up(self, system: Sequence[str]) -> None:
        """Build the view as the turn knew it, and place the host's list in it."""
        view, archive = self.view, self.archive
        rows = self._until(self.state.rows, "messages", lambda r: r.message.message_id)
        evidence = self._until(self.state.evidence, "evidence", lambda r: r.evidence.evidence_id)
        known = {row.message.message_id for row in rows}
        found = [r if r.message_id in known else replace(r, message_id=None) for r in evidence]
        view.top_up(SessionState(self.state.head, rows, evidence=found))
        withheld = sum(row.withheld for row in rows)
        withheld += sum(not r.evidence.content and r.message_id is None for r in found)
        if withheld:
            self.say("WITHHELD", f"{withheld} texts are not there: deleted, or never redacted")
        if self.fingerprinter.key_id != self.state.head.key_id:
            self.say("SECRET", "recorded with another secret than this install has: no hash agrees")
        if archive.get("live_task"):
            self.say(
                "LIVE_TASK", "the question was shortened by its live text, which is not stored"
            )
        self._place(system)
        drop, shorten, budget = archive.get("marks") or (None, None, 0)
        for kind, anchor in (("drop", drop), ("shorten", shorten)):
            if anchor:
                view.cuts[self.row.lane, kind, anchor] = CutMark(
                    self.row.lane, kind, anchor, budget
                )
        if factor := archive.get("factor"):
            view.lane(self.row.lane).calibration = Calibration.of(factor)
        documents = [i for i in archive.get("documents", ()) if i in view.evidence]
        memory = view.request(self.row.request_id)
        memory.documents = [(i, view.evidence[i].evidence.content) for i in documents]
        self._note_steps()

    def _until(self, rows: Sequence[Any], name: str, id_of: Any) -> list[Any]:
        """The rows that the turn knew."""
        count, last = self.archive.get(name, (0, ""))
        places = [at for at, row in enumerate(rows) if last and id_of(row) == last]
        found = list(rows[: places[0] + 1] if places else rows[:count])
        if len(found) != count:
            self.say(
                "LOG", f"the turn knew {count} {name}, and the store has {len(found)} up to there"
            )
        return found

    def _place(self, system: Sequence[str]) -> None:
        """Give every message of the host's list its entry, and system messages what is known of them."""
        log, archive = self.view.log, self.archive
        placed = expanded(log, archive.get("line", []))
        if len(placed) != sum(count for _, count in archive.get("line", [])):
            self.say("MESSAGES", "messages of the list are not in the store any more")
        unstored = {int(index): mac for index, mac, _ in archive.get("system", ())}
        rest = iter(placed)
        for index in range(len(placed) + len(unstored)):
            self.places.append(None if index in unstored else next(rest))
        self.macs = unstored
        for index, text in zip(unstored, system, strict=False):
            self.system[index] = text
            self.macs[index] = system_mac(self.fingerprinter, text)
            if self.macs[index] != next(m for i, m, _ in archive["system"] if int(i) == index):
                self.say("SYSTEM_CHANGED", f"system message {index} is not the one that was sent")
        if len(system) < len(unstored):
            missing = len(unstored) - len(system)
            self.say(
                "SYSTEM_NOT_GIVEN", f"{missing} system messages are not stored; give their text"
            )

    def _note_steps(self) -> None:
        """Invocations that asked the same question twice, so that one step is no other's history."""
        asked: Tally[tuple[int, str]] = Tally()
        for turn in self.turns[: self.at + 1]:
            n = self.view.log.by_message_id(turn.tip_message_id or "")
            is_dead = turn.status in (TurnStatus.FAILED, TurnStatus.ABANDONED)
            if n is None or not turn.request_id or self.view.log.parents[n] >= 0:
                continue
            if is_dead and turn is not self.row and turn.answer_message_id is None:
                continue
            asked[n, turn.request_id] += 1
            if asked[n, turn.request_id] > 1:
                self.view.note_several(turn.request_id)

    # The call as it was

    def call(self) -> ModelCall:
        archive, row = self.archive, self.row
        return ModelCall(
            self.scope,
            [],
            lane_key=row.lane or None,
            request_id=row.request_id,
            model_hint=archive.get("model"),
            context_window=archive.get("window"),
            framework=row.framework,
            restore=not archive.get("closed", False),
            by_hand=archive.get("by_hand", False),
        )

    def messages(self, counted: str | None, estimator: str) -> list[HostMessage]:
        """The host's list; as it was counted then, by the name `counted`, else to be counted anew."""
        tokens = {int(index): n for index, _, n in self.archive.get("system", ())}
        found = []
        for index, place in enumerate(self.places):
            if place is None:
                message = Message(role=Role.SYSTEM, content=self.system.get(index, ""))
                known = None if index in self.system else estimator
                made = HostMessage(message, Origin.SYSTEM)
                made.counted = (counted or known or "", tokens[index])
            else:
                made = self._message(index, self.view.rows[place])
                made.counted = (counted or "", made.counted[1] if made.counted else 0)
            found.append(made)
        return found

    def _message(self, index: int, row: MessageRow) -> HostMessage:
        stored, other = row.message, self.archive.get("differs", {}).get(str(index), {})
        made = HostMessage(
            stored,
            Origin(other.get("origin", row.origin)),
            error=other.get("error", stored.status == "error"),
            protected=other.get("protected", False),
        )
        made.counted = ("", other.get("tokens", row.tokens))
        if other:
            calls = [
                asked.model_copy(update={"id": call_id or asked.id})
                for asked, call_id in zip(stored.tool_calls or (), other["calls"], strict=False)
            ]
            update = {"tool_calls": calls or None, "tool_call_id": other["call_id"]}
            made.message = stored.model_copy(update=update)
        return made

    def given(self) -> Given:
        saved = {int(index): tokens for index, tokens in self.archive.get("saved", {}).items()}
        return Given(_extras(self.archive), saved, self.archive.get("now", ""))

    def bring(self) -> Lanes | tuple[()]:
        """The earlier lanes that could be brought in."""
        log, found = self.view.log, self.archive.get("bring")
        if not found:
            return ()
        before = log.by_message_id(found[0])
        roots = frozenset(n for i in found[1] if (n := log.by_message_id(i)) is not None)
        return Lanes(log, len(log) if before is None else before, self.row.lane, roots)

    def known(self, collected: Collected) -> list[Any]:
        """The materials that the turn had, as far as their sources still give the same."""
        now = {m.id: m for m in collected.materials}
        wanted = self.archive.get("materials", ())
        found = [
            now[i]
            for i, mac in wanted
            if i in now and material_mac(self.fingerprinter, now[i]) == mac
        ]
        told = any(p.code.endswith("MATERIALS") for p in self.problems)
        if len(found) < len(wanted) and not told:
            gone = len(wanted) - len(found)
            self.say("MATERIALS", f"{gone} of {len(wanted)} materials are gone or changed since")
        return found

    def compare(self, estimator: str, pruner: Pruner) -> None:
        """Name what this engine does in another way than the one that recorded."""
        was = self.archive["estimator"]
        if was != estimator:
            self.say("ESTIMATOR", f"counted by {was!r} then, by {estimator!r} here")
        if self.archive["pruner"] != kind_of(pruner):
            self.say("PRUNER", f"{self.archive['pruner']} chose then, {kind_of(pruner)} does here")


def _extras(archive: Mapping[str, Any]) -> dict[str, int]:
    return {"priming": PRIMING, **archive.get("extras", {})}


def _archive(row: TurnRow) -> dict[str, Any]:
    found = row.report.get("extra", {}).get("replay")
    if not isinstance(found, dict):
        raise ReplayUnavailableError(
            f"turn {row.turn_id!r} has no archive to replay it from: it was a helper call, was recorded "
            "by an older release, or with observability.include_reports_in_store = false."
        )
    return found
