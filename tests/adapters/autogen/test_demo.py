"""The demo on AutoGen: a long session of two agents, offline and over a strict provider, within the budget."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from ce_engine import AdapterError, EvidenceType, Scope, check_invariants, open_store
from ce_engine.cli.demo import DemoOptions, DemoResult
from ce_integrations.autogen.demo import DEMO
from ce_integrations.autogen.demo_model import OfflineClient
from ce_integrations.demo.documents import installed_packages
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.testing.contract_case import count
from ce_integrations.testing.wire import Answer, Call, Wire, error


TURNS = 30
BUDGET = 2000
ROOM = 1500  # a quarter of a small budget is kept for the reply


def run(url: str) -> DemoResult:
    return DEMO.run(DemoOptions(turns=TURNS, budget=BUDGET, store_url=url), lambda *_: None)


def judge(result: DemoResult, url: str) -> None:
    """What holds of every run."""
    assert result.found == result.asked == 5
    assert result.tokens_with < result.tokens_without / 2

    async def read() -> Any:
        store, scope = open_store(url), Scope(session_id=result.session_id)
        try:
            return await store.get_session(scope), await store.list_turns(scope)
        finally:
            await store.close()

    document, turns = asyncio.run(read())
    assert check_invariants(document) == []
    assert {turn.status for turn in turns} == {"committed"}
    assert {turn.lane for turn in turns} == {"agent", "reader"}
    assert max(turn.report["token_used"] for turn in turns) <= ROOM
    kinds = {evidence.type for evidence in document.evidences.values()}
    assert kinds == {EvidenceType.TOOL_RESULT, EvidenceType.RAG_DOC, EvidenceType.LLM_OUTPUT}
    authors = {m.author.id for m in document.session.messages if m.author is not None}
    assert {"user", "agent", "reader"} <= authors


def test_offline(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    judge(run(url), url)


def test_over_a_strict_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = OfflineClient(QuotingModel(frozenset(installed_packages())))

    def answer(body: dict[str, Any]) -> Answer:
        tools = [tool["function"] for tool in body.get("tools", ())]
        said = asyncio.run(model.create([*map(message, body["messages"])], tools=tools))
        if isinstance(said.content, str):
            return Answer(content=said.content)
        return Answer(calls=tuple(Call(c.name, c.arguments, c.id) for c in said.content))

    url = f"sqlite:///{tmp_path / 'ce.db'}"
    with Wire(answer, single_system=True) as wire:
        monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
        monkeypatch.setenv("OPENAI_MODEL", "quotes-1")
        judge(run(url), url)
        assert wire.refusals == []
        assert max(map(count, wire.bodies)) <= ROOM


def test_an_endpoint_that_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Wire(error(500, "overloaded")) as wire:
        monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
        with pytest.raises(AdapterError, match="failed at turn 1 with InternalServerError"):
            run(f"sqlite:///{tmp_path / 'ce.db'}")


def message(said: dict[str, Any]) -> LLMMessage:
    """A message of a body as AutoGen has it."""
    content = said.get("content") or ""
    if said["role"] == "system":
        return SystemMessage(content=content)
    if said["role"] == "user":
        return UserMessage(content=content, source="user")
    if said["role"] == "tool":
        result = FunctionExecutionResult(
            content=content, name="lookup", call_id=said["tool_call_id"], is_error=False
        )
        return FunctionExecutionResultMessage(content=[result])
    calls = [
        FunctionCall(call["id"], json.dumps(json.loads(call["function"]["arguments"])), "lookup")
        for call in said.get("tool_calls") or ()
    ]
    return AssistantMessage(content=calls or content, source="agent")
