"""`fetch_evidence` in apps of several users: a run finds nothing of another user's, whatever waits beside it."""

from __future__ import annotations

import threading

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool

from ce_engine import MemoryStore, Scope, create_context_engine
from ce_engine.schema.document import EvidenceSource
from ce_engine.schema.enums import EvidenceType, SourceKind
from ce_integrations.calls.evidence_tool import fetch_evidence
from ce_integrations.langchain import install_ce


SECRET = "the gate's word is quagga"


@pytest.mark.req("B-03")
def test_a_tool_of_another_name_does_not_take_up_a_run_of_somebody_else_s() -> None:
    engine = create_context_engine(MemoryStore())
    source = EvidenceSource(kind=SourceKind.RAG, name="n")
    ann = Scope(session_id="t-ann", user_id="ann")
    stored = engine.sync.record_evidence(ann, SECRET, source, EvidenceType.RAG_DOC)
    has_begun, go_on = threading.Event(), threading.Event()

    def slow(evidence_id: str, lines: str = "", find: str = "") -> str:
        """Read."""
        has_begun.set()
        assert go_on.wait(20)
        return fetch_evidence(evidence_id, lines, find)

    def read(tool: StructuredTool, user: str) -> str:
        config: RunnableConfig = {"configurable": {"thread_id": f"t-{user}", "user_id": user}}
        return str(tool.invoke({"evidence_id": stored.evidence_id}, config))

    anns = StructuredTool.from_function(slow, name="fetch_evidence")
    bobs = StructuredTool.from_function(fetch_evidence, name="read")
    found: list[str] = []
    with install_ce(anns, engine=engine), install_ce(bobs, engine=engine):
        waiting = threading.Thread(target=lambda: found.append(read(anns, "ann")))
        waiting.start()
        assert has_begun.wait(20)
        answer = read(bobs, "bob")
        go_on.set()
        waiting.join(20)
    assert SECRET not in answer
    assert SECRET in found[0]
    engine.sync.close()
