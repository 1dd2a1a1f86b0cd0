"""What a call's own configuration says of people's privacy, and what it leaves to the engine's (B-02, B-03, B-08)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest

from ce_engine import (
    BudgetConfig,
    ConfigError,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    Message,
    ModelCall,
    ObservabilityConfig,
    PruneConfig,
    RedactionConfig,
    RedactionRules,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    TaskRun,
    ToolRun,
    create_context_engine,
)
from ce_engine.config import ContentKind
from ce_engine.testing.host import HostApp, user


SAID = "The code of my safe is amber-otter, 密码在琥珀獭."
ANNA = Scope(session_id="s", user_id="anna")
NOBODY = Scope(session_id="s")
POINTER = RuntimeConfig(
    redaction=RedactionConfig(
        content="pointer", fields=dict.fromkeys(get_args(ContentKind), "pointer")
    )
)
OUT = RuntimeConfig(memory_opt_out=lambda scope: scope.user_id == "anna")
ROOM = RuntimeConfig(budget=BudgetConfig(max_input_tokens=4000))
"""Says nothing of it."""


@pytest.fixture
def engines() -> Iterator[Any]:
    made: list[ContextEngine] = []

    def make(config: RuntimeConfig) -> ContextEngine:
        made.append(create_context_engine("memory://", config=config))
        return made[-1]

    yield make
    for each in made:
        each.sync.close()


def work(engine: ContextEngine, scope: Scope, config: RuntimeConfig | None) -> None:
    """A call and what an adapter tells beside it."""
    HostApp(engine, scope).ask(SAID, f"Noted: {SAID}", config=config)
    engine.post_tool_run(scope, ToolRun("safe", {"code": SAID}, SAID, "r1"), config=config)
    page = RetrievedDoc(SAID, metadata={"title": SAID})
    engine.post_retrieval(scope, Retrieval("find", SAID, [page]), config=config)
    engine.post_tasks(scope, [TaskRun("t", SAID, result=SAID)], config=config)
    assert engine.sync.flush()


def stored(engine: ContextEngine, name: str = "anna") -> str:
    return engine.sync.export_user_data("", name).model_dump_json()


@pytest.mark.req("B-08")
@pytest.mark.parametrize("own", [OUT, POINTER], ids=["opt-out", "pointer"])
def test_it_holds_for_what_is_told_beside_the_call(engines: Any, own: RuntimeConfig) -> None:
    """One engine for several installations, each with its own configuration."""
    engine = engines(RuntimeConfig())
    work(engine, ANNA, own)
    assert "otter" not in stored(engine)
    assert "琥珀獭" not in stored(engine)
    work(engine, Scope(session_id="s", user_id="ben"), None)
    assert "otter" in stored(engine, "ben")


@pytest.mark.req("B-08")
@pytest.mark.parametrize("engines_own", [OUT, POINTER], ids=["opt-out", "pointer"])
def test_what_it_leaves_out_is_the_engine_s(engines: Any, engines_own: RuntimeConfig) -> None:
    """A budget of one's own took the engine's opt-out away."""
    engine = engines(engines_own)
    work(engine, ANNA, ROOM)
    assert "otter" not in stored(engine)


@pytest.mark.req("B-08")
def test_what_it_says_itself_counts(engines: Any) -> None:
    engine = engines(POINTER)
    work(engine, ANNA, RuntimeConfig(redaction=RedactionConfig(content="stored")))
    assert "otter" in stored(engine)


@pytest.mark.req("B-02")
@pytest.mark.parametrize(
    "own",
    [
        {"rules": RedactionRules(dictionaries={"animals": ["otter"]})},
        {"mode": "dual_store", "originals_url": "sqlite:///other.db"},
        {"detector_min_score": 0.9},
    ],
    ids=["rules", "originals", "score"],
)
def test_what_only_the_engine_can_do_is_refused(engines: Any, own: dict[str, Any]) -> None:
    """Rules of a call were passed over, and what they name was stored."""
    engine = engines(RuntimeConfig())
    config = RuntimeConfig(redaction=RedactionConfig(**own))
    with pytest.raises(ConfigError, match="create_context_engine"):
        engine.sync.prepare(ModelCall(ANNA, [user(SAID)], config=config))
    with pytest.raises(ConfigError, match="create_context_engine"):
        engine.sync.prepare_turn(ANNA, Message(role=Role.USER, content=SAID), config)
    assert "otter" not in stored(engine)


@pytest.mark.req("B-02")
def test_the_engine_s_own_rules_may_be_said_again(engines: Any) -> None:
    redaction = RedactionConfig(rules=RedactionRules(dictionaries={"animals": ["amber-otter"]}))
    engine = engines(RuntimeConfig(redaction=redaction))
    work(engine, ANNA, RuntimeConfig(redaction=redaction.model_copy()))
    assert "otter" not in stored(engine)


@pytest.mark.req("B-02", "B-04")
def test_the_least_score_of_a_detector_is_the_engine_s(engines: Any) -> None:
    """A call that leaves it out, or says the same, has the engine's; a default is no word of the call's."""
    engine = engines(RuntimeConfig(redaction=RedactionConfig(detector_min_score=0.9)))
    for own in (RedactionConfig(audit=True), RedactionConfig(detector_min_score=0.9)):
        work(engine, ANNA, RuntimeConfig(redaction=own))
    with pytest.raises(ConfigError, match="detector_min_score"):
        work(engine, ANNA, RuntimeConfig(redaction=RedactionConfig(detector_min_score=0.5)))


@pytest.mark.req("B-03")
@pytest.mark.parametrize("where", ["engine", "call"])
def test_what_nobodys_tools_found_is_nobody_elses(engines: Any, where: str) -> None:
    """Runs of tools went into the session that all who forgot their user id have in common."""
    required = RuntimeConfig(require_user=True)
    engine = engines(required if where == "engine" else RuntimeConfig())
    work(engine, NOBODY, required if where == "call" else None)
    document = engine.sync.get_session(NOBODY)
    assert document is None
    assert "otter" in stored(engine, "")


def evidence_of(engine: ContextEngine, scope: Scope) -> str:
    """Have a scope's work recorded; the id of a piece of its evidence."""
    work(engine, scope, None)
    document = engine.sync.get_session(scope)
    assert document is not None
    (one, *_) = document.evidences
    return one


@pytest.mark.req("B-03")
def test_nobody_fetches_evidence(engines: Any) -> None:
    engine = engines(RuntimeConfig(require_user=True))
    before = create_context_engine(engine.store)
    one = evidence_of(before, NOBODY)
    assert "otter" in before.sync.fetch_evidence(NOBODY, one)
    assert "otter" not in engine.sync.fetch_evidence(NOBODY, one)


@pytest.mark.req("B-08")
def test_who_opts_out_fetches_no_evidence_of_before(engines: Any) -> None:
    out = RuntimeConfig(memory_opt_out=lambda each: each == ANNA)
    engine = engines(out)
    before = create_context_engine(engine.store)
    one = evidence_of(before, ANNA)
    assert "otter" in before.sync.fetch_evidence(ANNA, one)
    assert "otter" not in engine.sync.fetch_evidence(ANNA, one)
    assert "otter" not in before.sync.fetch_evidence(ANNA, one, config=before.config_of(out))


@pytest.mark.req("A-11")
@pytest.mark.parametrize("where", ["engine", "call"])
def test_what_is_excluded_by_its_sensitivity_is_not_fetched(engines: Any, where: str) -> None:
    """One engine for several installations: the one that excludes it has tools of its own."""
    excludes = RuntimeConfig(
        prune=PruneConfig(exclude_sensitivity=frozenset({"secret"})), locale="zh"
    )
    engine = engines(excludes if where == "engine" else RuntimeConfig())
    source = EvidenceSource(kind=SourceKind.RAG, name="book")
    kind, more = EvidenceType.RAG_DOC, {"sensitivity": "secret"}
    one = engine.sync.record_evidence(ANNA, SAID, source, kind, metadata=more).evidence_id
    own = engine.config_of(excludes)
    assert "otter" not in engine.sync.fetch_evidence(ANNA, one, config=own)
    assert "没有证据" in engine.sync.fetch_evidence(ANNA, one, config=own)
    if where == "call":
        assert "otter" in engine.sync.fetch_evidence(ANNA, one)


@pytest.mark.req("B-03", "B-08")
@pytest.mark.parametrize("why", ["nobody", "opts out"])
def test_who_only_looks_is_brought_no_more(engines: Any, why: str) -> None:
    """A framework asks first whether a call fits; it was given what the call itself is not."""
    scope = NOBODY if why == "nobody" else ANNA
    watched = RuntimeConfig(observability=ObservabilityConfig(inspect=True))
    before = engines(watched)
    work(before, scope, None)
    asked = ModelCall(scope, [user("What is in my safe?")], restore=True)
    kept = {"require_user": True, "memory_opt_out": lambda each: each == ANNA}
    own = watched.model_copy(update=kept)
    engine = create_context_engine(before.store, config=own)
    for there, is_brought in ((before, True), (engine, False)):
        shown = there.sync.preview(replace(asked))
        assert ("otter" in f"{shown.plan} {shown.assembled}") is is_brought
        told = there.sync.inspect((scope, "What is in my safe?"), actor=scope.user_id)
        assert ("otter" in repr(told)) is is_brought
    assert asked.scope == scope
