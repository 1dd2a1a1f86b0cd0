"""The demo on LlamaIndex: a long session of an agent and a chat engine, offline and over a strict provider."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock

from ce_engine import AdapterError, EvidenceType, Scope, check_invariants, open_store
from ce_engine.cli.demo import DemoOptions, DemoResult
from ce_integrations.demo.documents import installed_packages
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.llamaindex.demo import DEMO
from ce_integrations.llamaindex.demo_model import OfflineLLM
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
    assert len({turn.lane for turn in turns}) == 2
    assert max(turn.report["token_used"] for turn in turns) <= ROOM
    found = document.evidences.values()
    kinds = {EvidenceType.TOOL_RESULT, EvidenceType.RAG_DOC, EvidenceType.LLM_OUTPUT}
    assert {evidence.type for evidence in found} == kinds
    hits = [evidence for evidence in found if evidence.type is EvidenceType.RAG_DOC]
    assert all(hit.source.uri and hit.metadata["doc_version"] for hit in hits)
    assert all(hit.metadata["score"] > 0 for hit in hits)


def test_offline(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    judge(run(url), url)


def test_over_a_strict_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = OfflineLLM(quoting=QuotingModel(frozenset(installed_packages())))

    def answer(body: dict[str, Any]) -> Answer:
        said = model.chat([*map(message, body["messages"])], tools=body.get("tools", ()))
        calls = model.get_tool_calls_from_response(said, error_on_no_tool_call=False)
        if not calls:
            return Answer(content=said.message.content)
        asked = [Call(c.tool_name, json.dumps(c.tool_kwargs), c.tool_id) for c in calls]
        return Answer(calls=tuple(asked))

    url = f"sqlite:///{tmp_path / 'ce.db'}"
    with Wire(answer, single_system=True) as wire:
        monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
        monkeypatch.setenv("OPENAI_MODEL", "quotes-1")
        judge(run(url), url)
        assert wire.refusals == []
        assert max(map(count, wire.bodies)) <= ROOM


def test_an_endpoint_that_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Wire(error(401, "no such key")) as wire:
        monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
        with pytest.raises(AdapterError, match="failed at turn 1 with AuthenticationError"):
            run(f"sqlite:///{tmp_path / 'ce.db'}")


def test_the_offline_model_streams_what_it_says(call: Any) -> None:
    asked = [ChatMessage(role="system", content="A lane is a line."), ChatMessage("A lane?")]
    whole = call(OfflineLLM(), "chat", asked)
    pieces = call(OfflineLLM(), "stream_chat", asked)
    assert "".join(pieces) == "".join(whole) == "A lane is a line."
    assert len(pieces) > 2


def message(said: dict[str, Any]) -> ChatMessage:
    """A message of a body as LlamaIndex has it."""
    blocks: list[Any] = [TextBlock(text=said.get("content") or "")]
    for call in said.get("tool_calls") or ():
        args = json.loads(call["function"]["arguments"])
        told = {"tool_call_id": call["id"], "tool_name": "lookup", "tool_kwargs": args}
        blocks.append(ToolCallBlock(**told))
    beside = {"tool_call_id": said["tool_call_id"]} if "tool_call_id" in said else {}
    return ChatMessage(role=said["role"], blocks=blocks, additional_kwargs=beside)
