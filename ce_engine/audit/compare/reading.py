"""Reads the model calls of recorded sessions from a store."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from sys import intern
from typing import Any

from ce_engine.audit.compare.records import OWN, CallRecord
from ce_engine.audit.operators import operators_scope
from ce_engine.ports.store import Store
from ce_engine.schema.document import Message, ModelUsage, SessionDocument
from ce_engine.schema.enums import AuthorKind, Layer, ModelUsageStatus, ToolCallStatus
from ce_engine.schema.events import Event
from ce_engine.schema.rows import SessionInfo, TurnRow, archive_of
from ce_engine.sessions.spending import cause


CACHED = ("cache_read", "cached_tokens", "cache_read_input_tokens")
"""How providers call the tokens of a prompt that they had in their cache."""


async def read_calls(
    store: Store,
    sessions: Iterable[SessionInfo],
    *,
    since: str = "",
    until: str = "",
    tags: bool = False,
    advance: Callable[[], None] = lambda: None,
) -> list[CallRecord]:
    """The model calls of these sessions, a session after the other.

    Args:
        store: where they are.
        sessions: as the store lists them.
        since: only calls that were prepared then (UTC, ISO 8601) or later; `""` is always.
        until: only calls before then.
        tags: read the A/B tags, too; they stand with the events, of which there are many.
        advance: called before each session.

    Raises:
        SchemaValidationError: a newer release wrote them.
        StoreUnavailableError: the store cannot be read now.
    """
    calls: list[CallRecord] = []
    for info in sessions:
        advance()
        if info.updated_at < since or (until and info.created_at >= until):
            continue
        scope = await operators_scope(store, info)
        document = await store.get_session(scope)
        if document is None:  # deleted meanwhile
            continue
        turns = await store.list_turns(scope)
        events = await store.list_events(scope) if tags else []
        calls += [replace(call, user=info.user_id) for call in calls_of(document, turns, events)]
    return [call for call in calls if since <= call.at and not (until and call.at >= until)]


def calls_of(
    document: SessionDocument, turns: Sequence[TurnRow], events: Sequence[Event] = ()
) -> list[CallRecord]:
    """The model calls of one session: the app's, one for each turn in their order, then the engine's own."""
    return _Session(document, turns, events).calls()


class _Session:
    """One session, with its parts by id."""

    def __init__(
        self, document: SessionDocument, turns: Sequence[TurnRow], events: Sequence[Event]
    ) -> None:
        self.document = document
        self.turns = turns
        session = document.session
        self.usages = {usage.model_usage_id: usage for usage in session.model_usage}
        self.messages = {m.message_id: m for m in session.messages if m.message_id}
        self.tags = _tags(events)
        self.tools = self._tools()

    def calls(self) -> list[CallRecord]:
        """The app's calls, then those that the engine made itself, such as summaries."""
        calls = [self._call(row) for row in self.turns]
        app_usage_ids = {row.model_usage_id for row in self.turns}
        own = [usage for usage in self.usages.values() if usage.model_usage_id not in app_usage_ids]
        if not own:
            return calls
        framework = _only(call.framework for call in calls)
        time_of = {
            evidence.links.model_usage_id: str(evidence.metadata.get("created_at", ""))
            for evidence in self.document.evidences.values()
        }
        times = (time_of.get(usage.model_usage_id, "") for usage in own)
        return calls + [
            self._own(usage, at, framework) for usage, at in zip(own, times, strict=True)
        ]

    def _call(self, row: TurnRow) -> CallRecord:
        answer = self.messages.get(row.answer_message_id or "")
        usage = self.usages.get(row.model_usage_id or "")
        tools = self.tools[row.turn_id]
        fields = {
            "session": self.document.session.session_id,
            "at": row.opened_at,
            "framework": row.framework,
            "agent": _agent(answer) or row.lane,
            "tags": self.tags.get(row.turn_id) or self.tags.get(row.request_id) or {},
            "status": row.status.value,
            "attempts": row.attempt,
            "tool_calls": tools.total(),
            "tool_errors": tools.total() - tools[ToolCallStatus.SUCCESS],
            **_of_report(row.report),
            **_of_usage(usage),
        }
        evidence_ids = frozenset(ref.evidence_id for ref in (answer.refs if answer else None) or ())
        return CallRecord(**{**fields, "evidence": evidence_ids.union(fields.get("evidence", ()))})

    def _own(self, usage: ModelUsage, at: str, framework: str) -> CallRecord:
        return CallRecord(
            session=self.document.session.session_id,
            at=at,
            framework=framework,
            agent=OWN,
            status="failed" if usage.status is ModelUsageStatus.ERROR else "committed",
            sent=usage.prompt_tokens,
            **_of_usage(usage),
        )

    def _tools(self) -> dict[str, Counter[ToolCallStatus]]:
        """How the tool calls of each turn ended.

        A call is of the turn whose answer asked for it. One that no answer asked for, such as a
        retrieval, is of the turn that came next, for which it was made, else of the last one.
        """
        counts: dict[str, Counter[ToolCallStatus]] = {row.turn_id: Counter() for row in self.turns}
        turn_of = {
            row.answer_message_id: row.turn_id for row in self.turns if row.answer_message_id
        }
        opened = sorted((row.opened_at, row.turn_id) for row in self.turns)
        for call in self.document.session.tool_state.tool_calls if opened else ():
            turn_id = turn_of.get(call.tool_call_id.rpartition(":")[0])
            if turn_id is None:
                place = bisect_right(opened, (call.called_at, ""))
                turn_id = opened[min(place, len(opened) - 1)][1]
            counts[turn_id][call.status] += 1
        return counts


def _of_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """What a report tells, as it is stored: a session has thousands, and of each a few figures count."""
    if "stable_prefix_hash" not in report:  # every stored report has one
        return {}
    model = archive_of(report).get("model")
    fields = {
        "model": model if isinstance(model, str) else "",
        "sent": report.get("token_used", 0),
        "prefix": report.get("prefix_tokens_unchanged"),
        "left_out": max(0, report.get("dropped", 0)) + report.get("orphans_removed", 0),
        "shortened": report.get("shortened", 0),
        "over_budget": report.get("over_budget", False),
        "evidence": report.get("injected_evidence_ids", ()),
        "redacted": frozenset(
            redaction["evidence_id"] for redaction in report.get("redactions", ())
        ),
        "counter": intern(str(report.get("estimator", ""))),
        "degradations": tuple(
            dict.fromkeys(code.partition(":")[0] for code in report.get("degradations", ()))
        ),
    }
    if without := report.get("untouched"):
        retrieved = report.get("layers", {}).get(Layer.RETRIEVED.value) or {}
        fields |= {
            "untouched": without["tokens"],
            "untouched_prefix": without.get("prefix"),
            "put_in": without.get("put_in", 0),
            "beside": without.get("by", "app"),
            "cause": cause(
                report.get("prefix_broken_by", ""),
                is_retrieved=bool(report.get("restored") or retrieved.get("tokens")),
                is_inserted=bool(report.get("inserted")),
            ),
        }
    return fields


def _of_usage(usage: ModelUsage | None) -> dict[str, Any]:
    """What a usage tells; the model that answered, where it names one."""
    if usage is None:
        return {}
    is_told = bool(usage.prompt_tokens) and not usage.params.get("estimated")
    return {
        **({"model": usage.model} if usage.model else {}),
        "provider": usage.provider,
        "estimated": bool(usage.params.get("estimated")),
        "prompt": usage.prompt_tokens if is_told else None,
        "completion": usage.completion_tokens,
        "cached": next(
            (n for name in CACHED if isinstance(n := usage.params.get(name), int)), None
        ),
        "from_cache": bool(usage.params.get("cached")),
        "latency_ms": usage.latency_ms or None,
        "first_token_ms": usage.first_token_latency_ms,
    }


def _agent(answer: Message | None) -> str:
    author = answer.author if answer else None
    return author.id if author and author.kind is AuthorKind.AGENT else ""


def _tags(events: Iterable[Event]) -> dict[str, dict[str, str]]:
    """The tags of each turn, by its id and by that of its request."""
    tags: dict[str, dict[str, str]] = {}
    for event in events:
        for key in (event.turn_id, event.request_id):
            if key and event.tags:
                tags.setdefault(key, event.tags)
    return tags


def _only(values: Iterable[str]) -> str:
    """The value that all have, or `""`."""
    different = set(values)
    return different.pop() if len(different) == 1 else ""
