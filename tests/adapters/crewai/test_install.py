"""Installing: what is governed then, copies and later models included, and what is not any more afterwards."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from crewai.llms.base_llm import BaseLLM
from crewai.llms.providers.openai.completion import OpenAICompletion

from ce_engine import MemoryStore, Scope, UnsupportedTargetError, create_context_engine
from ce_integrations import ce_session, install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.crewai.apps import agent, crew, model, task


pytestmark = [pytest.mark.scenario(7), pytest.mark.req("A-23", "A-24")]

_BASE = dict(vars(BaseLLM))
"""The base of models before any test has run."""


def test_copies_are_governed_until_it_is_taken_away(install: Any, engine: Any, stored: Any) -> None:
    with Wire("So.") as wire:
        made = crew(task(agent(model(wire))))
        installation = install(made, engine=engine)
        copied = made.copy()
        with ce_session("s1"):
            copied.kickoff(inputs={"text": "lane"})
            made.kickoff_for_each(inputs=[{"text": "turn"}, {"text": "cut"}])
        assert len(stored("s1").session.model_usage) == 3
        installation.uninstall()
        with ce_session("s1"):
            copied.kickoff(inputs={"text": "lane"})
            made.kickoff(inputs={"text": "lane"})
    assert len(stored("s1").session.model_usage) == 3
    assert len(wire.bodies) == 5


def test_a_copy_of_an_agent_is_governed_like_the_agent(
    install: Any, engine: Any, stored: Any
) -> None:
    with Wire("So.") as wire:
        made = agent(model(wire))
        with install(made, engine=engine), ce_session("s1"):
            made.copy().kickoff("车道?")
    assert len(stored("s1").session.model_usage) == 1


def test_a_model_whose_class_comes_later_is_governed(
    install: Any, engine: Any, stored: Any
) -> None:
    with Wire("So.") as wire:
        made = crew(task(agent(model(wire))))
        with install(made, engine=engine), ce_session("s1"):

            class Later(OpenAICompletion):
                def call(self, messages: Any, *args: Any, **named: Any) -> Any:
                    return super().call(messages, *args, **named)

            made.agents[0].llm = model(wire, Later)
            made.kickoff(inputs={"text": "lane"})
        assert not hasattr(Later.call, "__wrapped__") or "ce_" not in Later.call.__module__
    assert len(stored("s1").session.model_usage) == len(wire.bodies) == 1


def test_two_engines_over_one_model_do_not_mix(install: Any) -> None:
    engines = [create_context_engine(MemoryStore()) for _ in range(2)]
    with Wire("So.") as wire:
        shared = model(wire)
        crews = [crew(task(agent(shared))) for _ in engines]
        for made, engine in zip(crews, engines, strict=True):
            install(made, engine=engine, session_id="s1")
        for n, made in enumerate(crews):
            for _ in range(n + 1):
                made.kickoff(inputs={"text": "lane"})
    for n, engine in enumerate(engines):
        assert engine.sync.flush()
        turns = engine.loop.run(engine.store.list_turns(Scope(session_id="s1")))
        assert len(turns) == n + 1
        engine.sync.close()


def test_others_that_share_a_model_are_not_governed(
    install: Any, engine: Any, sessions: Any
) -> None:
    with Wire("So.") as wire:
        shared = model(wire)
        install(crew(task(agent(shared))), engine=engine)
        crew(task(agent(shared))).kickoff(inputs={"text": "lane"})
        shared.call("lane")
    assert sessions() == []


def test_the_general_door_finds_the_adapter(engine: Any, stored: Any) -> None:
    with Wire("So.") as wire:
        llm = model(wire)
        with install_ce(llm, engine=engine), ce_session("s1"):
            llm.call("lane? 车道")
    assert [m.content for m in stored("s1").session.messages] == ["lane? 车道", "So."]


def test_a_task_is_nothing_to_install_on(install: Any, engine: Any) -> None:
    with Wire("So.") as wire, pytest.raises(UnsupportedTargetError, match="a Crew, Agent"):
        install(task(agent(model(wire))), engine=engine)


def test_the_base_of_models_is_what_it_was(install: Any, engine: Any) -> None:
    with Wire("So.") as wire:
        # What another test left installed is taken away by the next one who comes, once it is garbage.
        gc.collect()
        install(crew(task(agent(model(wire)))), engine=engine).uninstall()
        now = dict(vars(BaseLLM))
    assert {name for name in _BASE if now.get(name) is not _BASE[name]} == set()
    assert set(now) - set(_BASE) <= {"__annotations__"}
