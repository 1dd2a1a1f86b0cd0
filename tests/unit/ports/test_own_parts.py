"""Parts of one's own in an engine: what they do reaches the store and the input (A-26)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ce_engine import (
    AssembledInput,
    CharBasedEstimator,
    ContextEngine,
    EvidenceDraft,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    MessagePart,
    RefSelector,
    RenderedBlock,
    Role,
    RuleIngestor,
    Scope,
    SourceKind,
    ToolRun,
    create_context_engine,
)
from tests.unit.ports.test_port_contracts import Notes


ESTIMATOR = CharBasedEstimator()


def made(**components: Any) -> ContextEngine:
    return create_context_engine(MemoryStore(), token_estimator=ESTIMATOR, **components)


class Tagging(RuleIngestor):
    """Trusts one tool, and tags what it says."""

    def ingest(self, draft: EvidenceDraft) -> EvidenceDraft:
        if draft.source.name != "ledger":
            return super().ingest(draft)
        return replace(draft, confidence=1.0, metadata={**draft.metadata, "domain": "money"})


@pytest.mark.req("A-09", "A-26")
def test_an_ingestor_of_ones_own_says_what_is_stored_and_redaction_comes_after_it() -> None:
    class Telling(Tagging):
        def ingest(self, draft: EvidenceDraft) -> EvidenceDraft:
            found = super().ingest(draft)
            return replace(found, metadata={**found.metadata, "owner": "li.na@example.com"})

    engine = made(ingestor=Telling())
    source = EvidenceSource(kind=SourceKind.TOOL, name="ledger")
    by_hand = engine.sync.ingest("s", "12 元", source, EvidenceType.TOOL_RESULT)
    engine.sync.record_tool_run("s", ToolRun("ledger", {}, "13 元"))
    engine.sync.record_tool_run("s", ToolRun("clock", {}, "12:00"))
    found = {e.content: e for e in engine.sync.list_evidences("s")}
    assert (by_hand.confidence, by_hand.metadata["domain"]) == (1.0, "money")
    assert (found["13 元"].confidence, found["12:00"].confidence) == (1.0, 0.9)
    assert {e.metadata["owner"] for e in found.values()} == {"[EMAIL_1]"}
    again = engine.sync.ingest("s", "12 元", source, EvidenceType.TOOL_RESULT)
    assert again.evidence_id == by_hand.evidence_id
    engine.sync.close()


@pytest.mark.req("A-25", "A-26")
@pytest.mark.parametrize("answer", [ValueError, None, "confidence"])
def test_where_an_ingestor_fails_evidence_is_stored_as_it_came(answer: Any) -> None:
    class Broken:
        def ingest(self, draft: EvidenceDraft) -> Any:
            if answer is ValueError:
                raise ValueError("li.na@example.com")
            return replace(draft, confidence=7.0) if answer else None

    engine = made(ingestor=Broken())
    source = EvidenceSource(kind=SourceKind.TOOL, name="ledger")
    found = engine.sync.ingest("s", "12 元", source, EvidenceType.TOOL_RESULT)
    assert (found.content, found.confidence) == ("12 元", 0.9)
    turn = engine.sync.prepare_turn("s", Message(role=Role.USER, content="?"))
    assert "CONTEXT_INGEST_FAILED" in turn.report.degradations
    engine.sync.close()


@pytest.mark.req("A-12", "A-26")
def test_an_assembler_of_ones_own_puts_the_input_together() -> None:
    class Upside:
        """Blocks behind the messages, each as a message of its own."""

        def assemble(
            self, messages: Sequence[Message], blocks: Sequence[RenderedBlock], _: Any = None
        ) -> AssembledInput:
            parts = [MessagePart(role=m.role, content=m.content) for m in messages]
            parts += [MessagePart(role=Role.USER, content=b.rendered_content) for b in blocks]
            return AssembledInput(parts=parts, total_tokens=7)

    engine = made(assembler=Upside(), sources=[Notes()])
    engine.sync.constraints.create(Scope(session_id="s"), "Be polite.")
    ask = Message(role=Role.USER, content="What is known?")
    turn = engine.sync.prepare_turn("s", [Message(role=Role.SYSTEM, content="You help."), ask])
    parts = turn.assembled_input.parts
    assert [p.content for p in parts[:2]] == ["You help.", "What is known?"]
    assert "Be polite." in parts[2].content
    assert "What is known? 0" in parts[3].content
    assert turn.assembled_input.total_tokens == 7
    engine.sync.close()


@pytest.mark.req("A-05", "A-26")
def test_a_selector_of_ones_own_reads_refs() -> None:
    class First(RefSelector):
        def extract(self, content: str, selector: str) -> str:
            return (
                content.split(maxsplit=1)[0]
                if selector == "first"
                else super().extract(content, selector)
            )

    engine = made(ref_selector=First())
    source = EvidenceSource(kind=SourceKind.TOOL, name="log")
    found = engine.sync.ingest("s", "one two three", source, EvidenceType.OTHER)
    resolver = engine.resolver(Scope(session_id="s"))
    assert engine.loop.run(resolver.resolve(found.evidence_id, "first")) == "one"
    engine.sync.close()
