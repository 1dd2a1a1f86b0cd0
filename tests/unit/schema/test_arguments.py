"""Every public method: a text is a session id, and what does not fit is told with its cure (A-13)."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from ce_engine import (
    Answer,
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    ContextEngineError,
    Evidence,
    EvidenceLinks,
    EvidenceNotFoundError,
    EvidenceSource,
    EvidenceType,
    HostMessage,
    MemoryStore,
    Message,
    ModelCall,
    ModelUsage,
    Origin,
    ProviderKind,
    Retrieval,
    Role,
    RuntimeConfig,
    SchemaValidationError,
    Scope,
    SourceKind,
    ToolCall,
    ToolCallStatus,
    ToolProvider,
    ToolRun,
    TurnHandle,
    create_context_engine,
    open_store,
)
from ce_engine.schema.rows import AppendModelUsage


ASKED = Message(role=Role.USER, content="你好")
SOURCE = EvidenceSource(kind=SourceKind.TOOL, name="getOrder")
CALL = ToolCall(tool_call_id="c", tool="getOrder", provider=ToolProvider(kind=ProviderKind.BUILTIN))
TOOL_RUN: Any = ToolRun
RETRIEVAL: Any = Retrieval
VALUES: dict[str, Any] = {
    "assistant_message": Message(role=Role.ASSISTANT, content="hi"),
    "answer": Answer(Message(role=Role.ASSISTANT, content="hi")),
    "blocks": [],
    "budget": BudgetConfig(),
    "call": ModelCall(Scope(session_id="s"), [HostMessage(ASKED, Origin.TASK)]),
    "chunk": "h",
    "constraint_ids": [],
    "chunk_index": 0,
    "index": 0,
    "content": "{}",
    "evidence_type": EvidenceType.TOOL_RESULT,
    "type": EvidenceType.TOOL_RESULT,
    "expected_version": 0,
    "hit": Retrieval("kb", "?", []),
    "kind": "planner",
    "payload": {},
    "messages": [ASKED],
    "model_usage": ModelUsage(model_usage_id="u", provider="p", model="m"),
    "ref": "nothing",
    "run": ToolRun("getOrder", {}, "paid"),
    "runs": [],
    "source": SOURCE,
    "tasks": [],
    "tool_call": CALL,
    "turn": TurnHandle("t", Scope(session_id="s")),
    "user_message": ASKED,
}
"""What a method may be given, by the parameter's name; other texts are a text."""


@pytest.fixture
async def engine() -> AsyncIterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    await made.close()


def faces(engine: ContextEngine) -> Iterator[tuple[str, object]]:
    yield "engine", engine
    yield "sync", engine.sync
    for name in ("constraints", "budgets"):
        yield f"engine.{name}", getattr(engine, name)
        yield f"sync.{name}", getattr(engine.sync, name)


def methods(engine: ContextEngine) -> list[tuple[str, Callable[..., Any]]]:
    return [
        (f"{face}.{name}", getattr(thing, name))
        for face, thing in faces(engine)
        for name, _ in inspect.getmembers(type(thing), inspect.isfunction)
        if not name.startswith("_")
    ]


def parameters(method: Callable[..., Any]) -> dict[str, Any]:
    hints = get_type_hints(method)
    return {name: hints[name] for name in inspect.signature(method).parameters}


def scoped(engine: ContextEngine) -> list[tuple[str, Callable[..., Any], str]]:
    """(name, method, parameter) of all that take a scope."""
    return [
        (name, method, parameter)
        for name, method in methods(engine)
        for parameter, hint in parameters(method).items()
        if Scope in (hint, *get_args(hint))
    ]


def needed(method: Callable[..., Any]) -> dict[str, Any]:
    return {
        name: VALUES.get(name, "a text")
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.default is parameter.empty
    }


async def done(method: Callable[..., Any], **values: Any) -> Any:
    result = method(**values)
    return await result if inspect.isawaitable(result) else result


async def raised(method: Callable[..., Any], **values: Any) -> BaseException | None:
    try:
        await done(method, **values)
    except Exception as error:
        return error
    return None


@pytest.mark.req("A-13")
async def test_every_method_that_takes_a_scope_takes_a_session_id(engine: ContextEngine) -> None:
    there = scoped(engine)
    assert len(there) > 60
    narrow = [name for name, method, of in there if str not in get_args(parameters(method)[of])]
    assert narrow == []
    names = {of for name, _, of in there if "constraints" not in name and "budgets" not in name}
    assert names == {"session_id"}, "the seed's name, everywhere"


@pytest.mark.req("A-13")
async def test_a_text_is_a_session_id_everywhere(engine: ContextEngine) -> None:
    wrong = {}
    for name, method, of in scoped(engine):
        error = await raised(method, **{**needed(method), of: "s"})
        if error is not None and not isinstance(error, ContextEngineError):
            wrong[name] = error
    assert wrong == {}


@pytest.mark.req("A-13", "A-25")
@pytest.mark.parametrize(
    "bad", [None, 5, "", b"s", ASKED, ["s"], "half a pair: \ud83d", "词" * 171]
)
async def test_what_is_no_session_is_refused_with_the_cure(
    engine: ContextEngine, bad: object
) -> None:
    for name, method, of in scoped(engine):
        error = await raised(method, **{**needed(method), of: bad})
        assert isinstance(error, SchemaValidationError), (name, error)
        assert "session_id" in str(error), name


@pytest.mark.req("A-13", "A-25")
async def test_what_does_not_fit_is_refused_with_its_name(engine: ContextEngine) -> None:
    tried = 0
    engine.authorize = lambda *_: True  # who may is asked before
    for name, method in methods(engine):
        for parameter in needed(method):
            error = await raised(method, **{**needed(method), parameter: object()})
            assert isinstance(error, SchemaValidationError), (name, parameter, error)
            assert parameter in str(error).lower(), (name, error)
            tried += 1
    assert tried > 120


@pytest.mark.req("A-13", "A-25")
@pytest.mark.parametrize(
    ("method", "values", "cure"),
    [
        ("prepare_turn", {"user_message": "hello"}, "Message"),
        ("prepare_turn", {"user_message": {"role": "user", "content": "hi"}}, "Message"),
        ("prepare_turn", {"user_message": [ASKED, "hello"]}, "Message"),
        ("commit_assistant_message", {"assistant_message": "hi"}, "Message"),
        ("finalize_assistant_message", {"refs": ["e1"]}, "Ref"),
        ("record_evidence", {"type": "no such type"}, "tool_result"),
        ("record_event", {"payload": "what happened"}, "Mapping"),
        ("list_evidences", {"filter": "rag"}, "EvidenceFilter"),
        ("prepare_turn", {"role": "boss", "user_message": ASKED}, "agent, worker"),
        ("prepare_turn", {"want": "knowledge__context", "user_message": ASKED}, "Collection"),
        ("record_retrieval", {"hit": RETRIEVAL("kb", "?", ["hello"])}, "RetrievedDoc"),
        ("record_tool_run", {"run": TOOL_RUN("t", {}, "hello", type="agent")}, "function_call"),
        ("record_tool_run", {"run": TOOL_RUN("t", {}, "hello", status="well")}, "success"),
    ],
)
async def test_the_refusal_says_what_is_expected(
    engine: ContextEngine, method: str, values: dict[str, Any], cure: str
) -> None:
    called = getattr(engine, method)
    with pytest.raises(SchemaValidationError, match=cure) as caught:
        await called(**{**needed(called), "session_id": "s", **values})
    assert next(iter(values)) in str(caught.value)
    assert "hello" not in str(caught.value), "an error may be logged: it has no content"


@pytest.mark.req("A-13", "A-01")
async def test_the_word_of_an_enum_will_do(engine: ContextEngine) -> None:
    found = await engine.record_evidence("s", "42", SOURCE, "tool_result")  # type: ignore[arg-type]  # a word
    assert found.type is EvidenceType.TOOL_RESULT


@pytest.mark.req("A-13", "A-14")
async def test_the_seeds_example_as_it_is_written(engine: ContextEngine) -> None:
    session_id, store = "42", engine.store
    prepared = await engine.prepare_turn(
        session_id=session_id,
        user_message=Message(role=Role.USER, content="hello", at=engine.clock.now_iso()),
        runtime_config=RuntimeConfig(),
    )
    assert prepared.assembled_input.parts
    for index, text in enumerate(["h", "i"]):
        await engine.commit_assistant_chunk(session_id, text, index)
    await engine.finalize_assistant_message(session_id, refs=[])
    llm_output_eid = await store.put_evidence(
        session_id,  # type: ignore[arg-type]  # the seed's stores take ids
        Evidence(
            evidence_id=engine.ids.generate(),
            type=EvidenceType.LLM_OUTPUT,
            source=EvidenceSource(kind=SourceKind.LLM, name="provider"),
            content="hi",
            links=EvidenceLinks(model_usage_id="usage"),
        ),
    )
    put = await engine.record_model_usage(
        session_id=session_id,
        model_usage=ModelUsage(
            model_usage_id="usage", provider="provider", model="m", total_tokens=3
        ),
        llm_output_evidence_id=llm_output_eid,
    )
    assert put.success
    document = await engine.get_session(session_id)
    assert document is not None
    assert [m.content for m in document.session.messages] == ["hello", "hi"]
    assert "usage" in [each.model_usage_id for each in document.session.model_usage]
    assert document.evidences[llm_output_eid].links.model_usage_id == "usage"


@pytest.mark.req("A-13")
async def test_a_tool_call_as_the_seed_writes_it(engine: ContextEngine) -> None:
    call = ToolCall(
        tool_call_id="t1",
        tool="getOrder",
        provider=ToolProvider(
            kind=ProviderKind.BUILTIN, name="order-service", uri="https://a.example"
        ),
        called_at=engine.clock.now_iso(),
        args_digest={"order_id": "xxxx"},
        status=ToolCallStatus.SUCCESS,
        duration_ms=37,
    )
    found = await engine.ingest(
        "s",
        content='{"state": "paid"}',
        source=EvidenceSource(kind=SourceKind.TOOL, name="getOrder"),
        evidence_type=EvidenceType.TOOL_RESULT,
        links=EvidenceLinks(tool_call_id="t1"),
    )
    put = await engine.record_tool_call("s", call, result_evidence_ids=[found.evidence_id])
    assert put.success
    way = (await engine.trace("s", found.evidence_id)).evidence[0]
    assert way.tool_call is not None
    assert way.tool_call.result_evidence_ids == [found.evidence_id]


@pytest.mark.req("A-13", "A-03")
async def test_usage_is_linked_to_the_output_it_made(engine: ContextEngine) -> None:
    usage = ModelUsage(model_usage_id="u1", provider="p", model="m")
    source = EvidenceSource(kind=SourceKind.LLM, name="p")
    output = await engine.record_evidence("s", "out", source, EvidenceType.LLM_OUTPUT)
    await engine.record_model_usage("s", usage, llm_output_evidence_id=output.evidence_id)
    [way] = (await engine.trace("s", output.evidence_id)).evidence
    assert way.model_usage is not None
    assert way.model_usage.model_usage_id == "u1"
    found = await engine.get_evidence("s", output.evidence_id)
    assert found is not None
    assert found.links.model_usage_id == "u1", "the evidence itself names the call that made it"
    with pytest.raises(EvidenceNotFoundError, match="nowhere"):
        await engine.record_model_usage("s", usage, llm_output_evidence_id="nowhere")


@pytest.mark.req("A-07")
@pytest.mark.parametrize("url", ["memory://", "file:{}/sessions", "sqlite:///{}/ce.db"])
async def test_stores_take_ids_too(url: str, tmp_path: Path) -> None:
    store: Any = open_store(url.format(tmp_path))
    await store.append_messages("s", [ASKED])
    await store.put_context_blocks("s", [])
    async with store.transaction("s") as group:
        group.add(AppendModelUsage([VALUES["model_usage"]], None))
    found = await store.get_session(Scope(session_id="s"))
    assert [message.content for message in found.session.messages] == ["你好"]
    for bad in (7, None, ""):
        with pytest.raises(SchemaValidationError, match="session_id"):
            await store.get_session(bad)
    await store.close()
