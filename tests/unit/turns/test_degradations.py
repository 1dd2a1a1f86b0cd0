"""Every row of the degradation contract: what goes on, its event, its code, its line in the report (A-25)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ce_engine import (
    BlockType,
    BudgetConfig,
    BudgetExceededError,
    CharBasedEstimator,
    ContextBlock,
    ContextEngine,
    DeriveOptions,
    Evidence,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    Priority,
    Ref,
    Report,
    Role,
    RuntimeConfig,
    Scope,
    SessionDocument,
    SourceKind,
    SummaryConfig,
    create_context_engine,
)
from ce_engine.errors import VersionConflictError
from ce_engine.ports.llm import LlmRequest, LlmResponse
from ce_engine.prepare.blocks.derive_session import SessionDeriver
from ce_engine.schema.pruning import PruneResult
from ce_engine.schema.settings import Standing
from ce_engine.testing import MockLlmAdapter
from tests.hosts.broken_parts import BrokenHasher, BrokenRedactor


SCOPE = Scope(session_id="s1")
WIKI = EvidenceSource(kind=SourceKind.RAG, name="wiki")
SECRET = "write to ann@example.org"


class BrokenLlm:
    """A model that is down."""

    async def generate(self, request: LlmRequest) -> LlmResponse:
        raise ConnectionError("the provider says: " + request.messages[0].content)


class BrokenDeriver(SessionDeriver):
    """A deriver of somebody else's that cannot do it."""

    async def derive(
        self,
        session_doc: SessionDocument,
        evidences: Sequence[Evidence],
        options: DeriveOptions | None = None,
    ) -> list[ContextBlock]:
        raise RuntimeError("no")


def make(**components: Any) -> ContextEngine:
    return create_context_engine(MemoryStore(), CharBasedEstimator(), **components)


async def ask(engine: ContextEngine, text: str = "next?", config: Any = None) -> Report:
    result = await engine.prepare_turn(SCOPE, Message(role=Role.USER, content=text), config)
    await engine.commit_assistant_message(SCOPE, Message(role=Role.ASSISTANT, content="ok"))
    return result.report


async def told(engine: ContextEngine, kind: str) -> list[dict[str, Any]]:
    await engine.flush()
    return [e.payload for e in await engine.store.list_events(SCOPE) if e.event_type == kind]


async def keep(engine: ContextEngine, ref: Ref) -> None:
    block = ContextBlock(
        block_id="b",
        block_type=BlockType.INSTRUCTION,
        priority=Priority.HIGH,
        content="own text",
        refs=[ref],
    )
    await engine.put_context_blocks(SCOPE, [block])


@pytest.mark.req("A-25", "B-02")
async def test_ingest_redaction_fails_and_it_is_stored_without_content() -> None:
    engine = make(redactor=BrokenRedactor())
    found = await engine.ingest(SCOPE, SECRET, WIKI, EvidenceType.RAG_DOC)
    assert (found.content, found.metadata["has_sensitive"]) == ("", True)
    assert (await told(engine, "Degraded"))[0]["reason"] == "redaction_failed"
    assert "CONTEXT_REDACTION_FAILED" in (await ask(engine)).degradations
    await engine.close()


@pytest.mark.req("A-25")
async def test_ingest_hash_fails_and_it_is_stored_again() -> None:
    engine = make(hasher=BrokenHasher())
    for _ in range(2):
        await engine.ingest(SCOPE, "same", WIKI, EvidenceType.RAG_DOC)
    assert len(await engine.store.list_evidences(SCOPE)) == 2
    assert (await told(engine, "Degraded"))[0]["reason"] == "dedup_skipped"
    assert "CONTEXT_DEDUP_SKIPPED" in (await ask(engine)).degradations
    await engine.close()


@pytest.mark.req("A-25")
async def test_derive_fails_and_what_is_kept_goes_on() -> None:
    engine = make(deriver=BrokenDeriver(CharBasedEstimator()))
    evidence = await engine.ingest(SCOPE, "one", WIKI, EvidenceType.RAG_DOC)
    await keep(engine, Ref(evidence_id=evidence.evidence_id))
    report = await ask(engine)
    assert "CONTEXT_DERIVE_FAILED" in report.degradations
    assert (await told(engine, "Error"))[0]["code"] == "CONTEXT_DERIVE_FAILED"
    assert report.layers["rules"].tokens > 0, "the block's own content goes on"
    await engine.close()


@pytest.mark.req("A-25", "A-11")
async def test_prune_must_is_over_the_budget() -> None:
    engine = make()
    tiny = BudgetConfig(max_input_tokens=40, reserved_reply_tokens=0)
    long = "word " * 200
    report = await ask(engine, long, RuntimeConfig(budget=tiny))
    assert report.over_budget
    assert "CONTEXT_OVER_BUDGET" in report.warnings
    with pytest.raises(BudgetExceededError, match="max_input_tokens"):
        await ask(engine, long, RuntimeConfig(budget=tiny, fail="closed"))
    errors = await told(engine, "Error")
    assert [payload["code"] for payload in errors] == ["CONTEXT_BUDGET_EXCEEDED"] * 2
    await engine.close()


class BrokenPruner:
    """A pruner of somebody else's that cannot do it."""

    def prune(self, *_: object) -> PruneResult:
        raise RuntimeError(SECRET)


@pytest.mark.req("A-25", "A-11")
async def test_prune_fails_and_the_default_one_stands_in() -> None:
    engine = make(pruner=BrokenPruner())
    await engine.ingest(SCOPE, "The shop opens at 9.", WIKI, EvidenceType.RAG_DOC)
    result = await engine.prepare_turn(SCOPE, Message(role=Role.USER, content="When?"))
    assert "The shop opens at 9." in str(result.assembled_input.parts)
    assert result.report.degradations == ["CONTEXT_PRUNE_FAILED"]
    assert (await told(engine, "Degraded"))[0]["reason"] == "prune_failed"
    await engine.close()


class SlowDeriver(SessionDeriver):
    """A deriver of somebody else's that never ends."""

    async def derive(
        self,
        session_doc: SessionDocument,
        evidences: Sequence[Evidence],
        options: DeriveOptions | None = None,
    ) -> list[ContextBlock]:
        await asyncio.Event().wait()
        return []


@pytest.mark.req("A-25", "A-15")
async def test_derive_hangs_and_the_call_does_not() -> None:
    engine = make(deriver=SlowDeriver(CharBasedEstimator()))
    async with asyncio.timeout(10):
        assert "CONTEXT_DERIVE_FAILED" in (await ask(engine)).degradations
    await engine.close()


@pytest.mark.req("A-25")
@pytest.mark.parametrize(
    ("ref", "code", "reason"),
    [
        ("lines:90-99", "CONTEXT_SELECTOR_UNRESOLVED", "selector_resolve_failed"),
        ("what is this", "CONTEXT_SELECTOR_UNRESOLVED", "selector_resolve_failed"),
        (None, "CONTEXT_EVIDENCE_NOT_FOUND", "evidence_not_found"),
    ],
)
async def test_render_finds_nothing_and_the_block_stands_for_itself(
    ref: str | None, code: str, reason: str
) -> None:
    engine = make()
    evidence = await engine.ingest(SCOPE, "one", WIKI, EvidenceType.RAG_DOC)
    found = Ref(evidence_id=evidence.evidence_id, selector=ref) if ref else Ref(evidence_id="gone")
    await keep(engine, found)
    assert code in (await ask(engine)).degradations
    assert reason in [payload["reason"] for payload in await told(engine, "Degraded")]
    await engine.close()


@pytest.mark.req("A-25", "A-16")
async def test_summarize_fails_and_the_messages_go_on(caplog: pytest.LogCaptureFixture) -> None:
    engine = make(llm_adapter=BrokenLlm())
    config = RuntimeConfig(
        summary=SummaryConfig(trigger_message_count=2, preserve_recent_messages=1)
    )
    for n in range(3):
        await ask(engine, f"question {n}", config)
    await engine.flush()
    result = await engine.prepare_turn(SCOPE, Message(role=Role.USER, content="?"), config)
    assert "question 0" in str(result.assembled_input.parts)
    reasons = [payload["reason"] for payload in await told(engine, "Degraded")]
    assert set(reasons) == {"summarize_failed"}
    assert "the provider says" not in caplog.text
    await engine.close()


@pytest.mark.req("A-25", "A-16")
async def test_the_report_of_the_next_turn_says_that_no_summary_was_made() -> None:
    engine = make(llm_adapter=BrokenLlm())
    config = RuntimeConfig(
        summary=SummaryConfig(trigger_message_count=2, preserve_recent_messages=1)
    )
    told_by: list[str] = []
    for n in range(4):
        told_by += (await ask(engine, f"question {n}", config)).degradations
        await engine.flush()
    assert "CONTEXT_SUMMARIZE_FAILED" in told_by
    await engine.close()


class RacingStore(MemoryStore):
    """Somebody else writes a setting right before the first write of ours."""

    races = 1

    async def put_setting(
        self,
        scope: Scope,
        name: str,
        value: Any,
        expected_version: int | None = None,
        *,
        standing: Standing = Standing.INTACT,
    ) -> int:
        if self.races:
            self.races -= 1
            raise VersionConflictError("somebody was faster")
        return await super().put_setting(scope, name, value, expected_version, standing=standing)


@pytest.mark.req("A-25", "A-07")
async def test_a_version_conflict_is_tried_once_more_and_then_told() -> None:
    store = RacingStore()
    engine = create_context_engine(store, CharBasedEstimator())
    made = await engine.constraints.create(SCOPE, "Answer in English.")
    assert [each.constraint_id for each in await engine.constraints.list(SCOPE)] == [
        made.constraint_id
    ]
    store.races = 2
    with pytest.raises(VersionConflictError, match="faster"):
        await engine.constraints.create(SCOPE, "Be brief.")
    await engine.close()


@pytest.mark.req("A-25", "D-09")
async def test_a_working_engine_has_no_degradation() -> None:
    engine = make(llm_adapter=MockLlmAdapter())
    report = await ask(engine)
    assert (report.degradations, report.errors, report.warnings) == ([], [], [])
    assert await told(engine, "Degraded") == []
    await engine.close()


class SilentRenderer:
    """A renderer of somebody else's that gives nothing back."""

    async def render_block(self, *_: Any) -> Any:
        return None


class SilentDeriver:
    """A deriver of somebody else's that gives nothing back."""

    async def derive(self, *_: Any) -> Any:
        return None


@pytest.mark.req("A-25")
@pytest.mark.parametrize(
    ("component", "code"),
    [
        ({"renderer": SilentRenderer()}, "CONTEXT_RENDER_FAILED"),
        ({"deriver": SilentDeriver()}, "CONTEXT_DERIVE_FAILED"),
    ],
)
async def test_a_component_that_gives_nothing_back_harms_no_turn(
    component: dict[str, Any], code: str
) -> None:
    engine = make(**component)
    await keep(engine, Ref(evidence_id="none"))
    assert (await ask(engine)).degradations[:1] == [code]
    await engine.close()
