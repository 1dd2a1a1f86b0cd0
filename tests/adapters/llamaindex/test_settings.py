"""`Settings`: what is built later of its model, and models that are put in its place."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import MockLLM

from ce_engine import Scope
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.llamaindex import shelf


pytestmark = pytest.mark.scenario(5)
KEY = "_ce_mark"


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    before = vars(Settings).get("_llm")
    yield
    vars(Settings)["_llm"] = before


def turns(engine: Any, session_id: str = "s") -> list[Any]:
    assert engine.sync.flush()
    return list(engine.loop.run(engine.store.list_turns(Scope(session_id=session_id))))


def test_an_engine_that_is_built_later_is_governed(model: Any, engine: Any, stored: Any) -> None:
    with Wire("A line.") as wire:
        Settings.llm = model(wire)
        with install_ce(Settings, engine=engine, session_id="s"):
            asked = shelf.query(None)
            asked.query("What is a lane?")
        assert len(wire.requests) == 1
    document = stored("s")
    assert [run.tool for run in document.session.tool_state.tool_calls] == ["Shelf"]
    (turn,) = turns(engine)
    assert turn.status == "committed"


def test_an_agent_that_is_built_later_is_governed(model: Any, engine: Any, runner: Any) -> None:
    async def run() -> str:
        return str(await FunctionAgent().run("hi", memory=shelf.memory("talk")))

    with Wire("hello") as wire:
        Settings.llm = model(wire)
        with install_ce(Settings, engine=engine):
            assert runner.run(run()) == "hello"
    assert [turn.status for turn in turns(engine, "talk")] == ["committed"]


def test_a_model_that_takes_the_place_is_governed(model: Any, engine: Any) -> None:
    with Wire("first") as one, Wire("second") as two:
        Settings.llm = model(one)
        with install_ce(Settings, engine=engine, session_id="s"):
            later = model(two)
            Settings.llm = later
            assert str(later.complete("q")) == "second"
            assert str(shelf.query(None).query("q")) == "second"
        assert len(turns(engine)) == 2
        assert str(Settings.llm.complete("q")) == "second"
        assert len(turns(engine)) == 2
        assert KEY not in vars(later)


def test_nothing_is_resolved_by_an_installation(engine: Any) -> None:
    vars(Settings)["_llm"] = None
    before = vars(type(Settings))["llm"]
    with install_ce(Settings, engine=engine):
        assert Settings._llm is None
        setattr(Settings, "llm", None)  # noqa: B010 - that is: the mock; with LangChain, types forbid it
        assert isinstance(Settings.llm, MockLLM)
        assert KEY in vars(Settings.llm)
    assert vars(type(Settings))["llm"] is before
    assert KEY not in vars(Settings) | vars(Settings.llm)


def test_an_engine_with_a_model_of_its_own_is_not_governed(
    model: Any, engine: Any, sessions: Any
) -> None:
    with Wire("A line.") as wire:
        Settings.llm = model(wire)
        with install_ce(Settings, engine=engine, session_id="s"):
            own = shelf.query(model(wire))
            assert str(own.query("What is a lane?")) == "A line."
            assert KEY not in vars(own)
    assert sessions() == []


def test_what_is_built_later_is_not_kept_alive(model: Any, engine: Any) -> None:
    """An app may build an engine for each request, and take another model each time."""
    with Wire("A line.") as wire:
        Settings.llm = model(wire)
        with install_ce(Settings, engine=engine, session_id="s"):
            built, models, asked = [], [], None
            for _ in range(3):
                Settings.llm = model(wire)
                asked = shelf.query(None)
                asked.query("What is a lane?")
                built.append(weakref.ref(asked))
                models.append(weakref.ref(Settings.llm))
            asked = None
            engine.sync.flush()  # a turn that is being stored may hold its objects
            gc.collect()
            assert [each() for each in built] == [None] * 3
            assert [each() is None for each in models] == [True, True, False]
            kept = shelf.query(None)
            kept.query("What is a lane?")
            assert KEY in vars(kept)
        assert KEY not in vars(kept) | vars(Settings.llm)
    assert len(turns(engine)) == 4
