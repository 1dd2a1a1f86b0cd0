"""A session's log in few tokens: summaries of what is old, and the newest events that matter (B-15)."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter

from ce_engine.config import CompactionConfig
from ce_engine.errors import SummarizerError
from ce_engine.memory.summary_schedule import SummaryMethods
from ce_engine.schema.document import Summary
from ce_engine.schema.events import CompactLog, Event
from ce_engine.schema.json_text import canonical_json
from ce_engine.schema.scope import Scope, as_scope
from ce_engine.sessions.summary_coverage import coverage_of


KEY_KINDS = frozenset({"user_input", "tool_result", "aggregate", "final", "error", "hitl"})
"""Kinds of events that are kept, the newest of them."""


class CompactionMethods(SummaryMethods):
    """Reads a log so that a person, a model or a package for either has room for it."""

    async def compact(
        self, session_id: Scope | str, config: CompactionConfig | None = None
    ) -> CompactLog:
        """The session's log, as compact as its length asks for; nothing of it is changed.

        Below `threshold_low` tokens it is whole, below `threshold_high` its newest key events are left.
        Above, lines of conversation are summed up by now where the engine has a model, and their
        summaries stand for older messages; a key message that none stands for stays.

        Args:
            session_id: whose log.
            config: else the engine's.
        """
        scope, config = as_scope(session_id), config or self.config.compaction
        events = await self.list_events(scope)
        costs = {event.event_id: self._cost(event) for event in events}
        before = sum(costs.values())
        if before < config.threshold_low:
            return CompactLog("none", before, before, events=events)
        summaries, covered = list[Summary](), set[str]()
        if before >= config.threshold_high:
            summaries, covered = await self.loop.share(self._summed_up(scope))
        key = [event for event in events if event.kind in KEY_KINDS]
        kept_ids = {event.event_id for event in key[len(key) - min(len(key), config.last_events) :]}
        if summaries:
            kept_ids |= {event.event_id for event in key if _message(event) not in {"", *covered}}
        return CompactLog(
            strategy="summary" if before >= config.threshold_high else "key_events",
            tokens_before=before,
            tokens=sum(costs[name] for name in kept_ids) + sum(map(self._length, summaries)),
            summaries=summaries,
            events=[event for event in events if event.event_id in kept_ids],
            left_out=Counter(event.kind for event in events if event.event_id not in kept_ids),
        )

    @abstractmethod
    async def list_events(self, session_id: Scope | str) -> list[Event]:
        """The stored events of a session in their order."""

    def _cost(self, event: Event) -> int:
        """Tokens of what an event tells of: of its message, else of its payload."""
        return event.token_estimate or self._text_tokens(canonical_json(event.payload))

    def _length(self, summary: Summary) -> int:
        return self._text_tokens(summary.content)

    def _text_tokens(self, text: str) -> int:
        return self.estimator.estimate_text(text, self.config.model_hint)

    async def _summed_up(self, scope: Scope) -> tuple[list[Summary], set[str]]:
        """The summaries of the session's lines, made now as far as they can be, and whose messages they are."""
        async with self._locks.hold(scope.key):
            view = await self._existing_view(scope)
        if view is None:
            return [], set()
        if self.summarizer is not None:
            now = self.config.summary.model_copy(
                update={"enabled": True, "trigger_message_count": 1}
            )
            for lane_key in dict.fromkeys(row.lane_key for row in view.rows):
                try:
                    await self._summarize(scope, lane_key, now)
                except SummarizerError:
                    continue  # told as a degradation; what was there before stands
        async with self._locks.hold(scope.key):
            view = await self._existing_view(scope)
            rows = list(view.summaries.values()) if view is not None else []
            pairs = [(row, c) for row in rows if view and (c := coverage_of(view, row)) is not None]
            entries = {n for _, coverage in pairs for n in coverage.entries}
            covered = {view.log[n].message_id for n in entries} if view is not None else set()
        pairs.sort(key=lambda pair: min(pair[1].entries, default=0))
        return [row.summary for row, _ in pairs], covered


def _message(event: Event) -> str:
    return str(event.payload.get("message_id", ""))
