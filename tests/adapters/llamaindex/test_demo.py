"""The demo on LlamaIndex: a long session of an agent and a chat engine, offline and over a strict provider."""

from __future__ import annotations

import json
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock

from ce_engine import EvidenceType
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.llamaindex.demo import DEMO
from ce_integrations.llamaindex.demo_model import OfflineLLM
from ce_integrations.testing.answers import Answer, Call, JsonObject
from tests.adapters.demos import PACKAGES, DemoTests, Run


class TestDemo(DemoTests):
    demo = DEMO
    is_calibrated = True

    @classmethod
    def answer(cls, body: JsonObject) -> Answer:
        model = OfflineLLM(quoting=QuotingModel(frozenset(PACKAGES)))
        said = model.chat([*map(message, body["messages"])], tools=body.get("tools", ()))
        calls = model.get_tool_calls_from_response(said, error_on_no_tool_call=False)
        if not calls:
            return Answer(content=said.message.content)
        asked = [Call(c.tool_name, json.dumps(c.tool_kwargs), c.tool_id) for c in calls]
        return Answer(calls=tuple(asked))

    def test_each_of_the_two_has_its_lane(self, ran: Run) -> None:
        assert len({turn.lane for turn in ran.turns}) == 2

    def test_each_kind_of_evidence_is_there_and_hits_have_scores(self, ran: Run) -> None:
        found = ran.document.evidences.values()
        kinds = {EvidenceType.TOOL_RESULT, EvidenceType.RAG_DOC, EvidenceType.LLM_OUTPUT}
        assert {evidence.type for evidence in found} == kinds
        hits = [evidence for evidence in found if evidence.type is EvidenceType.RAG_DOC]
        assert all(hit.source.uri and hit.metadata["doc_version"] for hit in hits)
        assert all(hit.metadata["score"] > 0 for hit in hits)


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
