"""Sessions: what a flow or a crew is started with says whose it is, and two at once never mix."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from crewai import Flow
from crewai.flow.flow import listen, start
from crewai.knowledge.knowledge import Knowledge
from crewai.knowledge.storage.knowledge_storage import KnowledgeStorage
from crewai.memory.unified_memory import Memory
from crewai.tools import tool

from ce_engine import Scope, SessionDocument
from ce_integrations import ce_session
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.crewai.apps import agent, crew, model, task
from tests.adapters.stored import Stored


pytestmark = [pytest.mark.scenario(6), pytest.mark.req("A-24", "B-03")]

Read = Callable[..., SessionDocument]


def flow_of(llm: Any) -> Any:
    class Asking(Flow[dict[str, Any]]):
        @start()
        def begin(self) -> str:
            return str(llm.call([{"role": "user", "content": self.state["text"]}]))

    return Asking(suppress_flow_events=True)


def said(document: SessionDocument) -> list[str]:
    return [message.content for message in document.session.messages]


def test_the_id_of_a_flow_is_its_session(install: Any, engine: Any, stored: Read) -> None:
    with Wire("So.") as wire:
        flow = flow_of(model(wire))
        with install(flow, engine=engine):
            flow.kickoff(inputs={"id": "talk-7", "text": "lane?"})
    assert said(stored("talk-7")) == ["lane?", "So."]


@pytest.mark.parametrize("name", ["session_id", "conversation_id", "thread_id"])
def test_inputs_of_a_crew_name_session_and_user(
    install: Any, engine: Any, stored: Read, name: str
) -> None:
    with Wire("So.") as wire:
        made = crew(task(agent(model(wire))))
        with install(made, engine=engine):
            made.kickoff(inputs={"text": "车道?", name: "talk-8", "user_id": "ann"})
    assert said(stored("talk-8", "ann"))[-1] == "So."


def test_what_the_app_says_wins(install: Any, engine: Any, stored: Read) -> None:
    with Wire("So.") as wire:
        made = crew(task(agent(model(wire))))
        with install(made, engine=engine), ce_session("talk-9"):
            made.kickoff(inputs={"text": "lane?", "session_id": "another"})
    assert said(stored("talk-9"))[-1] == "So."


def test_a_flow_or_crew_without_an_id_is_in_no_named_session(
    install: Any, engine: Any, sessions: Any
) -> None:
    with Wire("So.") as wire:
        for made in (flow_of(model(wire)), crew(task(agent(model(wire))))):
            with install(made, engine=engine):
                made.kickoff(inputs={"text": "lane?"})
    assert [found.ephemeral for found in sessions()] == [True, True]


class Files(KnowledgeStorage):
    """A shelf that has a file of each person."""

    def search(self, query: Any, *_: Any, **__: Any) -> Any:
        text = next(f"the file of {name}" for name in PEOPLE if name in str(query))
        return [{"id": text, "content": text, "metadata": {}, "score": 0.9}]


PEOPLE = ("Anna", "Bert", "李雷")


def test_what_a_crew_looks_up_first_is_in_the_run_that_asked(install: Any, engine: Any) -> None:
    """It is looked up before a model is asked: the crew's newest session was that of who asked before."""
    with Wire("So.") as wire:
        helper = agent(model(wire))
        helper.knowledge = Knowledge("files", [], storage=Files())
        with install(made := crew(task(helper)), engine=engine):
            for name in PEOPLE:
                made.kickoff(inputs={"text": f"What of {name}?"})
    people = Stored(engine).people_in(PEOPLE)
    assert sorted(people) == [[name] for name in PEOPLE]


def remembering(body: Any) -> Any:
    """An answer, or what a memory asks for to save one."""
    wanted = json.dumps(body.get("response_format", {}))
    if "ExtractedMemories" in wanted:
        return text(json.dumps({"memories": ["The lamp is red.", "It stands in the hall."]}))
    if "MemoryAnalysis" in wanted:
        found: dict[str, list[str]] = {"entities": [], "dates": [], "topics": []}
        plan = {"suggested_scope": "/a", "categories": ["x"], "importance": 0.7}
        return text(json.dumps({**plan, "extracted_metadata": found}))
    if "ConsolidationPlan" in wanted:
        plan = {"actions": [], "insert_new": True, "insert_reason": "new"}
        return text(json.dumps(plan))
    return text("The lamp is red.")


def places(texts: list[str]) -> list[list[float]]:
    """Vectors of texts that are alike where their lengths are."""
    return [[float(len(each) % n == 0) + 0.1 for n in range(1, 9)] for each in texts]


def test_what_a_memory_saves_in_the_background_is_of_the_session_that_it_saves_for(
    install: Any, engine: Any, sessions: Any, tmp_path: Path
) -> None:
    """An agent's `kickoff` has answered by then: two users, one after the other, each with all calls of their own."""
    with Wire(remembering) as wire:
        memory = Memory(llm=model(wire), storage=str(tmp_path / "memory"), embedder=places)
        helper = agent(model(wire), memory=memory)
        with install(helper, engine=engine):
            for name in ("ann", "bert"):
                with ce_session(f"talk of {name}", user_id=name):
                    helper.kickoff("What of the lamp?")
                memory.drain_writes()
        assert len(wire.bodies) > 4
    assert sorted(found.session_id for found in sessions()) == ["talk of ann", "talk of bert"]
    scopes = [Scope(session_id=f"talk of {name}", user_id=name) for name in ("ann", "bert")]
    counts = [len(engine.sync.list_turns(scope)) for scope in scopes]
    assert sum(counts) == len(wire.bodies)
    assert min(counts) > 1


@pytest.mark.parametrize(
    "method", [pytest.param("train", marks=pytest.mark.needs("trains")), "test"]
)
def test_what_evaluates_a_crew_is_recorded_and_no_part_of_its_talk(
    install: Any,
    engine: Any,
    stored: Read,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    method: str,
) -> None:
    def script(body: Any) -> Any:
        if "final_summary" in json.dumps(body):
            return text(json.dumps({"suggestions": ["x"], "quality": 9.0, "final_summary": "s"}))
        return text(json.dumps({"quality": 9.0}) if "quality" in json.dumps(body) else "So.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.input", lambda *_: "good")
    with Wire(script) as wire:
        made = crew(task(agent(model(wire))))
        with install(made, engine=engine), ce_session("talk"):
            if method == "train":
                made.train(n_iterations=1, filename="t.pkl", inputs={"text": "lane?"})
            else:
                made.test(n_iterations=1, eval_llm=model(wire), inputs={"text": "lane?"})
        document = stored("talk")
        turns = engine.sync.list_turns(Scope(session_id="talk"))
        assert len(turns) == len(wire.bodies) > 1
    assert "helper" in {turn.purpose for turn in turns}
    assert not any("quality" in text_ for text_ in said(document))


def test_two_sessions_on_threads_never_mix(install: Any, engine: Any, stored: Read) -> None:
    with Wire(lambda body: text(f"heard: {body['messages'][-1]['content']}")) as wire:
        flows = [flow_of(model(wire)) for _ in range(2)]
        for flow in flows:
            install(flow, engine=engine)

        def talk(n: int) -> None:
            for turn in range(3):
                flows[n].kickoff(inputs={"id": f"talk {n}", "text": f"{n} says {turn}"})

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(talk, range(2)))
    for n in range(2):
        words = said(stored(f"talk {n}"))
        assert [each for each in words if not each.startswith("heard")] == [
            f"{n} says {turn}" for turn in range(3)
        ]
        assert all(f"{n} says" in each for each in words)


def test_what_a_model_gives_a_tool_names_nobody(install: Any, engine: Any, sessions: Any) -> None:
    """A parameter of a tool may be called `user_id`: it says whom the model asks about, not who asks."""
    rule = "Say no more than is asked. 少说。"
    engine.sync.constraints.create(Scope(session_id="main", user_id="ada"), rule)
    script = [tool_calls([("lookup", {"user_id": "ada"})]), text("Nothing."), text("So.")]
    with Wire(script) as wire:
        inner = crew(task(agent(model(wire), "clerk"), "What of {user_id}?"))

        @tool
        def lookup(user_id: str) -> str:
            """Look a user up."""
            return str(inner.kickoff(inputs={"user_id": user_id, "session_id": "main"}))

        outer = crew(task(agent(model(wire), tools=[lookup])))
        with install(outer, engine=engine), install(inner, engine=engine):
            outer.kickoff(inputs={"text": "lane?", "session_id": "main", "user_id": "eve"})
        assert [rule in str(body) for body in wire.bodies] == [False] * 3
    assert {each.user_id for each in sessions()} == {"eve"}


ADA = {"session_id": "main", "user_id": "ada"}
EVE = {"session_id": "eves", "user_id": "eve"}
RULE = "Say no more than is asked. 少说。"


def routed(llm: Any, made: Any, *, opened: bool = False) -> Any:
    """A flow that starts a crew with what its model answered."""

    class Routing(Flow[dict[str, Any]]):
        @start()
        def route(self) -> str:
            return str(llm.call([{"role": "user", "content": "Where to?"}]))

        @listen(route)
        def go(self, answer: str) -> str:
            with ce_session("opened") if opened else nullcontext():
                return str(made.kickoff(inputs=json.loads(answer)))

    return Routing(suppress_flow_events=True)


@pytest.mark.parametrize(
    ("around", "inputs", "whose"),
    [
        (nullcontext, EVE, ("eve", "eves")),
        (lambda: ce_session("eves", user_id="eve"), {}, ("eve", "eves")),
        (lambda: ce_session("eves"), {}, ("", "eves")),
        (nullcontext, {"id": "eves"}, ("", "eves")),
    ],
    ids=["inputs", "block", "block of no user", "id"],
)
def test_what_a_model_answered_names_nobody_inside(
    install: Any, engine: Any, sessions: Any, around: Any, inputs: Any, whose: tuple[str, str]
) -> None:
    """Parsed and passed on by the app, it is no more than an answer."""
    engine.sync.constraints.create(Scope(**ADA), RULE)
    with Wire([json.dumps({"text": "the gate?", **ADA}), "So."]) as wire:
        made = crew(task(agent(model(wire))))
        flow = routed(model(wire), made)
        with install(flow, engine=engine), install(made, engine=engine), around():
            flow.kickoff(inputs=inputs)
        assert [RULE in str(body) for body in wire.bodies] == [False] * 2
    assert {(each.user_id, each.session_id) for each in sessions()} == {whose}


def test_a_block_inside_opens_another_session(install: Any, engine: Any, sessions: Any) -> None:
    """It is the app's own code; the user is the one outside."""
    with Wire([json.dumps({"text": "the gate?", **ADA}), "So."]) as wire:
        made = crew(task(agent(model(wire))))
        flow = routed(model(wire), made, opened=True)
        with install(flow, engine=engine), install(made, engine=engine):
            flow.kickoff(inputs=EVE)
    found = {(each.user_id, each.session_id) for each in sessions()}
    assert found == {("eve", "eves"), ("eve", "opened")}


def test_what_a_model_gives_a_function_that_it_runs_itself_names_nobody(
    install: Any, engine: Any, sessions: Any
) -> None:
    engine.sync.constraints.create(Scope(**ADA), RULE)
    with Wire([tool_calls([("lookup", {"user_id": "ada"})]), text("Nothing.")]) as wire:
        made, llm = crew(task(agent(model(wire)), "What of {user_id}?")), model(wire)

        def lookup(user_id: str) -> str:
            return str(made.kickoff(inputs={**ADA, "user_id": user_id}))

        schema = {"type": "object", "properties": {"user_id": {"type": "string"}}}
        told = {"name": "lookup", "description": "Look.", "parameters": schema}
        asked = [{"role": "user", "content": "Look Ada up."}]
        with install(llm, engine=engine), install(made, engine=engine):
            tools = [{"type": "function", "function": told}]
            llm.call(asked, tools=tools, available_functions={"lookup": lookup})
        assert [RULE in str(body) for body in wire.bodies] == [False] * 2
    assert {each.user_id for each in sessions()} == {""}
