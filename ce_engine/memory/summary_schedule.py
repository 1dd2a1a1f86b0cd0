"""Makes summaries in the background, outside the session's lock, and records them (A-16)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ce_engine.config import SummaryConfig
from ce_engine.errors import (
    ConfigError,
    ContextEngineError,
    StoreUnavailableError,
    SummarizerError,
)
from ce_engine.memory.rolling_summarizer import RollingSummarizer, ends_turn
from ce_engine.memory.summary_layers import LayeredSummarizer
from ce_engine.memory.summary_records import SummaryMaterial, record_failure, record_summary
from ce_engine.ports.llm import LlmAdapter
from ce_engine.prepare.reconcile.earlier_lanes import EarlierLanes
from ce_engine.prepare.reconcile.reconcile import had_history
from ce_engine.runtime.background import Background
from ce_engine.runtime.locks import KeyedLocks
from ce_engine.runtime.own_calls import OwnCall, Summarizer, own_calls
from ce_engine.runtime.telemetry import describe
from ce_engine.schema.document import Message, MessageIndexRange, Session, Summary
from ce_engine.schema.enums import TaskStatus
from ce_engine.schema.rows import UpsertTasks
from ce_engine.schema.scope import Scope, as_scope
from ce_engine.sessions.summary_coverage import standing, uncovered
from ce_engine.sessions.view import BoundedDict, OpenTurn, SessionView
from ce_engine.text.tokens.call_tokens import Counter
from ce_engine.turns.engine_base import EngineBase
from ce_engine.turns.opt_out import opts_out
from ce_engine.turns.record.write_group import RecordGroup
from ce_engine.turns.report.telemetry import of_own_calls


PASSES = 8
"""Summaries in a row for one lane, where what is new does not fit into one; the rest waits for the next turn."""

MOST_SKIPPED = 63
"""Turns without an attempt, at most, after many failures of a lane's summaries."""

Aim = Callable[[SessionView], tuple[int, EarlierLanes | None] | None]
"""Finds the newest entry of a line, and the lanes before it where the host sends no history."""


class SummaryMethods(EngineBase):
    """Keeps a summary of each line of conversation that grows long.

    It is made after a turn, on the engine's own loop, at most one a lane at a time; no turn waits for
    it: prepare uses what is there. Where it fails, the messages go on as they are.
    """

    def _begin_summaries(self, llm: LlmAdapter | None, summarizer: Summarizer | None) -> None:
        if summarizer is None and llm is not None:
            layered = self.config.summary.strategy == "layers"
            summarizer = (LayeredSummarizer if layered else RollingSummarizer)(
                llm, self.estimator, locale=self.config.locale, clock=self.clock
            )
        self.summarizer = summarizer
        self._background = Background(self.loop)
        self._lanes = KeyedLocks()
        self._failures: BoundedDict[Any, tuple[int, int]] = BoundedDict(1000)

    async def summarize(
        self, session_id: Scope | str, lane: str | None = None, *, only_if_due: bool = False
    ) -> Summary | None:
        """Summarise a line of conversation now, all but its last messages; give its newest summary.

        Args:
            session_id: whose conversation.
            lane: the `lane_key` of its line; else that of the scope's agent.
            only_if_due: not before the triggers of `SummaryConfig` say so.

        Raises:
            ConfigError: the engine has no model for summaries.
            SummarizerError: it could not be made; what was there before stands.
        """
        if self.summarizer is None:
            raise ConfigError(
                "the engine has no model for summaries: give it one, "
                "create_context_engine(..., llm_adapter=...), or a summarizer of your own"
            )
        scope = as_scope(session_id)
        config = self.config.summary if only_if_due else _at_once(self.config.summary)
        lane_key = scope.agent_id if lane is None else lane
        return await self.loop.share(self._summarize(scope, lane_key, config))

    async def _summarize(
        self, scope: Scope, lane_key: str, config: SummaryConfig
    ) -> Summary | None:
        aim = partial(_newest, lane_key)
        while await self._pass(scope, lane_key, aim, config):
            pass
        view = self._sessions.peek(scope)
        if view is None or (target := aim(view)) is None:
            return None
        coverage = standing(view, *target)
        return coverage.row.summary if coverage is not None else None

    def _summarize_soon(self, opened: object) -> None:
        """After a turn was committed: see whether its line needs a summary."""
        if self.summarizer is None or not isinstance(opened, OpenTurn):
            return
        config, row, scope = opened.config or self.config, opened.row, opened.handle.scope
        is_wanted = config.summary.enabled and config.enable_share_context
        if not is_wanted or row.purpose != "chat" or row.answer_message_id is None:
            return
        key = (scope.key, row.lane)
        if config.summary.idle_s is not None:
            later = partial(self._pursue_lane, scope, row.lane, _at_once(config.summary))
            self._background.later(key, config.summary.idle_s, later)
        failures, skips = self._failures.get(key, (0, 0))
        if skips:
            self._failures[key] = failures, skips - 1
            return
        aim = partial(_line_to, row.answer_message_id, row.lane, restores=opened.restores)
        self._background.ask(key, lambda: self._pursue(scope, row.lane, aim, config.summary))

    def _summarize_on(self, records: RecordGroup) -> None:
        """See whether what was just recorded is a reason for a summary (`SummaryConfig.on_events`)."""
        config, view = self.config.summary, records.view
        if not config.on_events or self.summarizer is None or not config.enabled:
            return
        if not records.may_sum_up:
            return
        if not view.rows or view.head.ephemeral or config.on_events.isdisjoint(_kinds(records)):
            return
        scope, lane_key = view.scope, view.rows[-1].lane_key
        work = partial(self._pursue_lane, scope, lane_key, _at_once(config))
        self._background.ask((scope.key, lane_key), work)

    async def _pursue_lane(self, scope: Scope, lane_key: str, config: SummaryConfig) -> None:
        await self._pursue(scope, lane_key, partial(_newest, lane_key), config)

    async def _pursue(self, scope: Scope, lane_key: str, aim: Aim, config: SummaryConfig) -> None:
        if opts_out(self.config, scope):
            return  # what was said before is there still, and is not to be read once more
        key = (scope.key, lane_key)
        try:
            for _ in range(PASSES):
                if not await self._pass(scope, lane_key, aim, config):
                    return
                self._failures.pop(key, None)
        except SummarizerError:
            failures = self._failures.get(key, (0, 0))[0] + 1
            self._failures[key] = failures, min(2 ** (failures - 1) - 1, MOST_SKIPPED)
        except ContextEngineError:
            return  # the store is away: the next turn tries again

    async def _pass(self, scope: Scope, lane_key: str, aim: Aim, config: SummaryConfig) -> bool:
        """Make one summary where it is time; false where it is not, or somebody else made it."""
        assert self.summarizer is not None
        async with self._lanes.hold((scope.key, lane_key)):
            due = await self._gather(scope, lane_key, aim)
            if due is None:
                return False
            calls: list[OwnCall] = []
            counter = Counter(self.estimator, self.config.model_hint)
            try:
                with self._telemetry.operation("summary") as opened, own_calls() as calls:
                    summary = await self._make_summary(self.summarizer, scope, due, config)
                    opened.is_told = summary is not None
                    describe(lambda: of_own_calls(call.response for call in calls))
                if summary is None:
                    return False
                await self._number(scope)
                record = partial(
                    record_summary, due=due, summary=summary, calls=calls, counter=counter
                )
                return bool(await self._record(scope, record, as_known=True, wait=True))
            except SummarizerError:
                failed = partial(record_failure, due=due, calls=calls, counter=counter)
                with suppress(ContextEngineError):
                    await self._record(scope, failed, as_known=True)
                raise

    async def _make_summary(
        self, summarizer: Summarizer, scope: Scope, due: SummaryMaterial, config: SummaryConfig
    ) -> Summary | None:
        """What the summarizer makes of it, within its time; `None` where it is not time yet."""
        session = Session(
            session_id=scope.session_id, messages=list(due.messages), summary=due.existing
        )
        try:
            async with asyncio.timeout(config.timeout_s):
                if not await summarizer.should_summarize(session, config):
                    return None
                summary = await summarizer.summarize(due.messages, due.existing, config)
        except TimeoutError:
            raise SummarizerError(
                f"no summary within {config.timeout_s} s (summary.timeout_s)"
            ) from None
        except SummarizerError:
            raise
        except Exception as error:  # a summarizer of somebody else's may raise anything
            raise SummarizerError(f"the summarizer raised {type(error).__name__}") from error
        _check(summary, due.messages)
        return summary

    async def _gather(self, scope: Scope, lane_key: str, aim: Aim) -> SummaryMaterial | None:
        """What no summary stands for yet, under the session's lock; nothing of one that is not there."""
        async with self._locks.hold(scope.key):
            view = await self._existing_view(scope)
            if view is None or view.head.ephemeral or view.head.is_deleted:
                return None
            target = aim(view)
            return None if target is None else _due(view, _as_stored(view, lane_key), *target)

    async def _number(self, scope: Scope) -> None:
        """Learn the messages' numbers: they say where in the session's list the summary ends."""
        await self._journal.settle(scope)
        async with self._locks.hold(scope.key):
            if (view := self._sessions.peek(scope)) is not None:
                with suppress(StoreUnavailableError):
                    await self._sessions.number(view)


def _at_once(config: SummaryConfig) -> SummaryConfig:
    """The configuration for a summary that has another reason than how much there is."""
    return config.model_copy(update={"enabled": True, "trigger_message_count": 1})


def _kinds(records: RecordGroup) -> set[str]:
    tasks = (t for w in records.writes if isinstance(w, UpsertTasks) for t in w.tasks)
    done = any(task.status is TaskStatus.COMPLETED for task in tasks)
    return {event.kind for event in records.events} | ({"task_done"} if done else set())


def _newest(lane_key: str, view: SessionView) -> tuple[int, EarlierLanes | None] | None:
    """The newest line of a lane that has an answer, up to the last one."""
    log, lane_key = view.log, _as_stored(view, lane_key)
    root = log.newest_root(lane_key)
    while root is not None:
        earlier = EarlierLanes(log, before=root, lane_key=lane_key)
        tip = log.leaf(root)
        while tip is not None and (log[tip].role != "assistant" or log[tip].calls):
            tip = log[tip].parent
        if tip is not None:
            return tip, None if had_history(log, root) else earlier
        root = next(earlier.roots(), None)
    return None


def _as_stored(view: SessionView, lane_key: str) -> str:
    """The lane's name as the session's rows have it: a host may put anything into one."""
    if view.redactor is not None and view.log.newest_root(lane_key) is None:
        with suppress(Exception):  # a redactor of somebody else's may raise anything
            return view.redactor.text(lane_key).text
    return lane_key


def _line_to(
    message_id: str, lane_key: str, view: SessionView, *, restores: bool
) -> tuple[int, EarlierLanes | None] | None:
    tip = view.log.by_message_id(message_id)
    if tip is None:
        return None
    before = view.log.root(tip)
    return tip, EarlierLanes(view.log, before=before, lane_key=lane_key) if restores else None


def _due(
    view: SessionView, lane_key: str, tip: int, earlier: EarlierLanes | None
) -> SummaryMaterial | None:
    coverage = standing(view, tip, earlier)
    entries = [
        n for n in uncovered(view, tip, earlier, coverage) if _says_something(view.rows[n].message)
    ]
    if not entries:
        return None
    existing = None
    if coverage is not None:
        covered = MessageIndexRange(from_index=-len(coverage.entries), to_index=-1)
        existing = coverage.row.summary.model_copy(update={"message_index_range": covered})
    return SummaryMaterial(
        lane_key,
        [view.log[n].message_id for n in entries],
        [view.rows[n].message for n in entries],
        existing,
        coverage.row.anchor_message_id if coverage is not None else None,
        view.head.epoch,
    )


def _says_something(message: Message) -> bool:
    return bool(message.content or message.tool_calls)


def _check(summary: Summary, messages: Sequence[Message]) -> None:
    """Refuse a summary that says it covers what it was not given, or half of a turn."""
    end = summary.message_index_range.to_index + 1
    if not 0 < end <= len(messages):
        raise SummarizerError(f"a summary covers up to message {end - 1} of {len(messages)}")
    if not ends_turn(messages, end):
        raise SummarizerError(
            f"a summary ends inside a turn, behind message {end - 1} of {len(messages)}. End behind an "
            "answer: before the next message of a user, or with the last answer that asks for no tools."
        )
    if not summary.content.strip():
        raise SummarizerError("a summary is empty")
