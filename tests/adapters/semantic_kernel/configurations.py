"""Apps of Semantic Kernel as their users write them, with what a model says to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from semantic_kernel import Kernel
from semantic_kernel.agents import (
    AgentGroupChat,
    ChatCompletionAgent,
    ConcurrentOrchestration,
    GroupChatOrchestration,
    HandoffOrchestration,
    MagenticOrchestration,
    OrchestrationHandoffs,
    RoundRobinGroupChatManager,
    SequentialOrchestration,
    StandardMagenticManager,
)
from semantic_kernel.agents.strategies import DefaultTerminationStrategy
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import ChatHistory
from semantic_kernel.functions import KernelArguments, KernelFunctionFromPrompt, KernelPlugin

from ce_integrations.testing.answers import Answer, JsonObject, Script, text, tool_calls
from tests.adapters.semantic_kernel.contract_apps import plugin
from tests.adapters.semantic_kernel.contract_surfaces import orchestrate


TASK = "What is a lane? 什么是车道？"


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means 意思 {len(word)}"


def summing() -> Any:
    """A function that is a prompt."""
    prompt = "Sum up: {{$words}}"
    made = KernelFunctionFromPrompt("sum_up", "Summing", "Sum words up.", prompt)
    return KernelPlugin("Summing", functions=[made])


def agent(name: str, service: Any, plugins: Sequence[Any] = ()) -> ChatCompletionAgent:
    return ChatCompletionAgent(
        name=name, description=name, service=service, instructions="Help.", plugins=list(plugins)
    )


@dataclass(frozen=True)
class Configuration:
    """An app: what it is made of, what it is asked by, what the model says."""

    make: Callable[[Any], Any]
    ask: Callable[[Any], Any]
    script: Script = "A lane is a line. 一条线"


def tools(kernel: Kernel) -> KernelArguments:
    settings = OpenAIChatPromptExecutionSettings(function_choice_behavior=auto())
    return KernelArguments(settings=settings, said=TASK)


def auto() -> Any:
    return FunctionChoiceBehavior.Auto()


def kernel_of(service: Any) -> Kernel:
    return Kernel(services=[service], plugins=[plugin([lookup])])


def history() -> ChatHistory:
    made = ChatHistory(system_message="Help.")
    made.add_user_message(TASK)
    return made


async def prompt(kernel: Any) -> list[str]:
    return [str(await kernel.invoke_prompt("{{$said}}", said=TASK))]


async def prompt_tools(kernel: Any) -> list[str]:
    return [str(await kernel.invoke_prompt("{{$said}}", arguments=tools(kernel)))]


async def prompt_stream(kernel: Any) -> list[str]:
    said = kernel.invoke_prompt_stream("{{$said}}", arguments=tools(kernel))
    return ["".join(map(str, pieces)) async for pieces in said]


async def direct(kernel: Any) -> list[str]:
    (service,), talk = kernel.services.values(), history()
    settings = OpenAIChatPromptExecutionSettings(function_choice_behavior=auto())
    said = [str(await service.get_chat_message_content(talk, settings, kernel=kernel))]
    return [*said, *(json.dumps(each.to_dict()) for each in talk.messages)]


async def direct_stream(kernel: Any) -> list[str]:
    (service,), talk = kernel.services.values(), history()
    settings = OpenAIChatPromptExecutionSettings(function_choice_behavior=auto())
    said = service.get_streaming_chat_message_contents(talk, settings, kernel=kernel)
    return [
        *[str(piece) async for pieces in said for piece in pieces],
        *(json.dumps(each.to_dict()) for each in talk.messages),
    ]


async def kept(thread: Any) -> list[str]:
    dumped = [message.to_dict() async for message in thread.get_messages()]
    return list(map(json.dumps, dumped))


async def get_response(app: Any) -> list[str]:
    said = await app.get_response(TASK)
    more = await app.get_response("And a cut?", thread=said.thread)
    return [str(said), str(more), *await kept(said.thread)]


async def invoke(app: Any) -> list[str]:
    told: list[str] = []

    async def hear(message: Any) -> None:
        told.append(json.dumps(message.to_dict()))

    said = [item async for item in app.invoke(TASK, on_intermediate_message=hear)]
    return [*map(str, said), *told, *await kept(said[-1].thread)]


async def invoke_stream(app: Any) -> list[str]:
    said = [item async for item in app.invoke_stream(TASK)]
    return [*map(str, said), *await kept(said[-1].thread)]


async def chat(app: Any) -> list[str]:
    await app.add_chat_message(TASK)
    said = [str(message) async for message in app.invoke()]
    return [*said, *(json.dumps(message.to_dict()) for message in app.history.messages)]


async def orchestrated(app: Any) -> list[str]:
    return [await orchestrate(app, TASK)]


def boss(service: Any) -> Any:
    return agent("boss", service, [agent("expert", service)])


def group_chat(service: Any) -> Any:
    agents: list[Any] = [agent(name, service) for name in ("writer", "critic")]
    turns = DefaultTerminationStrategy(maximum_iterations=2)
    return AgentGroupChat(agents=agents, termination_strategy=turns)


def members(service: Any) -> list[Any]:
    return [agent(name, service) for name in ("writer", "critic")]


def handoff(service: Any) -> Any:
    writer, critic = members(service)
    return HandoffOrchestration(
        members=[writer, critic], handoffs=OrchestrationHandoffs().add(writer, critic, "Critique.")
    )


def rounds(service: Any) -> Any:
    manager = RoundRobinGroupChatManager(max_rounds=3)
    return GroupChatOrchestration(members=members(service), manager=manager)


def magentic(service: Any) -> Any:
    manager = StandardMagenticManager(chat_completion_service=service)
    return MagenticOrchestration(members=members(service), manager=manager)


def said_to(body: JsonObject) -> Answer:
    """To a manager its ledger, to a member its answer: done, once the critic was asked."""
    if "response_format" not in body:
        return text(f"Answer {len(body['messages'])}.")
    done = any(each["content"] == "Go on." for each in body["messages"])
    ledger: JsonObject = {key: {"reason": "so", "answer": False} for key in LEDGER}
    ledger["is_request_satisfied"]["answer"] = done
    ledger["is_progress_being_made"]["answer"] = True
    ledger["next_speaker"]["answer"] = "critic"
    ledger["instruction_or_question"]["answer"] = "Go on."
    return text(json.dumps(ledger))


LEDGER = (
    *("is_request_satisfied", "is_in_loop", "is_progress_being_made"),
    *("next_speaker", "instruction_or_question"),
)

LOOKED = [
    tool_calls([("lookup", {"word": "lane"}), ("lookup", {"word": "cut"})]),
    text("A lane is a line. 一条线"),
    text("A cut is one, too."),
]
SUMMED = [tool_calls([("Summing-sum_up", {"words": "lanes"})]), text("Lines."), text("So: lines.")]
ASKED = [tool_calls([("expert-expert", {"messages": "A lane?"})]), text("A line."), text("So.")]
HANDED = [
    tool_calls([("Handoff-transfer_to_critic", {})]),
    tool_calls([("Handoff-complete_task", {"task_summary": "All said."})]),
]

CONFIGURATIONS = {
    "prompt": Configuration(kernel_of, prompt),
    "prompt with functions": Configuration(kernel_of, prompt_tools, LOOKED),
    "prompt, streaming": Configuration(kernel_of, prompt_stream, LOOKED),
    "service": Configuration(kernel_of, direct, LOOKED),
    "service, streaming": Configuration(kernel_of, direct_stream, LOOKED),
    "agent.get_response": Configuration(
        lambda service: agent("ann", service, [plugin([lookup])]), get_response, LOOKED
    ),
    "agent.invoke": Configuration(
        lambda service: agent("ann", service, [plugin([lookup])]), invoke, LOOKED
    ),
    "agent.invoke_stream": Configuration(
        lambda service: agent("ann", service, [plugin([lookup])]), invoke_stream, LOOKED
    ),
    "a prompt in a function": Configuration(
        lambda service: agent("ann", service, [summing()]), invoke, SUMMED
    ),
    "an agent as a function": Configuration(boss, invoke, ASKED),
    "agent group chat": Configuration(group_chat, chat),
    "sequential": Configuration(lambda s: SequentialOrchestration(members(s)), orchestrated),
    "concurrent": Configuration(lambda s: ConcurrentOrchestration(members(s)), orchestrated),
    "group chat": Configuration(rounds, orchestrated),
    "handoff": Configuration(handoff, orchestrated, HANDED),
    "magentic": Configuration(magentic, orchestrated, said_to),
}
