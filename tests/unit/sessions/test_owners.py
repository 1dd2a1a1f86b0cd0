"""What is the owner's to decide, and what no document may have (D-04, D-16, A-02)."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from ce_engine import (
    BlockType,
    BudgetConfig,
    CharBasedEstimator,
    ConfigError,
    ContextBlock,
    Evidence,
    EvidenceSource,
    EvidenceType,
    Layer,
    MemoryStore,
    Message,
    ObservabilityConfig,
    Priority,
    PruneConfig,
    Ref,
    Role,
    RuntimeConfig,
    Scope,
    ScopeViolationError,
    Session,
    SessionDocument,
    SourceKind,
    check_invariants,
    create_context_engine,
)


SCOPE = Scope(session_id="s", user_id="王芳", account_id="a")


@pytest.mark.req("D-02", "D-16")
@pytest.mark.parametrize(
    "shares",
    [{}, {Layer.RULES: -1}, {Layer.RULES: 5}, {Layer.RULES: 0}, {Layer.RULES: float("nan")}],
)
def test_a_share_is_a_part_of_the_room(shares: dict[Layer, float]) -> None:
    with pytest.raises(ConfigError, match="from 0 to 1"):
        BudgetConfig(shares=shares)


@pytest.mark.req("D-02")
@pytest.mark.parametrize("name", ["minima", "tier_tokens"])
def test_tokens_are_not_less_than_none(name: str) -> None:
    values: Any = {name: {Layer.RULES if name == "minima" else Priority.LOW: -1}}
    with pytest.raises(ConfigError, match="less than 0"):
        BudgetConfig(**values)


CHANGES: list[Callable[[RuntimeConfig], Any]] = [
    lambda c: c.budget.shares.update({Layer.RULES: 1.0}),
    lambda c: c.budget.shares.__setitem__(Layer.RULES, 1.0),
    lambda c: c.budget.minima.clear(),
    lambda c: c.prune.must_keep_priorities.append(Priority.LOW),
    lambda c: c.observability.tags.pop("a"),
]


@pytest.mark.req("D-16", "A-22")
@pytest.mark.parametrize("change", CHANGES)
def test_a_frozen_configuration_holds_nothing_that_can_be_changed(
    change: Callable[[RuntimeConfig], Any],
) -> None:
    config = RuntimeConfig(observability=ObservabilityConfig(tags={"a": "b"}))
    before = config.model_dump(mode="json")
    with pytest.raises(TypeError, match="frozen"):
        change(config)
    assert config.model_dump(mode="json") == before
    for other in (copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert other == config
    assert RuntimeConfig(**before) == config
    tags = {"a": "b"}
    held = ObservabilityConfig(tags=tags)
    tags["a"] = "changed"
    assert held.tags == {"a": "b"}
    assert PruneConfig().must_keep_priorities == [Priority.MUST]


@pytest.mark.req("D-04", "D-16")
async def test_only_its_owner_changes_a_budget() -> None:
    engine = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    for actor in ("", "agent", "a tool", "王 芳"):
        with pytest.raises(ScopeViolationError, match="actor"):
            await engine.budgets.update(SCOPE, BudgetConfig(max_input_tokens=9), 0, actor=actor)
    assert await engine.budgets.get(SCOPE) == (BudgetConfig(), 0)
    small = BudgetConfig(max_input_tokens=900)
    assert await engine.budgets.update(SCOPE, small, 0, actor="王芳") == 1
    engine.authorize = lambda actor, _action, _scope: actor == "the operator"
    with pytest.raises(ScopeViolationError):
        await engine.budgets.update(SCOPE, small, 1, actor="王芳")
    assert await engine.budgets.update(SCOPE, small, 1, actor="the operator") == 2
    await engine.close()


@pytest.mark.req("A-02", "A-04")
def test_a_selector_that_fails_is_told() -> None:
    source = EvidenceSource(kind=SourceKind.RAG, name="kb")
    content = '{"open": "七点半"}'
    evidence = Evidence(evidence_id="e", type=EvidenceType.RAG_DOC, source=source, content=content)

    def document(*selectors: str, **more: Any) -> SessionDocument:
        refs = [Ref(evidence_id="e", selector=selector) for selector in selectors]
        block = ContextBlock(
            block_id="b", block_type=BlockType.EVIDENCE, priority=Priority.LOW, refs=refs
        )
        message = Message(role=Role.ASSISTANT, content="七点半", refs=refs)
        return SessionDocument(
            session=Session(session_id="s", messages=[message]),
            context_blocks=[block],
            evidences={"e": evidence.model_copy(update=more)},
        )

    assert check_invariants(document("json:$.open", "chars:0-3", "lines:1-1")) == []
    for wrong in ("json:$.closed", "chars:900-901", "lines:7-9", "no selector"):
        problems = check_invariants(document(wrong))
        assert len(problems) == 2, wrong
        assert all(wrong in problem for problem in problems)
        assert check_invariants(document(wrong), selectors=None) == []
        assert check_invariants(document(wrong, content="")) == [], "nothing is there to be read"


@pytest.mark.req("A-02")
async def test_a_document_with_one_is_stored_all_the_same() -> None:
    store = MemoryStore()
    source = EvidenceSource(kind=SourceKind.RAG, name="kb")
    evidence = Evidence(evidence_id="e", type=EvidenceType.RAG_DOC, source=source, content="x")
    message = Message(
        role=Role.ASSISTANT, content="x", refs=[Ref(evidence_id="e", selector="lines:9-9")]
    )
    document = SessionDocument(
        session=Session(session_id="s", messages=[message]), evidences={"e": evidence}
    )
    assert (await store.put_session(Scope(session_id="s"), document)).success
