"""`fetch_evidence` in apps of several users: a run finds nothing of another user's, whatever waits beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI

from ce_engine import MemoryStore, Scope, create_context_engine
from ce_engine.schema.document import EvidenceSource
from ce_engine.schema.enums import EvidenceType, SourceKind
from ce_integrations.calls.evidence_tool import fetch_evidence
from ce_integrations.langchain import install_ce
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.framework_apps import MODEL
from ce_integrations.testing.wire import Wire


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

    def asking(name: str, function: Callable[..., str]) -> tuple[Any, Wire]:
        wire = Wire([tool_calls([(name, {"evidence_id": stored.evidence_id})]), text("So.")])
        told: dict[str, Any] = {"base_url": wire.base_url, "api_key": "no key", "max_retries": 0}
        tool = StructuredTool.from_function(function, name=name)
        return create_agent(ChatOpenAI(model=MODEL, **told), [tool]), wire

    def read(agent: Any, user: str) -> list[str]:
        config = {"configurable": {"thread_id": f"t-{user}", "user_id": user}}
        done = agent.invoke({"messages": [("user", "q")]}, config)
        return [each.content for each in done["messages"] if each.type == "tool"]

    (anns, wire), (bobs, other) = asking("fetch_evidence", slow), asking("read", fetch_evidence)
    found: list[str] = []
    with wire, other, install_ce(anns, engine=engine), install_ce(bobs, engine=engine):
        waiting = threading.Thread(target=lambda: found.extend(read(anns, "ann")))
        waiting.start()
        assert has_begun.wait(20)
        [answer] = read(bobs, "bob")
        go_on.set()
        waiting.join(20)
    assert SECRET not in answer
    assert SECRET in found[0]
    engine.sync.close()
