"""Fifteen apps of AutoGen, as people write them, and what their model says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from autogen_agentchat.agents import AssistantAgent, SocietyOfMindAgent
from autogen_agentchat.teams import (
    DiGraphBuilder,
    GraphFlow,
    MagenticOneGroupChat,
    RoundRobinGroupChat,
    SelectorGroupChat,
    Swarm,
)
from autogen_agentchat.tools import AgentTool
from autogen_core.memory import ListMemory, MemoryContent
from pydantic import BaseModel

from ce_integrations.testing.answers import Answer, JsonObject, Script, text, tool_calls
from tests.adapters.autogen.contract_apps import Client


NAMES = ("ann", "bob", "cid")
TASK = "What is a lane? 车道"


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means 意思 {len(word)}"


class Meaning(BaseModel):
    word: str
    meaning: str


def agent(name: str, client: Client, **settings: Any) -> AssistantAgent:
    given = {"system_message": f"You are {name}.", "description": f"{name} answers.", **settings}
    return AssistantAgent(name, client, **given)


def agents(client: Client) -> list[Any]:
    return [agent(name, client) for name in NAMES]


@dataclass(frozen=True, slots=True)
class Configuration:
    make: Callable[[Client], Any]
    script: Script = None
    info: dict[str, Any] = field(default_factory=dict)


LOOKS = [tool_calls([("lookup", {"word": "lane"}), ("lookup", {"word": "turn"})]), text("A line.")]


def _swarm(client: Client) -> Any:
    ann = agent("ann", client, tools=[lookup], handoffs=["bob"])
    return Swarm([ann, agent("bob", client, handoffs=["user"])], max_turns=3)


HANDS_OVER: list[str | Answer] = [
    tool_calls([("lookup", {"word": "lane"}), ("transfer_to_bob", {})]),
    text("Bob answers."),
    text("And again."),
]


def selects(body: JsonObject) -> Answer:
    """The model picks the next speaker by how long the talk is, else it says something."""
    system = str(body["messages"][0]["content"])
    if "Read the above" in system:
        return text(NAMES[system.count("says:") % len(NAMES)])
    return text(f"says: {len(body['messages'])} messages")


def orchestrates(body: JsonObject) -> Answer:
    """The model plans, lets ann speak, and is done."""
    said = str(body["messages"])
    if "is_request_satisfied" not in str(body["messages"][-1]["content"]):
        return text("ann has it" if "You are ann" in said else "a plan, or the facts")
    answers: dict[str, Any] = {
        "is_request_satisfied": "ann has it" in said,
        "is_in_loop": False,
        "is_progress_being_made": True,
        "next_speaker": "ann",
        "instruction_or_question": "Say what a lane is.",
    }
    return text(json.dumps({key: {"reason": "so", "answer": answers[key]} for key in answers}))


def _graph(client: Client) -> Any:
    ann, bob, cid, dan = (agent(name, client) for name in (*NAMES, "dan"))
    built = DiGraphBuilder()
    for each in (ann, bob, cid, dan):
        built.add_node(each)
    built.add_edge(ann, bob).add_edge(ann, cid).add_edge(bob, dan).add_edge(cid, dan)
    return GraphFlow([ann, bob, cid, dan], built.build())


def _memory(client: Client) -> Any:
    memory = ListMemory(
        memory_contents=[MemoryContent(content="likes tea", mime_type="text/plain")]
    )
    return agent("ann", client, memory=[memory])


def _nested(client: Client) -> Any:
    inner = RoundRobinGroupChat(agents(client)[:2], max_turns=2, name="inner")
    return RoundRobinGroupChat([inner, agent("dan", client)], max_turns=2, name="outer")


def _society(client: Client) -> Any:
    inner = RoundRobinGroupChat(agents(client)[:2], max_turns=2)
    return SocietyOfMindAgent("society", inner, client)


def _asks_an_expert(client: Client) -> Any:
    return agent("boss", client, tools=[AgentTool(agent("expert", client))], max_tool_iterations=5)


ASKS = [
    tool_calls([("expert", {"task": "What is a lane?"})]),
    text("A line."),
    text("It is a line."),
]

CONFIGURATIONS: dict[str, Configuration] = {
    "agent": Configuration(lambda client: agent("ann", client)),
    "tools": Configuration(lambda client: agent("ann", client, tools=[lookup]), LOOKS),
    "loop": Configuration(
        lambda client: agent("ann", client, tools=[lookup], max_tool_iterations=5), LOOKS
    ),
    "reflect": Configuration(
        lambda client: agent("ann", client, tools=[lookup], reflect_on_tool_use=True), LOOKS
    ),
    "structured": Configuration(
        lambda client: agent("ann", client, output_content_type=Meaning),
        Meaning(word="lane", meaning="a line").model_dump_json(),
    ),
    "streamed": Configuration(lambda client: agent("ann", client, model_client_stream=True)),
    "memory": Configuration(_memory, info={"multiple_system_messages": True}),
    "round robin": Configuration(lambda client: RoundRobinGroupChat(agents(client), max_turns=4)),
    "selector": Configuration(
        lambda client: SelectorGroupChat(agents(client), client, max_turns=4), selects
    ),
    "swarm": Configuration(_swarm, HANDS_OVER),
    "magentic": Configuration(
        lambda client: MagenticOneGroupChat(agents(client), client, max_turns=3),
        orchestrates,
        {"structured_output": False},
    ),
    "graph": Configuration(_graph),
    "nested": Configuration(_nested),
    "agent as tool": Configuration(_asks_an_expert, ASKS),
    "society": Configuration(_society),
}
