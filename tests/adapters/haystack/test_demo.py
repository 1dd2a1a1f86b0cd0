"""The demo on Haystack: a long session of an agent and a pipeline, offline and over a strict provider."""

from __future__ import annotations

import json

from haystack.dataclasses import ChatMessage

from ce_engine import EvidenceType
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.haystack.demo import DEMO
from ce_integrations.haystack.demo_model import OfflineChatGenerator
from ce_integrations.testing.answers import Answer, Call, JsonObject
from tests.adapters.demos import PACKAGES, DemoTests, Run


class TestDemo(DemoTests):
    demo = DEMO
    is_calibrated = True

    @classmethod
    def answer(cls, body: JsonObject) -> Answer:
        model = OfflineChatGenerator(QuotingModel(frozenset(PACKAGES)))
        given = [ChatMessage.from_openai_dict_format(each) for each in body["messages"]]
        reply = model.quoted(given, body.get("tools", ()))
        asked = [Call(call.name, json.dumps(call.args), call.id) for call in reply.calls]
        return Answer(content=None if asked else reply.text, calls=tuple(asked))

    def test_each_kind_of_evidence_is_there_and_hits_have_scores(self, ran: Run) -> None:
        found = ran.document.evidences.values()
        kinds = {EvidenceType.TOOL_RESULT, EvidenceType.RAG_DOC, EvidenceType.LLM_OUTPUT}
        assert {evidence.type for evidence in found} == kinds
        hits = [evidence for evidence in found if evidence.type is EvidenceType.RAG_DOC]
        assert all(hit.source.uri and hit.metadata["doc_version"] for hit in hits)
        assert all(hit.metadata["score"] > 0 for hit in hits)


def test_the_offline_model_streams_what_it_says() -> None:
    asked = [ChatMessage.from_system("A lane is a line."), ChatMessage.from_user("A lane?")]
    pieces: list[str] = []
    done = OfflineChatGenerator().run(asked, lambda chunk: pieces.append(chunk.content))
    assert "".join(pieces) == done["replies"][0].text == "A lane is a line."
    assert len(pieces) > 2
