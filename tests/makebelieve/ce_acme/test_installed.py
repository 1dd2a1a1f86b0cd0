"""Acme's adapter as its users meet it: found by its entry point, on agents that they copy, keep and share."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from acme_agents import Agent, Listener, Message, Model
from ce_acme import ADAPTER

from ce_engine import (
    Author,
    AuthorKind,
    BudgetConfig,
    ConfigError,
    ContextEngine,
    MemoryStore,
    Role,
    RuntimeConfig,
    Scope,
    SessionDocument,
    UnsupportedTargetError,
    create_context_engine,
)
from ce_integrations import ce_session, install_ce, load_adapters
from ce_integrations.testing.answers import Answer, JsonObject, text, tool_calls
from ce_integrations.testing.wire import Wire


def answer(body: JsonObject) -> Answer:
    """Who has a colleague asks him."""
    if "tools" not in body:
        return text("A line of conversation.")
    if body["messages"][-1]["role"] == "tool":
        return text("The expert says: a line.")
    return tool_calls([("ask_expert", {"text": "What is a lane?"})])


NARROW = RuntimeConfig(budget=BudgetConfig(max_input_tokens=300, reserved_reply_tokens=0))

Rows = Callable[[], list[Any]]


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire(answer) as made:
        yield made


@pytest.fixture
def expert(wire: Wire) -> Agent:
    return Agent("expert", Model("gpt-4", wire.base_url), "You know it all.")


@pytest.fixture
def helper(wire: Wire, expert: Agent) -> Agent:
    return Agent("helper", Model("gpt-4", wire.base_url), "You ask.", (), [expert])


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


@pytest.fixture
def turns(engine: ContextEngine) -> Rows:
    def read() -> list[Any]:
        assert engine.sync.flush()
        return list(engine.loop.run(engine.store.list_turns(Scope(session_id="s"))))

    return read


def document(engine: ContextEngine) -> SessionDocument:
    assert engine.sync.flush()
    found = engine.loop.run(engine.store.get_session(Scope(session_id="s")))
    assert found is not None
    return found


def ask(agent: Agent, question: str = "Ask the expert.") -> str:
    with ce_session("s"):
        return agent.run(question)


def test_the_adapter_is_found_by_its_entry_point(helper: Agent, engine: ContextEngine) -> None:
    assert load_adapters()["acme"] is ADAPTER
    with install_ce(helper, engine=engine) as installed:
        assert installed.adapter is ADAPTER
    with pytest.raises(UnsupportedTargetError, match="acme"):
        install_ce(helper.model)


def test_what_a_colleague_is_asked_is_no_task_of_the_user(
    helper: Agent, expert: Agent, engine: ContextEngine, turns: Rows
) -> None:
    with install_ce(helper, engine=engine):
        ask(expert, "Are you there?")
        assert ask(helper) == "The expert says: a line."
    said = {m.content: m.author for m in document(engine).session.messages}
    assert said["What is a lane?"] == Author(kind=AuthorKind.AGENT, id="helper")
    assert said["Are you there?"] is None
    assert [turn.lane for turn in turns()] == ["expert", "helper", "expert", "helper"]


def test_an_agent_that_is_shared_is_recorded_once_and_inherited(
    helper: Agent, expert: Agent, engine: ContextEngine, turns: Rows
) -> None:
    own = install_ce(expert, engine=engine)
    team = install_ce(helper, engine=engine)
    assert len(helper.listeners) == len(expert.listeners) == 1
    ask(helper)
    assert len(turns()) == 3
    own.uninstall()
    ask(expert)  # the team's installation governs it now
    assert len(turns()) == 4
    team.uninstall()
    ask(expert)
    assert len(turns()) == 4
    assert helper.listeners == expert.listeners == []


def test_two_installations_that_contradict_each_other_are_refused(
    helper: Agent, expert: Agent, engine: ContextEngine
) -> None:
    with install_ce(expert, engine=engine):
        with pytest.raises(ConfigError, match="another config"):
            install_ce(helper, engine=engine, config=NARROW)
        assert helper.listeners == []


def test_listeners_that_the_app_replaced_are_joined_again(
    expert: Agent, engine: ContextEngine, turns: Rows
) -> None:
    mine = Listener()
    with install_ce(expert, engine=engine):
        expert.listeners = [mine]
        ask(expert)
        assert turns() == []
        with install_ce(expert, engine=engine):
            ask(expert)
        assert len(turns()) == 1
        expert.listeners.insert(0, mine)
    assert expert.listeners == [mine, mine]


def test_copies_are_governed_and_fall_silent_with_their_original(
    expert: Agent, engine: ContextEngine, turns: Rows
) -> None:
    with install_ce(expert, engine=engine):
        copies = [copy.copy(expert), copy.deepcopy(expert)]
        elsewhere = pickle.loads(pickle.dumps(expert))
        for each in copies:
            ask(each)
        assert len(turns()) == 2
        ask(elsewhere)
        assert [type(each) for each in elsewhere.listeners] == [Listener]
    for each in copies:
        ask(each)
    assert len(turns()) == 2


def test_a_message_that_the_app_changes_is_seen_anew(
    expert: Agent, engine: ContextEngine, wire: Wire
) -> None:
    with install_ce(expert, engine=engine):
        ask(expert, "My name is Ann.")
        expert.history[1].text = "My name is 李雷."
        ask(expert, "Who am I?")
    assert [m["content"] for m in wire.bodies[-1]["messages"]][1] == "My name is 李雷."
    assert "My name is 李雷." in [m.content for m in document(engine).session.messages]


def test_a_run_is_one_request(helper: Agent, engine: ContextEngine, turns: Rows) -> None:
    with install_ce(helper, engine=engine):
        ask(helper)
        ask(helper)
    own = [turn.request_id for turn in turns() if turn.lane == "helper"]
    assert own[0] == own[1] != own[2]


def test_a_new_agent_begins_anew_in_the_same_session(
    wire: Wire, engine: ContextEngine, turns: Rows
) -> None:
    for question in ("one", "two"):
        agent = Agent("expert", Model("gpt-4", wire.base_url), "You know it all.")
        with install_ce(agent, engine=engine):
            ask(agent, question)
    assert [len(body["messages"]) for body in wire.bodies] == [2, 2]
    assert len(turns()) == 2


def test_a_copy_has_runs_of_its_own(wire: Wire, engine: ContextEngine, turns: Rows) -> None:
    def ask_expert(text: str) -> str:
        """Ask a copy of oneself, which has no tools."""
        return other.run(text)

    agent = Agent("agent", Model("gpt-4", wire.base_url), "You ask.", [ask_expert])
    with install_ce(agent, engine=engine):
        other = copy.deepcopy(agent)
        other.schemas = []
        ask(agent)
    first, inner, last = (turn.request_id for turn in turns())
    assert first == last != inner


def test_a_result_that_failed_is_kept_as_one(wire: Wire, engine: ContextEngine) -> None:
    def ask_expert(text: str) -> str:
        """Ask nobody."""
        raise LookupError(text)

    agent = Agent("agent", Model("gpt-4", wire.base_url), "You ask.", [ask_expert])
    with install_ce(agent, engine=engine):
        ask(agent)
    (result,) = [m for m in document(engine).session.messages if m.role is Role.TOOL]
    assert (result.content, result.status) == ("LookupError: What is a lane?", "error")


class Polite(Agent):
    """A user's own agent, which asks in another way and lets Acme do the rest."""

    def ask_model(self, messages: list[Message]) -> Message:
        return super().ask_model([*messages, Message("system", "Be polite.")])


def test_a_subclass_that_asks_in_its_own_way_is_asked_for_once(
    wire: Wire, engine: ContextEngine, turns: Rows
) -> None:
    agent = Polite("polite", Model("gpt-4", wire.base_url), "You answer.")
    original = vars(Polite)["ask_model"]
    with install_ce(agent, engine=engine):
        assert vars(Polite)["ask_model"] is not original
        ask(agent)
    assert vars(Polite)["ask_model"] is original
    assert [m["content"] for m in wire.bodies[0]["messages"]][-1] == "Be polite."
    assert len(turns()) == 1


@pytest.mark.production_guard
def test_a_fault_of_ours_in_a_listener_is_not_the_app_s(
    helper: Agent, engine: ContextEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with install_ce(helper, engine=engine) as installed:
        monkeypatch.delattr(type(installed.hooks), "tool_call")
        assert ask(helper) == "The expert says: a line."
        assert [fault.where for fault in installed.faults] == ["on_tool_end"]
