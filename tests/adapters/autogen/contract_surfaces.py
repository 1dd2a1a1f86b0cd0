"""Ways to ask a model of AutoGen, for the contract suite: by its client, by an agent, and by teams of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autogen_agentchat.agents import SocietyOfMindAgent
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat, Swarm
from autogen_agentchat.tools import AgentTool, TeamTool
from autogen_core import CancellationToken
from autogen_core.models import UserMessage

from ce_integrations.testing.framework_apps import Surface
from ce_integrations.testing.wire import Wire


def of(make: Callable[[Any, Wire], Any], ask: Callable[[Any, str], Any]) -> Any:
    """What is installed on, and how it is asked."""

    def made(apps: Any, wire: Wire) -> tuple[Any, Callable[[str], Any]]:
        target = make(apps, wire)
        return target, lambda text: ask(target, text)

    return made


def client(apps: Any, wire: Wire) -> Any:
    return apps.client(wire)


def agent(apps: Any, wire: Wire) -> Any:
    return apps.agent("ann", wire, (), "You are ann.")


def alone(apps: Any, wire: Wire) -> Any:
    return RoundRobinGroupChat([agent(apps, wire)], max_turns=1)


def swarm(apps: Any, wire: Wire) -> Any:
    return Swarm([agent(apps, wire)], max_turns=1)


def graph(apps: Any, wire: Wire) -> Any:
    ann, bob = agent(apps, wire), apps.agent("bob", wire, (), "You are bob.")
    built = DiGraphBuilder().add_node(ann).add_node(bob).add_edge(ann, bob)
    return GraphFlow([ann, bob], built.build())


def society(apps: Any, wire: Wire) -> Any:
    return SocietyOfMindAgent("society", alone(apps, wire), apps.client(wire))


def by_tool(make_tool: Callable[[Any, Wire], Any]) -> Any:
    """A tool that an app runs itself; what it runs is installed on."""

    def made(apps: Any, wire: Wire) -> tuple[Any, Callable[[str], Any]]:
        tool, target = make_tool(apps, wire)

        async def ask(text: str) -> str:
            result = await tool.run_json({"task": text}, CancellationToken())
            return str(tool.return_value_as_string(result))

        return target, ask

    return made


def agent_tool(apps: Any, wire: Wire) -> tuple[Any, Any]:
    ann = agent(apps, wire)
    return AgentTool(ann), ann


def team_tool(apps: Any, wire: Wire) -> tuple[Any, Any]:
    team = alone(apps, wire)
    return TeamTool(team, "team", "A team."), team


async def create(model: Any, text: str) -> str:
    return str((await model.create([UserMessage(content=text, source="user")])).content)


async def create_stream(model: Any, text: str) -> list[str]:
    pieces = model.create_stream([UserMessage(content=text, source="user")])
    return [piece if isinstance(piece, str) else piece.content async for piece in pieces]


async def run(target: Any, text: str) -> str:
    return str((await target.run(task=text)).messages[-1].content)


async def run_stream(target: Any, text: str) -> list[str]:
    return [type(event).__name__ async for event in target.run_stream(task=text)]


async def on_messages(target: Any, text: str) -> str:
    said = TextMessage(content=text, source="user")
    return str((await target.on_messages([said], CancellationToken())).chat_message.content)


SURFACES = {
    "create": Surface(of(client, create)),
    "create_stream": Surface(of(client, create_stream)),
    "agent.run": Surface(of(agent, run), history=True),
    "agent.run_stream": Surface(of(agent, run_stream), history=True),
    "agent.on_messages": Surface(of(agent, on_messages), history=True),
    "team.run": Surface(of(alone, run), history=True),
    "team.run_stream": Surface(of(alone, run_stream), history=True),
    "swarm": Surface(of(swarm, run), history=True),
    "graph": Surface(of(graph, run), history=True),
    "society of mind": Surface(of(society, run), history=True),
    "agent as a tool": Surface(by_tool(agent_tool), history=True),
    "team as a tool": Surface(by_tool(team_tool), history=True),
}
