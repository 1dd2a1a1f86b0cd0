"""Pipelines: dumped alike, what comes later is governed, copies are, and nothing is left behind."""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest
from haystack import Pipeline, SuperComponent, component
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.query import QueryExpander
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret

from ce_engine import ConfigError, ContextEngine, Scope, UnsupportedTargetError
from ce_integrations import install_ce as install_on_anything
from ce_integrations.haystack import install_ce
from ce_integrations.identity.session import ce_session
from ce_integrations.testing.wire import Wire
from tests.adapters.haystack.conftest import MakeModel
from tests.adapters.haystack.contract_apps import Model
from tests.adapters.haystack.contract_surfaces import prompting, said
from tests.adapters.stored import Stored


def ask(pipeline: Any, text: str = "lane? 车道", **more: Any) -> str:
    done = pipeline.run({"prompt": {"question": text}, **more})
    return str(done["llm"]["replies"][0].text)


def dumpable() -> Pipeline:
    """All of it is the framework's own, so that it can be loaded."""
    made = Pipeline(metadata={"of": "测试"})
    made.add_component("prompt", ChatPromptBuilder(template=said("In a word: {{question}}")))
    made.add_component("llm", OpenAIChatGenerator(api_key=Secret.from_env_var("KEY")))
    made.add_component(
        "agent", Agent(chat_generator=OpenAIChatGenerator(api_key=Secret.from_env_var("KEY")))
    )
    made.connect("prompt", "llm")
    made.connect("llm.replies", "agent.messages")
    return made


@pytest.mark.scenario(3)
def test_it_is_dumped_as_before_and_loads_without_us(
    engine: ContextEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "no key")
    pipeline = dumpable()
    before = pipeline.dumps()
    loaded = Pipeline.loads(before).dumps()
    with install_ce(pipeline, engine=engine):
        assert pipeline.dumps() == before
        assert Pipeline.loads(before).dumps() == loaded
    assert "ce_" not in before
    assert pipeline.dumps() == before
    assert Pipeline.loads(before).dumps() == loaded


@pytest.mark.scenario(3)
def test_what_is_loaded_while_another_is_governed_is_its_own(
    engine: ContextEngine, monkeypatch: pytest.MonkeyPatch, kept: Stored
) -> None:
    monkeypatch.setenv("KEY", "no key")
    pipeline = dumpable()
    with Wire("A line.") as wire, install_ce(pipeline, engine=engine):
        text = pipeline.dumps().replace("api_base_url: null", f"api_base_url: {wire.base_url}")
        loaded = Pipeline.loads(text)
        loaded.run({"prompt": {"question": "lane?"}})
        assert len(wire.requests) == 2
    assert kept.sessions() == []


@pytest.mark.scenario(3)
def test_a_run_goes_on_behind_a_breakpoint_and_is_recorded_once(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    from haystack.core.errors import BreakpointException
    from haystack.dataclasses.breakpoints import Breakpoint

    data = {"prompt": {"question": "lane?"}}
    with Wire("A line.") as wire:
        pipeline = prompting(model(wire))
        with install_ce(pipeline, engine=engine), ce_session("s"):
            with pytest.raises(BreakpointException) as stopped:
                pipeline.run(data, break_point=Breakpoint("llm"))
            snapshot = stopped.value.pipeline_snapshot
            done = pipeline.run({}, pipeline_snapshot=snapshot)
        assert len(wire.requests) == 1
    assert done["llm"]["replies"][0].text == "A line."
    assert [str(turn.status) for turn in kept.turns()] == ["committed"]


# What comes later


def test_a_model_that_is_put_in_later_is_governed(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    with Wire("A line.") as wire:
        pipeline = Pipeline()
        pipeline.add_component("prompt", ChatPromptBuilder(template=said("{{question}}")))
        with install_ce(pipeline, engine=engine), ce_session("s"):
            pipeline.add_component("llm", model(wire))
            pipeline.connect("prompt", "llm")
            ask(pipeline)
    assert [str(turn.status) for turn in kept.turns()] == ["committed"]


def test_a_class_that_is_made_later_is_governed(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    with Wire("A line.") as wire:
        inner = model(wire)
        pipeline = prompting(inner)
        with install_ce(pipeline, engine=engine), ce_session("s"):

            @component
            class Later:
                """Its sockets are set as it is made."""

                def __init__(self) -> None:
                    component.set_output_types(self, replies=list[ChatMessage])

                def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
                    return {"replies": [ChatMessage.from_assistant(f"{len(messages)} 条")]}

            plain = Later.run
            pipeline.remove_component("llm")
            pipeline.add_component("llm", Later())
            pipeline.connect("prompt", "llm")
            assert ask(pipeline) == "1 条"
    assert Later.run is plain
    assert [str(turn.status) for turn in kept.turns()] == ["committed"]
    assert kept.document().session.messages[-1].content == "1 条"


# Copies, names, several installations


def test_a_copy_is_governed_and_so_is_a_clone(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    with Wire("A line.") as wire:
        agent = Agent(chat_generator=model(wire), system_prompt="S.")
        with install_ce(agent, engine=engine), ce_session("s"):
            copies = [copy.copy(agent)]
            if hasattr(agent, "clone"):
                copies.append(agent.clone())
            for each in copies:
                each.run(messages=said("lane?"))
    assert len(kept.turns()) == len(copies)


def test_one_model_in_two_pipelines_is_governed_by_who_asks_it(
    engine: ContextEngine, model: MakeModel
) -> None:
    with Wire("A line.") as wire:
        shared = model(wire)
        one, other = Agent(chat_generator=shared), Agent(chat_generator=shared)
        with (
            install_ce(one, engine=engine, session_id="one"),
            install_ce(other, engine=engine, session_id="other"),
        ):
            one.run(messages=said("lane?"))
            other.run(messages=said("cut?"))
        assert len(wire.requests) == 2
    stored = Stored(engine)
    assert [m.content for m in stored.document("one").session.messages] == ["lane?", "A line."]
    assert [m.content for m in stored.document("other").session.messages] == ["cut?", "A line."]


@pytest.mark.scenario(11)
def test_taken_away_it_is_as_it_was(engine: ContextEngine, model: MakeModel, kept: Stored) -> None:
    with Wire("A line.") as wire:
        pipeline = prompting(model(wire))
        ask(pipeline)
        plain, run = wire.requests[0].raw, OpenAIChatGenerator.run
        installation = install_ce(pipeline, engine=engine, session_id="s")
        assert inspect.signature(OpenAIChatGenerator.run) == inspect.signature(run)
        ask(pipeline)
        installation.uninstall()
        assert OpenAIChatGenerator.run is run
        ask(pipeline)
        assert [sent.raw for sent in wire.requests] == [plain] * 3
    assert len(kept.turns()) == 1


@pytest.mark.scenario(11)
def test_a_target_that_is_dropped_leaves_nothing(engine: ContextEngine) -> None:
    run = OpenAIChatGenerator.run
    with Wire("A line.") as wire:
        install_ce(prompting(Model(wire)), engine=engine)
        gc.collect()
        install_ce(prompting(Model(wire)), engine=engine).uninstall()
    assert OpenAIChatGenerator.run is run


def test_what_it_is_installed_on(engine: ContextEngine, model: MakeModel) -> None:
    with Wire("A line.") as wire:
        for target in (
            prompting(model(wire)),
            Agent(chat_generator=model(wire)),
            model(wire),
            SuperComponent(prompting(model(wire))),
        ):
            with install_on_anything(target, engine=engine) as installation:
                assert installation.hooks.adapter.name == "haystack"
        with pytest.raises(UnsupportedTargetError, match="Pipeline"):
            install_ce(ChatPromptBuilder(template=said("{{question}}")), engine=engine)
        with pytest.raises(ConfigError, match="history"):
            install_ce(model(wire), engine=engine, history=True)


# Whose session


def test_the_inputs_of_a_run_name_the_session(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    with Wire("A line.") as wire:
        agent = Agent(chat_generator=model(wire))
        pipeline = Pipeline()
        pipeline.add_component("agent", agent)
        with install_ce(pipeline, engine=engine):
            given = {"messages": said("lane?"), "hook_context": {"session_id": "s", "user_id": "u"}}
            pipeline.run({"agent": given})
            agent.run(messages=said("cut?"), hook_context={"session_id": "default"})
    asked = [m.content for m in kept.document("s", "u").session.messages if m.role == "user"]
    assert asked == ["lane?"]
    assert len(kept.sessions()) == 2


@component
class Question:
    """Hands a question on once its other words are there."""

    @component.output_types(text=str)
    def run(self, queries: list[str], question: str) -> dict[str, Any]:
        return {"text": question} if queries else {}


PEOPLE = ("Anna", "Bert", "李雷")


@pytest.mark.req("A-24", "B-03")
def test_what_a_pipeline_asks_a_helper_first_is_in_the_run_that_asked(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    """A helper's list goes on with nobody's: the pipeline's newest session was that of who asked before."""
    with Wire(lambda body: '{"queries": ["x"]}' if "JSON" in str(body) else "So.") as wire:
        pipeline = prompting(model(wire))
        expander = QueryExpander(chat_generator=model(wire), n_expansions=1)
        pipeline.add_component("expander", expander)
        pipeline.add_component("question", Question())
        pipeline.connect("expander.queries", "question.queries")
        pipeline.connect("question.text", "prompt.question")
        with install_ce(pipeline, engine=engine):
            for name in PEOPLE:
                asked = f"What of {name}?"
                pipeline.run({"expander": {"query": asked}, "question": {"question": asked}})
    assert sorted(kept.people_in(PEOPLE)) == [[name] for name in PEOPLE]
    assert [len(kept.turns(each.session_id)) for each in kept.sessions()] == [2, 2, 2]


@component
class Intake:
    """Takes what a client sent."""

    @component.output_types(messages=list[ChatMessage])
    def run(self, payload: dict[str, Any], thread_id: str = "") -> dict[str, Any]:
        return {"messages": said(payload["question"])}


SENT = {"question": "lane?", "session_id": "theirs", "user_id": "ada"}


@pytest.mark.parametrize(
    "inputs",
    [
        {"intake": {"payload": SENT}},
        pytest.param({"payload": SENT}, marks=pytest.mark.needs("mappings")),
        {"intake": {"payload": SENT, "thread_id": "own"}},
    ],
)
def test_what_a_client_sent_names_nobody(
    engine: ContextEngine, model: MakeModel, kept: Stored, inputs: dict[str, Any]
) -> None:
    """A payload is no input that the app wrote: it would name any session it likes."""
    with Wire("A line.") as wire:
        pipeline = Pipeline()
        pipeline.add_component("intake", Intake())
        pipeline.add_component("llm", model(wire))
        pipeline.connect("intake.messages", "llm.messages")
        with install_ce(pipeline, engine=engine):
            pipeline.run(inputs)
    [found] = kept.sessions()
    assert found.user_id == ""
    assert found.session_id != "theirs"
    assert (found.session_id == "own") == ("own" in str(inputs))


@pytest.mark.scenario(7)
def test_fifty_at_once_are_fifty_sessions(
    engine: ContextEngine, model: MakeModel, kept: Stored, runner: asyncio.Runner
) -> None:
    async def one(n: int) -> None:
        with ce_session(f"s{n}", user_id=f"u{n}"):
            await pipeline.run_async({"prompt": {"question": f"lane {n}?"}})

    async def all_at_once() -> None:
        await asyncio.gather(*map(one, range(50)))

    with Wire(heard) as wire:
        pipeline = prompting(model(wire))
        with install_ce(pipeline, engine=engine):
            runner.run(all_at_once())
        assert len(wire.requests) == 50
    for n in range(50):
        messages = kept.document(f"s{n}", f"u{n}").session.messages
        assert [m.content for m in messages] == [
            f"In a word: lane {n}?",
            f"heard: In a word: lane {n}?",
        ]


@pytest.mark.scenario(8)
def test_eight_threads_share_a_pipeline(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    def one(n: int) -> str:
        with ce_session(f"s{n}"):
            return ask(pipeline, f"lane {n}?") + ask(pipeline, f"cut {n}?")

    with Wire(heard) as wire:
        pipeline = prompting(model(wire))
        pipeline.warm_up()
        with install_ce(pipeline, engine=engine), ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(one, range(8)))
    for n, answer in enumerate(answers):
        assert answer == f"heard: In a word: lane {n}?heard: In a word: cut {n}?"
        asked = [m.content for m in kept.document(f"s{n}").session.messages if m.role == "user"]
        assert asked == [f"In a word: lane {n}?", f"In a word: cut {n}?"]


def heard(body: Any) -> str:
    return f"heard: {body['messages'][-1]['content']}"


@component
class Front:
    """Takes what the app says of whom it asks for."""

    @component.output_types(messages=list[ChatMessage])
    def run(self, user_id: str, session_id: str, question: str) -> dict[str, Any]:
        return {"messages": said(question)}


def fronted(llm: Any) -> Pipeline:
    made = Pipeline()
    made.add_component("front", Front())
    made.add_component("llm", llm)
    made.connect("front.messages", "llm.messages")
    return made


@component
class Hand:
    """Hands what a model answered to another pipeline."""

    def __init__(self, to: Pipeline) -> None:
        self.to = to

    @component.output_types(text=str)
    def run(self, replies: list[ChatMessage]) -> dict[str, Any]:
        done = self.to.run({"front": json.loads(replies[0].text or "")})
        return {"text": done["llm"]["replies"][0].text}


@pytest.mark.req("B-03")
@pytest.mark.parametrize("around", [nullcontext, lambda: ce_session("eves")], ids=["", "block"])
def test_what_a_model_answered_names_nobody_inside(
    engine: ContextEngine, model: MakeModel, kept: Stored, around: Any
) -> None:
    """Parsed and passed on by the app, it is no more than an answer."""
    rule = "Say no more than is asked. 少说。"
    engine.sync.constraints.create(Scope(session_id="main", user_id="ada"), rule)
    answer = json.dumps({"question": "the gate?", "session_id": "main", "user_id": "ada"})
    with Wire([answer, "So."]) as wire:
        inner, outer = fronted(model(wire)), fronted(model(wire))
        outer.add_component("hand", Hand(inner))
        outer.connect("llm.replies", "hand.replies")
        eve = {"question": "Where to?", "session_id": "eves", "user_id": "eve"}
        with install_ce(outer, engine=engine), install_ce(inner, engine=engine), around():
            outer.run({"front": eve})
        assert [rule in str(body) for body in wire.bodies] == [False] * 2
    assert {(each.user_id, each.session_id) for each in kept.sessions()} == {("eve", "eves")}
