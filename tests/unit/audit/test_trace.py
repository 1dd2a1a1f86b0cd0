"""From an answer, a block or evidence to the call that made it, who asked, and the turn (A-03)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ce_engine import (
    ContextEngine,
    Evidence,
    EvidenceLinks,
    EvidenceNotFoundError,
    EvidenceSource,
    EvidenceTrace,
    EvidenceType,
    Message,
    Ref,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    Scope,
    ScopeViolationError,
    SelectorResolveError,
    SourceKind,
    StoreConfig,
    ToolCall,
    ToolCallStatus,
    ToolProvider,
    ToolRun,
    Trace,
    create_context_engine,
)
from ce_engine.apps.present.output import short_id
from ce_engine.schema.document import ContextBlock
from ce_engine.schema.enums import BlockType, Priority, ProviderKind
from ce_engine.testing import samples
from ce_engine.testing.host import HostApp, tool_calls, user
from tests.hosts.cli_host import TALK, ce, fill, talk, url_of


pytestmark = pytest.mark.req("A-03")


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ContextEngine]:
    url = "memory://" if request.param == "memory" else url_of(tmp_path / "ce.db")
    patient = RuntimeConfig(store=StoreConfig(deadline_s=30))  # a busy machine is no fault
    made = create_context_engine(url, config=patient)
    talk(made)
    made.sync.flush()  # what is looked up in the store is there
    yield made
    made.sync.close()


async def answers(engine: ContextEngine) -> list[str]:
    await engine.flush()
    document = await engine.store.get_session(TALK)
    assert document is not None
    said = [m for m in document.session.messages if m.role is Role.ASSISTANT]
    return [message.message_id or "" for message in said]


async def evidence_of(engine: ContextEngine, kind: EvidenceType) -> list[Evidence]:
    await engine.flush()
    return [e for e in await engine.store.list_evidences(TALK) if e.type is kind]


def only(trace: Trace) -> EvidenceTrace:
    [found] = trace.evidence
    return found


async def test_an_answer_leads_to_the_call_that_was_asked_for(engine: ContextEngine) -> None:
    asking, answering, _ = await answers(engine)
    trace = await engine.trace(TALK, answering)
    found = only(trace)
    assert (trace.id, trace.kind) == (answering, "message")
    assert found.evidence is not None
    assert (found.evidence.type, found.evidence.content) == (EvidenceType.TOOL_RESULT, "4 度")
    assert found.tool_call is not None
    assert (found.tool_call.tool, found.tool_call.args_digest) == ("weather", {"city": "奥斯陆"})
    assert found.tool_call.result_evidence_ids == [found.evidence.evidence_id]
    assert found.asked_by is not None
    assert found.asked_by.message_id == asking
    turns = await engine.store.list_turns(TALK)
    assert (found.turn, found.turn_id) == (1, turns[0].turn_id)
    assert turns[0].answer_message_id == asking
    assert answering in found.used_by
    assert found.model_usage is None


async def test_an_output_leads_to_its_model_call(engine: ContextEngine) -> None:
    turns = await engine.store.list_turns(TALK)
    for output in await evidence_of(engine, EvidenceType.LLM_OUTPUT):
        found = only(await engine.trace(TALK, output.evidence_id))
        assert found.model_usage is not None
        assert found.model_usage.model_usage_id == output.links.model_usage_id
        [turn] = [t for t in turns if t.model_usage_id == output.links.model_usage_id]
        assert found.turn_id == turn.turn_id
        assert found.turn == turns.index(turn) + 1
        assert (found.tool_call, found.asked_by) == (None, None)


async def test_a_document_leads_to_its_retrieval_and_its_turn(engine: ContextEngine) -> None:
    [document] = await evidence_of(engine, EvidenceType.RAG_DOC)
    found = only(await engine.trace(TALK, document.evidence_id))
    assert found.tool_call is not None
    assert (found.tool_call.tool, found.tool_call.tool_call_id) == ("library", "run-2")
    assert found.asked_by is None  # no message asked: the chain did
    assert found.turn == 3
    assert found.used_by == [(await answers(engine))[2]]


async def test_a_run_that_no_message_asked_for_leads_to_its_turn(engine: ContextEngine) -> None:
    app = talk(engine, scope := Scope(session_id="own runs"))
    run = ToolRun("clock", {}, "noon", "run-9")
    engine.post_tool_run(scope, run, request_id="request-3", framework="by-hand")
    app.ask("What time is it?", "Noon.")
    await engine.flush()
    [found] = [e for e in await engine.store.list_evidences(scope) if e.content == "noon"]
    trace = only(await engine.trace(scope, found.evidence_id))
    assert trace.tool_call is not None
    assert trace.tool_call.tool == "clock"
    assert (trace.turn, trace.asked_by) == (4, None)


async def test_a_block_leads_to_all_its_evidence(engine: ContextEngine) -> None:
    [document] = await evidence_of(engine, EvidenceType.RAG_DOC)
    refs = [
        Ref(evidence_id=document.evidence_id, selector="regex:water"),
        Ref(evidence_id=document.evidence_id, selector="lines:7-8"),
        Ref(evidence_id="elsewhere"),
    ]
    block = ContextBlock(
        block_id="block-1", block_type=BlockType.EVIDENCE, priority=Priority.HIGH, refs=refs
    )
    await engine.store.put_context_blocks(TALK, [block])
    trace = await engine.trace(TALK, "block-1")
    assert trace.kind == "block"
    part, wrong, elsewhere = trace.evidence
    assert (part.text, part.problem) == ("water", None)
    assert wrong.text is None
    assert "matches nothing" in (wrong.problem or "")
    assert wrong.tool_call == part.tool_call is not None
    assert elsewhere == EvidenceTrace(ref=refs[2])


async def test_what_is_recorded_by_hand_is_linked_too(engine: ContextEngine) -> None:
    turn = (await engine.store.list_turns(TALK))[1]
    call = ToolCall(tool_call_id="call-1", tool="crm", provider=ToolProvider(kind=ProviderKind.MCP))
    await engine.record_tool_call(TALK, call)
    evidence = await engine.record_evidence(
        TALK,
        '{"customer": {"name": "李雷"}}',
        EvidenceSource(kind=SourceKind.TOOL, name="crm"),
        EvidenceType.TOOL_RESULT,
        links=EvidenceLinks(tool_call_id="call-1"),
        turn_id=turn.turn_id,
    )
    ref = Ref(evidence_id=evidence.evidence_id, selector="json:$.customer.name")
    found = only(await engine.trace(TALK, ref))
    assert found.text == "李雷"
    assert found.tool_call is not None
    assert found.tool_call.tool == "crm"
    assert (found.turn, found.turn_id) == (2, turn.turn_id)


async def test_a_document_without_turns_is_traced_as_far_as_it_tells(
    engine: ContextEngine,
) -> None:
    scope = Scope(session_id="moved here")
    await engine.store.put_session(scope, samples.document("moved here"))
    found = only(await engine.trace(scope, "b1"))
    assert found.evidence is not None
    assert found.turn is None


def test_the_sync_face_answers_the_same(engine: ContextEngine) -> None:
    engine.sync.flush()
    [turn, *_] = engine.loop.run(engine.store.list_turns(TALK))
    assert turn.answer_message_id is not None
    trace = engine.sync.trace(TALK, turn.answer_message_id)
    assert trace == engine.loop.run(engine.trace(TALK, turn.answer_message_id))
    assert trace.kind == "message"
    assert trace.evidence == []  # it asks for a call, and rests on nothing yet


@pytest.mark.req("B-03")
async def test_what_is_not_there_and_what_is_anothers_read_the_same(engine: ContextEngine) -> None:
    [document] = await evidence_of(engine, EvidenceType.RAG_DOC)
    name = document.evidence_id
    strangers = [
        Scope(session_id=TALK.session_id, account_id="acme", user_id="王芳"),
        Scope(session_id=TALK.session_id, account_id="acme"),
        Scope(session_id=TALK.session_id, user_id="张伟"),
        Scope(session_id="another", account_id="acme", user_id="张伟"),
    ]
    talk(engine, strangers[0])
    for stranger in strangers:
        for ref in (name, Ref(evidence_id=name)):
            with pytest.raises(EvidenceNotFoundError) as raised:
                await engine.trace(stranger, ref)
            with pytest.raises(EvidenceNotFoundError) as unknown:
                await engine.trace(stranger, "no such id")
            assert str(raised.value).replace(name, "no such id") == str(unknown.value)
        with pytest.raises(EvidenceNotFoundError, match="ce show"):
            await engine.resolver(stranger).resolve(name)
    with pytest.raises(ScopeViolationError):
        await engine.trace(replace(TALK, project_id="other"), name)


async def test_a_ref_resolves_into_text(engine: ContextEngine) -> None:
    [document] = await evidence_of(engine, EvidenceType.RAG_DOC)
    resolver, name = engine.resolver(TALK), document.evidence_id
    assert await resolver.resolve(name) == "Rain is water that falls from clouds."
    assert await resolver.resolve(name, "regex:w\\w+") == "water"
    with pytest.raises(SelectorResolveError, match="matches nothing"):
        await resolver.resolve(name, "lines:2-3")


@pytest.fixture
def at(tmp_path: Path) -> tuple[str, ...]:
    url = url_of(tmp_path / "ce.db")
    fill(url)
    return ("--store", url, "--account", "acme")


def test_the_command_tells_the_way_back(at: tuple[str, ...]) -> None:
    document = json.loads(ce("show", TALK.session_id, "--json", *at).stdout)
    _, asking, _, answering, *_ = document["session"]["messages"]
    evidence_id = answering["refs"][0]["evidence_id"]
    done = ce("trace", TALK.session_id, answering["message_id"][:8], *at)
    assert done.exit_code == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    asker = asking["message_id"][:8]
    assert lines[0] == f"message {answering['message_id']}"
    assert f"rests on {evidence_id} tool_result" in lines
    assert f"quoted by {short_id(answering['message_id'])}" in lines
    assert "content 4 度" in lines
    assert f"call {asker}:0 weather(city='奥斯陆') success, 7 ms" in lines
    assert f"asked by {asker} assistant" in lines
    assert any(line.startswith("turn 1 ") for line in lines)

    part = ce("trace", TALK.session_id, evidence_id, "--select", "chars:2-3", *at).stdout
    assert "part 度" in [" ".join(line.split()) for line in part.splitlines()]
    plain = json.loads(ce("trace", TALK.session_id, evidence_id, "--json", *at).stdout)
    assert Trace.model_validate(plain).evidence[0].turn == 1


def test_an_answer_rests_on_what_it_quotes_and_was_shown_the_rest(tmp_path: Path) -> None:
    """Of two documents that went out, the answer quotes one; the app may say more than that."""
    engine = create_context_engine(url := url_of(tmp_path / "ce.db"))
    scope = Scope(session_id="s")
    app = HostApp(engine, scope, [])
    texts = ["Rain is water that falls from clouds.", "雪是在零度以下结成的冰晶。"]
    hits = [RetrievedDoc(text, uri=f"doc://{n}") for n, text in enumerate(texts)]
    for request in (1, 2):
        hit = Retrieval("library", "weather", hits, f"run-{request}")
        engine.post_retrieval(scope, hit, request_id=f"request-{request}", framework="by-hand")
        answer = ["I cannot say.", "It is water that falls from clouds."][request - 1]
        app.ask("What is rain, or snow?", answer)
    engine.sync.flush()
    document = engine.sync.get_session(scope)
    assert document is not None
    _, unsaid, _, answered = document.session.messages
    rain, snow = list(document.evidences.values())[:2]
    trace = engine.sync.trace(scope, answered.message_id or "")
    assert [item.quoted_by for item in trace.evidence] == [[answered.message_id], []]
    assert {m for item in trace.evidence for m in item.used_by} >= {unsaid.message_id}

    told = [" ".join(line.split()) for line in ce("show", "s", "--store", url).stdout.splitlines()]
    assert [line for line in told if line.startswith(("rests on", "was shown"))] == [
        f"was shown {short_id(rain.evidence_id)} rag_doc <- call run-1 library",
        f"was shown {short_id(snow.evidence_id)} rag_doc <- call run-1 library",
        f"rests on {short_id(rain.evidence_id)} rag_doc <- call run-1 library",
        f"was shown {short_id(snow.evidence_id)} rag_doc <- call run-1 library",
    ]
    traced = ce("trace", "s", answered.message_id or "", "--store", url).stdout
    assert f"rests on {rain.evidence_id} rag_doc" in traced
    assert f"was shown {snow.evidence_id} rag_doc" in traced
    engine.sync.close()


def test_what_a_tool_failed_with_is_told_redacted(tmp_path: Path) -> None:
    """One tool raised and the model never heard of it; of the other the model was told in words."""
    engine = create_context_engine(url := url_of(tmp_path / "ce.db"))
    app = HostApp(engine, scope := Scope(session_id="s"), [])
    asked = app.prepare(user("Send it"))
    app.commit(asked, tool_calls(("c1", "send", {}), ("c2", "look", {})))
    raised = ToolRun(
        "send",
        {},
        "",
        "r1",
        "c1",
        status=ToolCallStatus.ERROR,
        error="SMTPError: 收件人 wang.fang@example.com 不存在",
    )
    told = ToolRun("look", {}, "no such page", "r2", "c2", status=ToolCallStatus.ERROR)
    for run in (raised, told):
        engine.post_tool_run(scope, run, request_id="request-1", framework="by-hand")
    engine.sync.flush()
    [asking] = [m for m in engine.sync.get_session(scope).session.messages if m.tool_calls]  # type: ignore[union-attr]
    name = asking.message_id or ""
    engine.sync.close()

    shown = " ".join(ce("show", "s", "--store", url).stdout.split())
    assert f"{short_id(name)}:0 send failed: SMTPError: 收件人 [EMAIL_1] 不存在" in shown
    assert f"{short_id(name)}:1 look failed: no such page" in shown
    traced = " ".join(ce("trace", "s", name, "--store", url).stdout.split())
    assert f"asked for {short_id(name)}:0 send() error" in traced
    assert "failed SMTPError: 收件人 [EMAIL_1] 不存在" in traced
    assert "wang.fang" not in ce("show", "s", "--json", "--store", url).stdout


async def test_what_the_app_names_counts_without_a_quote(engine: ContextEngine) -> None:
    [document] = await evidence_of(engine, EvidenceType.RAG_DOC)
    scope, asked = TALK, Message(role=Role.USER, content="And snow?")
    await engine.prepare_turn(scope, asked)
    said = Message(role=Role.ASSISTANT, content="No idea.")
    await engine.commit_assistant_message(scope, said, [Ref(evidence_id=document.evidence_id)])
    newest = (await answers(engine))[-1]
    assert only(await engine.trace(scope, newest)).quoted_by[-1] == newest


def test_the_command_says_what_is_wrong_with_an_id(at: tuple[str, ...]) -> None:
    unknown = ce("trace", TALK.session_id, "nothing", "--json", *at)
    assert unknown.exit_code == 1
    assert unknown.stdout == ""
    assert json.loads(unknown.stderr)["error"]["code"] == "CONTEXT_EVIDENCE_NOT_FOUND"
    empty = ce("trace", TALK.session_id, "", *at)
    assert "CONTEXT_EVIDENCE_NOT_FOUND" in empty.stderr


def test_the_beginning_of_several_ids_is_not_enough(tmp_path: Path) -> None:
    engine = create_context_engine(url := url_of(tmp_path / "ce.db"))
    engine.loop.run(engine.store.put_session(Scope(session_id="s"), samples.document("s")))
    engine.sync.close()
    done = ce("trace", "s", "e", "--store", url)
    assert "CONTEXT_ID_AMBIGUOUS" in done.stderr
    assert ce("trace", "s", "e1", "--store", url).exit_code == 0
