"""What the demo of every framework shows, offline and over a strict provider: facts found again, within the budget."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import pytest

from ce_engine import (
    AdapterError,
    EvidenceType,
    Scope,
    SessionDocument,
    check_invariants,
    open_store,
)
from ce_engine.apps.cli.demo import Demo, DemoOptions, DemoResult
from ce_engine.schema.rows import SessionInfo, TurnRow
from ce_integrations.demo.documents import installed_packages
from ce_integrations.demo.turns import script
from ce_integrations.testing.answers import Answer, JsonObject
from ce_integrations.testing.contract_case import count
from ce_integrations.testing.wire import Wire, error


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
    bodies: list[JsonObject]


class DemoTests:
    """A framework brings its demo, and its offline model as a provider."""

    demo: ClassVar[Demo]
    is_calibrated: ClassVar[bool] = False
    """Whether what a provider counts may lower what goes out, because it counts more than we do."""

    @classmethod
    def answer(cls, body: JsonObject) -> Answer:
        """What the offline model says to a request that a provider gets."""
        raise NotImplementedError

    @classmethod
    def run(cls, url: str, bodies: list[JsonObject] | None = None) -> Run:
        progress: list[tuple[int, int, str]] = []
        options = DemoOptions(turns=TURNS, budget=BUDGET, store_url=url)
        result = cls.demo.run(options, lambda *told: progress.append(told))
        document, turns = asyncio.run(stored(url, result.session_id))
        return Run(result, progress, document, turns, bodies if bodies is not None else [])

    @pytest.fixture(scope="class")
    @classmethod
    def url(cls, tmp_path_factory: pytest.TempPathFactory) -> str:
        return f"sqlite:///{tmp_path_factory.mktemp('demo') / 'ce.db'}"

    @pytest.fixture(scope="class")
    @classmethod
    def offline(cls, url: str) -> Run:
        return cls.run(url)

    @pytest.fixture(scope="class")
    @classmethod
    def endpoint(cls, tmp_path_factory: pytest.TempPathFactory) -> Run:
        """The demo with the same model behind a strict provider, which keeps what it is sent."""
        bodies: list[JsonObject] = []
        with Wire(cls.answer, single_system=True) as wire, provider(wire, "quotes-1"):
            done = cls.run(f"sqlite:///{tmp_path_factory.mktemp('endpoint') / 'ce.db'}", bodies)
            assert wire.refusals == []
            bodies += wire.bodies
        return done

    @pytest.fixture(params=["offline", "endpoint"])
    def ran(self, request: pytest.FixtureRequest) -> Run:
        found: Run = request.getfixturevalue(request.param)
        return found

    # What the demo shows

    def test_it_is_a_demo(self) -> None:
        assert isinstance(self.demo, Demo)

    def test_facts_that_are_long_gone_are_found_again(self, ran: Run) -> None:
        missed = [question for question in ran.result.questions if not question.ok]
        assert missed == []
        assert (ran.result.found, ran.result.asked) == (5, 5)

    @pytest.mark.req("A-17")
    def test_no_call_is_over_the_budget(self, ran: Run) -> None:
        reports = [turn.report for turn in ran.turns]
        assert len(reports) > TURNS
        budgets = {report["token_budget"] for report in reports}
        assert max(budgets) == ROOM
        assert budgets == {ROOM} or self.is_calibrated
        assert max(report["token_used"] for report in reports) <= ROOM
        assert not any(report.get("over_budget") for report in reports)

    def test_no_request_is_over_the_budget_by_a_second_count(self, endpoint: Run) -> None:
        sizes = [count(body) for body in endpoint.bodies]
        assert len(sizes) == len(endpoint.turns)
        assert max(sizes) <= ROOM

    def test_the_figures_are_those_of_the_store(self, ran: Run) -> None:
        result, session = ran.result, ran.document.session
        assert result.turns == TURNS
        assert result.messages == len(session.messages)
        assert result.evidences == len(ran.document.evidences)
        assert result.tool_calls == len(session.tool_state.tool_calls)
        assert result.tokens_with == sum(turn.report["token_used"] for turn in ran.turns)
        reports = [turn.report for turn in ran.turns]
        alone = [report.get("untouched") or {"tokens": report["token_used"]} for report in reports]
        assert result.tokens_without == sum(each["tokens"] for each in alone)
        assert result.tokens_with < result.tokens_without / 2
        assert result.seconds > 0

    def test_the_model_is_named(self, offline: Run, endpoint: Run) -> None:
        assert "offline" in offline.result.model
        assert endpoint.result.model == "quotes-1"
        assert {body["model"] for body in endpoint.bodies} == {"quotes-1"}

    # What it leaves behind

    def test_every_word_is_there_once(self, ran: Run) -> None:
        said = [m.content for m in ran.document.session.messages if m.role == "user"]
        assert said == [turn.text for turn in SCRIPT]
        assert {str(turn.status) for turn in ran.turns} == {"committed"}

    @pytest.mark.req("A-03")
    def test_every_piece_of_evidence_leads_back_to_its_call(self, ran: Run) -> None:
        session = ran.document.session
        calls = {call.tool_call_id: call for call in session.tool_state.tool_calls}
        usages = {usage.model_usage_id for usage in session.model_usage}
        for evidence in ran.document.evidences.values():
            links = evidence.links
            if evidence.type is EvidenceType.LLM_OUTPUT:
                assert links.model_usage_id in usages
            else:
                assert links.tool_call_id is not None
                assert evidence.evidence_id in calls[links.tool_call_id].result_evidence_ids
        assert check_invariants(ran.document) == []

    @pytest.mark.req("A-29")
    def test_what_was_retrieved_names_its_source_and_version(self, ran: Run) -> None:
        found = [e for e in ran.document.evidences.values() if e.type is EvidenceType.RAG_DOC]
        assert found
        versions = {f"pkg:pypi/{name}@{one.version}" for name, one in PACKAGES.items()}
        assert {evidence.source.uri for evidence in found} <= versions
        assert all(e.source.uri.endswith(f"@{e.metadata['doc_version']}") for e in found)

    def test_tools_ran_as_often_as_the_model_asked(self, ran: Run) -> None:
        asked = [call.name for m in ran.document.session.messages for call in m.tool_calls or ()]
        calls = [call.tool for call in ran.document.session.tool_state.tool_calls]
        assert asked.count("lookup") == calls.count("lookup") > TURNS / 2
        retrievals = sum(turn.surface == "retrieval" for turn in SCRIPT)
        assert len(calls) - calls.count("lookup") == retrievals

    def test_a_second_run_is_another_session(self, offline: Run, url: str) -> None:
        again = self.run(url)
        assert again.result.session_id != offline.result.session_id
        ids = {info.session_id for info in sessions(url)}
        assert ids == {again.result.session_id, offline.result.session_id}
        assert asyncio.run(stored(url, offline.result.session_id))[0] == offline.document
        assert again.result.questions == [
            question._replace(answer=answer.answer)
            for question, answer in zip(
                offline.result.questions, again.result.questions, strict=True
            )
        ]

    def test_progress_is_told_turn_by_turn(self, offline: Run) -> None:
        assert offline.progress == [
            *((number, TURNS, turn.text) for number, turn in enumerate(SCRIPT)),
            (TURNS, TURNS, ""),
        ]

    @pytest.mark.parametrize(
        ("status", "name"), [(401, "AuthenticationError"), (500, "(API|InternalServer)Error")]
    )
    def test_an_endpoint_that_fails_is_named_with_the_cure(self, status: int, name: str) -> None:
        told = rf"failed at turn 1 with \w*{name}\..*unset them all"
        with (
            Wire(error(status, "no")) as wire,
            provider(wire),
            pytest.raises(AdapterError, match=told),
        ):
            self.run("memory://")


@contextmanager
def provider(wire: Wire, model: str | None = None) -> Iterator[None]:
    """The environment of an endpoint; it is as it was again behind it: other runs must not meet it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", wire.base_url)
        if model:
            patch.setenv("OPENAI_MODEL", model)
        yield


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
