"""Has answers judged by their owner's constraints, in the background, and records what they break (D-15)."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from ce_engine.config import RuntimeConfig
from ce_engine.errors import ConfigError, ContextEngineError, JudgeError, TurnNotFoundError
from ce_engine.ports.context import Judge
from ce_engine.runtime.own_calls import OwnCall, own_calls
from ce_engine.schema.degradation import Degradation
from ce_engine.schema.enums import ModelUsageStage
from ce_engine.schema.events import EventType
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.scope import Scope, as_scope
from ce_engine.schema.settings import Constraint
from ce_engine.sessions.view import OpenTurn
from ce_engine.text.redaction.spelled_out import lettered
from ce_engine.text.tokens.call_tokens import Counter
from ce_engine.turns.engine_base import EngineBase
from ce_engine.turns.record.own_calls import record_own_calls
from ce_engine.turns.record.write_group import RecordGroup, put_turn


class JudgeMethods(EngineBase):
    """Marks the turn of an answer that breaks a constraint; the answer itself reaches the app as it is.

    The judge is asked after the turn, on the engine's own loop: no call waits for it, and a fault of
    its own costs nothing but the judgement.
    """

    judge: Judge | None

    async def violations(
        self, session_id: Scope | str, turn_id: str | None = None
    ) -> list[Constraint]:
        """The constraints that an answer breaks, once the judge has looked at it: ask again, or go on.

        Args:
            session_id: whose conversation.
            turn_id: of the answer; else that of the session's newest turn.

        Raises:
            ConfigError: the engine has no judge.
            TurnNotFoundError: there is no such turn.
            JudgeError: the judge failed, or is not done in time (`judge.timeout_s`).
        """
        if self.judge is None:
            raise ConfigError(
                "the engine has no judge: give it one, create_context_engine(..., judge=RuleJudge())"
            )
        scope, seconds = as_scope(session_id), self.config.judge.timeout_s
        row = _turn(await self.list_turns(scope), turn_id)
        if not await self._background.ended(_key(row), seconds):
            raise JudgeError(f"the answer is not judged within {seconds} s (judge.timeout_s)")
        report = _turn(await self.list_turns(scope), row.turn_id).report
        if JudgeError.code in report.get("degradations", ()):
            raise JudgeError("the judge failed, or had nothing to judge; see: ce report")
        if not (broken := set(report.get("violations", ()))):
            return []
        owned = await self.loop.share(self._settings.owned(scope, None))
        rules = owned.trusted(self.config).constraints
        return [rule for rule in rules if rule.constraint_id in broken]

    @abstractmethod
    async def list_turns(self, session_id: Scope | str) -> list[TurnRow]:
        """The turns of a session in order of opening."""

    def _judge_soon(self, opened: object) -> None:
        """After a turn was committed: have its answer judged."""
        if self.judge is None or not isinstance(opened, OpenTurn):
            return
        config, row = opened.config or self.config, opened.row
        if config.judge.enabled and row.purpose == "chat" and row.answer_message_id is not None:
            work = partial(self._judged, self.judge, opened, config)
            self._background.ask(_key(row), work)

    async def _judged(self, judge: Judge, opened: OpenTurn, config: RuntimeConfig) -> None:
        scope, calls = opened.handle.scope, list[OwnCall]()
        broken: list[str] | None = None
        try:
            async with asyncio.timeout(config.judge.timeout_s):
                rules = (await self._settings.owned(scope, None)).trusted(config).constraints
                answer = await self._answer(scope, opened.row) if rules else ""
                if answer == "":
                    return
                rules = [r.model_copy(update={"text": lettered(r.text)}) for r in rules]
                with own_calls() as calls:
                    broken = _constraint_ids(await judge.judge(answer, rules), rules)
        except Exception:  # noqa: BLE001 - a judge of somebody else's may raise anything
            broken = None
        counter = Counter(self.estimator, self.config.model_hint)
        record = partial(record_judgement, turn=opened, broken=broken, calls=calls, counter=counter)
        with suppress(ContextEngineError):  # the store is away, or the session was deleted
            await self._record(scope, record, turn=opened.handle)

    async def _answer(self, scope: Scope, row: TurnRow) -> str:
        """The answer as it is stored; empty where it only asks for tools, or is not there any more.

        Raises:
            JudgeError: it is stored without content, so that there is nothing to judge.
        """
        async with self._locks.hold(scope.key):
            view = await self._existing_view(scope)
            n = view.log.by_message_id(row.answer_message_id or "") if view else None
            if view is None or n is None:
                return ""
            if view.rows[n].withheld:
                raise JudgeError("the answer is stored without content")
            return view.rows[n].message.content


def _key(row: TurnRow) -> tuple[str, str]:
    return "judge", row.turn_id


def _turn(turns: Sequence[TurnRow], turn_id: str | None) -> TurnRow:
    """The turn of this id, else the newest."""
    for row in reversed(turns):
        if turn_id in (None, row.turn_id):
            return row
    raise TurnNotFoundError(f"the session has no turn {turn_id or ''!r}; see: ce report")


def _constraint_ids(ids: Iterable[str], rules: Sequence[Constraint]) -> list[str]:
    """The constraints that a judge named, each once, in their order; ids of none are passed over."""
    names = set(ids)
    return [rule.constraint_id for rule in rules if rule.constraint_id in names]


def record_judgement(
    records: RecordGroup,
    *,
    turn: OpenTurn,
    broken: Sequence[str] | None,
    calls: Sequence[OwnCall],
    counter: Counter,
) -> None:
    """Record which constraints an answer breaks; `None`, that nobody could say."""
    row = turn.row
    if records.view.log.by_message_id(row.answer_message_id or "") is None:
        return  # deleted meanwhile
    if calls:
        record_own_calls(records, calls, counter, ModelUsageStage.OTHER)
    ids = {"turn_id": row.turn_id, "request_id": row.request_id}
    if broken is None:
        degradation = Degradation(JudgeError.code)
        turn.report.degradations.append(degradation.code)
        row.report = {**row.report, "degradations": turn.report.degradations}
        records.events.append(
            records.ingest.event(degradation.event_type, payload=degradation.payload, **ids)
        )
    elif broken:
        turn.report.violations = list(broken)
        row.report = {**row.report, "violations": list(broken)}
        payload = {"message_id": row.answer_message_id, "constraint_ids": list(broken)}
        kind = EventType.CONSTRAINT_VIOLATED
        records.events.append(records.ingest.event(kind, payload=payload, **ids))
    else:
        return
    records.writes.append(put_turn(row))
