"""Installed late, twice, on a part or on all of an app, and taken away: each call is asked for once."""

from __future__ import annotations

from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat
from autogen_core.models import ChatCompletionClient, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from ce_engine import MemoryStore, UnsupportedTargetError, create_context_engine
from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.install.registry import install_ce as install_any
from ce_integrations.testing.wire import Wire
from tests.adapters.autogen.configurations import TASK, agent, agents, selects


pytestmark = pytest.mark.scenario(9)


def asked() -> list[Any]:
    return [UserMessage(content=TASK, source="user")]


async def test_after_the_first_run(client: Any, engine: Any, stored: Any) -> None:
    """A manager that lives already is governed as well."""
    with Wire(selects) as wire:
        team = SelectorGroupChat(agents(client(wire)), client(wire), max_turns=2)
        await team.run(task=TASK)
        before = len(wire.bodies)
        with install_ce(team, engine=engine), ce_session("s"):
            await team.run(task="And again?")
        assert len(stored.turns()) == len(wire.bodies) - before == 4
        assert [turn.purpose for turn in stored.turns()] == ["helper", "chat"] * 2


async def test_the_client_and_the_agent(client: Any, engine: Any, stored: Any) -> None:
    with Wire("Yes.") as wire:
        model = client(wire)
        ann = agent("ann", model)
        with (
            install_ce(model, engine=engine),
            install_ce(ann, engine=engine),
            install_ce(ann, engine=engine),
            ce_session("s"),
        ):
            await ann.run(task=TASK)
            await model.create(asked())
    assert [turn.lane for turn in stored.turns()][:1] == ["ann"]
    assert len(stored.turns()) == len(wire.bodies) == 2


async def test_a_client_alone_knows_who_asks_it(client: Any, engine: Any, stored: Any) -> None:
    def lookup(word: str) -> str:
        """Look a word up."""
        return f"{word} means a line"

    from ce_integrations.testing.wire import text, tool_calls

    with Wire([tool_calls([("lookup", {"word": "lane"})]), text("A line.")]) as wire:
        model = client(wire)
        ann = agent("ann", model, tools=[lookup], max_tool_iterations=3)
        with install_ce(model, engine=engine), ce_session("s"):
            await ann.run(task=TASK)
    assert [turn.lane for turn in stored.turns()] == ["ann", "ann"]
    assert stored.runs() == [("lookup", {"word": "lane"}, "success")]


async def test_an_agent_beside_it_with_the_same_client_is_not_governed(
    client: Any, engine: Any, stored: Any
) -> None:
    with Wire("Yes.") as wire:
        model = client(wire)
        ann, bob = agent("ann", model), agent("bob", model)
        with install_ce(ann, engine=engine), ce_session("s"):
            await bob.run(task=TASK)
            await ann.run(task=TASK)
        assert len(wire.bodies) == 2
    assert [turn.lane for turn in stored.turns()] == ["ann"]


async def test_a_client_that_takes_the_place_of_another(
    client: Any, engine: Any, stored: Any
) -> None:
    with Wire("Yes.") as wire:
        ann = agent("ann", client(wire))
        with install_ce(ann, engine=engine), ce_session("s"):
            ann._model_client = client(wire)
            await ann.run(task=TASK)
    assert len(stored.turns()) == 1


async def test_a_client_of_a_class_that_is_made_later_is_governed(engine: Any, stored: Any) -> None:
    first: Any = ReplayChatCompletionClient(["Yes."])
    ann = agent("ann", first)
    with install_ce(ann, engine=engine) as installed, ce_session("s"):

        class Later(ReplayChatCompletionClient):
            async def create(self, *args: Any, **kwargs: Any) -> Any:
                return await ReplayChatCompletionClient.create(self, *args, **kwargs)

        own = vars(Later)["create"]
        assert installed.adapter.is_attached(ann)
        ann._model_client = Later(["No."])
        await ann.run(task=TASK)
    assert vars(Later)["create"] is own.__wrapped__
    del Later
    assert len(stored.turns()) == 1


async def test_after_a_state_is_loaded(client: Any, engine: Any, stored: Any) -> None:
    with Wire() as wire:
        first = RoundRobinGroupChat(agents(client(wire)), max_turns=3)
        await first.run(task=TASK)
        again = RoundRobinGroupChat(agents(client(wire)), max_turns=3)
        with install_ce(again, engine=engine), ce_session("s"):
            await again.load_state(await first.save_state())
            await again.run(task="And a turn?")
        assert wire.refusals == []
    contents = [content for *_, content in stored.said()]
    assert contents[0] == TASK
    assert len(contents) == len(set(contents)) == 8
    assert len(stored.turns()) == 3


async def test_a_component_that_is_loaded_is_not_installed(
    client: Any, engine: Any, stored: Any
) -> None:
    with Wire("Yes.") as wire:
        ann = agent("ann", client(wire))
        with install_ce(ann, engine=engine), ce_session("s"):
            loaded = AssistantAgent.load_component(ann.dump_component())
            loaded._model_client = client(wire)
            await loaded.run(task=TASK)
            await ann.run(task=TASK)
    assert len(stored.turns()) == 1


async def test_two_engines_on_a_team_and_one_of_its_agents(client: Any, engine: Any) -> None:
    """The team's governs in its runs, and the agent's own when it runs alone."""
    own = create_context_engine(MemoryStore())
    try:
        with Wire("Yes.") as wire:
            ann = agent("ann", client(wire))
            team = RoundRobinGroupChat([ann, agent("bob", client(wire))], max_turns=2)
            with install_ce(ann, engine=own), install_ce(team, engine=engine), ce_session("s"):
                await team.run(task=TASK)
                await ann.run(task="alone")
        from tests.adapters.autogen.conftest import Stored

        assert [turn.lane for turn in Stored(own).turns()] == ["ann"]
        assert [turn.lane.rpartition("/")[2] for turn in Stored(engine).turns()] == ["ann", "bob"]
    finally:
        own.sync.close()


@pytest.mark.production_guard
async def test_what_was_installed_is_gone_after(client: Any, engine: Any, stored: Any) -> None:
    with Wire("Yes.") as wire:
        team = RoundRobinGroupChat(agents(client(wire)), max_turns=1)
        attributes = {each: set(vars(each)) for each in (team, *team._participants)}
        create = vars(ChatCompletionClient)["create"]
        with install_ce(team, engine=engine), ce_session("s"):
            await team.run(task=TASK)
        with ce_session("s"):
            await team.run(task="And again?")
        gone = {each: set(vars(each)) - before for each, before in attributes.items()}
    assert "_ce_mark" not in set().union(*gone.values())
    assert vars(ChatCompletionClient)["create"] is create
    assert len(stored.turns()) == 1


async def test_any_adapter_s_install_takes_autogen_s_objects(client: Any, engine: Any) -> None:
    with Wire() as wire, install_any(agent("ann", client(wire)), engine=engine) as installation:
        assert installation.adapter.name == "autogen"


@pytest.mark.parametrize("target", [None, "an agent", UserMessage(content="x", source="user")])
def test_what_is_no_target(engine: Any, target: Any) -> None:
    with pytest.raises(UnsupportedTargetError, match="expected an agent, a team, a model client"):
        install_ce(target, engine=engine)


async def test_agents_whose_talk_the_provider_keeps(client: Any, engine: Any) -> None:
    from autogen_ext.agents.openai import OpenAIAgent
    from openai import AsyncOpenAI

    with Wire() as wire:
        served = OpenAIAgent(
            "eve",
            "keeps its talk at the provider",
            AsyncOpenAI(api_key="no key", base_url=wire.base_url),
            "gpt-4",
            "You help.",
        )
        team = RoundRobinGroupChat([agent("ann", client(wire)), served])
        for target in (served, team):
            with pytest.raises(UnsupportedTargetError, match="OpenAIAgent 'eve'") as found:
                install_ce(target, engine=engine)
            assert "Use an AssistantAgent" in str(found.value)
        assert "_ce_mark" not in vars(team)
