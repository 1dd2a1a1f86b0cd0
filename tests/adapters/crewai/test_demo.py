"""The demo on CrewAI: a long session of an agent and a flow, offline and over a strict provider."""

from __future__ import annotations

import json

from ce_engine import EvidenceType
from ce_integrations.crewai.demo import DEMO
from ce_integrations.crewai.demo_model import OfflineModel
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.testing.answers import Answer, Call, JsonObject
from tests.adapters.demos import PACKAGES, DemoTests, Run


class TestDemo(DemoTests):
    demo = DEMO
    is_calibrated = True

    @classmethod
    def answer(cls, body: JsonObject) -> Answer:
        model = OfflineModel.of(QuotingModel(frozenset(PACKAGES)))
        said = model.call(body["messages"], body.get("tools", ()))
        if isinstance(said, str):
            return Answer(content=said)
        asked = [Call(c["function"]["name"], c["function"]["arguments"], c["id"]) for c in said]
        return Answer(calls=tuple(asked))

    def test_each_of_the_two_has_its_lane(self, ran: Run) -> None:
        assert {turn.lane for turn in ran.turns} == {"helper", "reader"}

    def test_each_kind_of_evidence_is_there_and_hits_have_scores(self, ran: Run) -> None:
        found = ran.document.evidences.values()
        kinds = {EvidenceType.TOOL_RESULT, EvidenceType.RAG_DOC, EvidenceType.LLM_OUTPUT}
        assert {evidence.type for evidence in found} == kinds
        hits = [evidence for evidence in found if evidence.type is EvidenceType.RAG_DOC]
        assert all(hit.source.uri and hit.metadata["score"] > 0 for hit in hits)


def test_the_offline_model_asks_for_tools() -> None:
    schema = {"properties": {"distribution": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "lookup", "parameters": schema}}]
    model = OfflineModel.of(QuotingModel(frozenset({"pydantic"})))
    (call,) = model.call("Which licence does `pydantic` have?", tools)
    assert json.loads(call["function"]["arguments"]) == {"distribution": "pydantic"}
