"""Stores with calls of several frameworks whose figures a test knows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ce_engine import (
    ObservabilityConfig,
    RuntimeConfig,
    Scope,
    StoreConfig,
    ToolRun,
    Usage,
    create_context_engine,
    open_store,
)
from ce_engine.schema.document import ModelUsage
from ce_engine.schema.enums import ToolCallStatus, TurnStatus
from ce_engine.schema.report import Report, Untouched
from ce_engine.schema.rows import AppendModelUsage, CreateSession, PutTurn, TurnRow, Write
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user


@dataclass
class Told:
    """One call as a store keeps it."""

    framework: str = "acme"
    agent: str = "planner"
    model: str = "m-1"
    sent: int = 100
    before: int = 400
    prefix: int | None = 40
    prompt: int = 90
    completion: int = 10
    latency_ms: int = 20
    at: str = "2026-11-20T10:00:00.000Z"
    status: TurnStatus = TurnStatus.COMMITTED
    params: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)


def put(
    url: str, session: str, calls: Sequence[Told], user_id: str = "", more: Sequence[Write] = ()
) -> None:
    """Write these calls as one session, without an engine; `more` is written with them."""
    scope = Scope(session_id=session, user_id=user_id)

    async def write() -> None:
        store = open_store(url)
        made = CreateSession(b"salt", "key", at=calls[0].at)
        await store.apply(scope, [made, *_writes(session, calls), *more])
        await store.close()

    asyncio.run(write())


def _writes(session: str, calls: Sequence[Told]) -> list[Write]:
    writes: list[Write] = []
    for number, call in enumerate(calls):
        turn_id, usage_id = f"{session}-turn-{number}", f"{session}-usage-{number}"
        report = Report(
            turn_id=turn_id,
            token_used=call.sent,
            tokens_before=call.before,
            prefix_tokens_unchanged=call.prefix,
            stable_prefix_hash="mac:1",
            **{"untouched": Untouched(tokens=call.before, prefix=call.prefix), **call.report},
        ).model_dump(mode="json", exclude={"turn_id"})
        row = TurnRow(
            turn_id,
            f"request-{number}",
            call.agent,
            call.status,
            framework=call.framework,
            opened_at=call.at,
            closed_at=call.at,
            model_usage_id=usage_id,
            report=report,
        )
        usage = ModelUsage(
            model_usage_id=usage_id,
            provider="p",
            model=call.model,
            params=call.params,
            prompt_tokens=call.prompt,
            completion_tokens=call.completion,
            latency_ms=call.latency_ms,
        )
        writes += [PutTurn(row), AppendModelUsage([usage], turn_id)]
    return writes


def talk(url: str, session: str, framework: str, variant: str) -> None:
    """A talk through the engine: two tools of which one fails, a mail address, an A/B tag."""
    config = RuntimeConfig(
        observability=ObservabilityConfig(tags={"variant": variant}),
        store=StoreConfig(deadline_s=30),
    )
    engine = create_context_engine(url, config=config)
    scope = Scope(session_id=session, user_id="张伟")
    app = HostApp(engine, scope, [system("You help.")], framework)
    asked = app.prepare(user("写信给 zhang.wei@example.com，奥斯陆天气如何?"))
    calls = tool_calls(("call_0", "weather", {"city": "奥斯陆"}), ("call_1", "mail", {}))
    app.commit(asked, calls, Usage(40, 5, 45, latency_ms=30, details={"cache_read": 32}))
    for run in (
        ToolRun("weather", {"city": "奥斯陆"}, "4 度", "run-1", "call_0", duration_ms=7),
        ToolRun("mail", {}, "no such server", "run-2", "call_1", status=ToolCallStatus.ERROR),
    ):
        engine.post_tool_run(scope, run, request_id="request-1", framework=framework)
    results = (tool_result("call_0", "4 度"), tool_result("call_1", "no such server", error=True))
    answering = app.prepare(*results, new_request=False)
    usage = Usage(60, 6, 66, latency_ms=50, first_token_latency_ms=9)
    app.commit(answering, assistant("4 度，邮件没有发出。"), usage)
    engine.sync.close()
