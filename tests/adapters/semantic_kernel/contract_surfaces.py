"""Ways to ask a model of Semantic Kernel, for the contract suite: services, prompts, agents, chats, orchestrations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from semantic_kernel import Kernel
from semantic_kernel.agents import (
    AgentGroupChat,
    ConcurrentOrchestration,
    GroupChatOrchestration,
    RoundRobinGroupChatManager,
    SequentialOrchestration,
)
from semantic_kernel.agents.runtime import InProcessRuntime
from semantic_kernel.agents.strategies import DefaultTerminationStrategy
from semantic_kernel.connectors.ai.open_ai import OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import ChatHistory

from ce_integrations.testing.framework_apps import Surface
from ce_integrations.testing.wire import Wire


def of(make: Callable[[Any, Wire], Any], ask: Callable[[Any, str], Any]) -> Any:
    """What is installed on, and how it is asked."""

    def made(apps: Any, wire: Wire) -> tuple[Any, Callable[[str], Any]]:
        target = make(apps, wire)
        return target, lambda text: ask(target, text)

    return made


def service(apps: Any, wire: Wire) -> Any:
    return apps.service(wire)


def kernel(apps: Any, wire: Wire) -> Any:
    return Kernel(services=[apps.service(wire)])


def agent(apps: Any, wire: Wire) -> Any:
    return apps.agent("ann", wire)


def chat(apps: Any, wire: Wire) -> Any:
    one = DefaultTerminationStrategy(maximum_iterations=1)
    return AgentGroupChat(agents=[agent(apps, wire)], termination_strategy=one)


def members(apps: Any, wire: Wire) -> list[Any]:
    return [apps.agent(name, wire) for name in ("ann", "bob")]


def sequential(apps: Any, wire: Wire) -> Any:
    return SequentialOrchestration(members=members(apps, wire))


def concurrent(apps: Any, wire: Wire) -> Any:
    return ConcurrentOrchestration(members=members(apps, wire)[:1])


def group(apps: Any, wire: Wire) -> Any:
    manager = RoundRobinGroupChatManager(max_rounds=2)
    return GroupChatOrchestration(members=members(apps, wire), manager=manager)


def history(text: str) -> ChatHistory:
    made = ChatHistory()
    made.add_user_message(text)
    return made


async def whole(target: Any, text: str) -> str:
    settings = OpenAIChatPromptExecutionSettings()
    return str(await target.get_chat_message_content(history(text), settings))


async def pieces(target: Any, text: str) -> list[str]:
    settings = OpenAIChatPromptExecutionSettings()
    said = target.get_streaming_chat_message_contents(history(text), settings)
    return ["".join(map(str, piece)) async for piece in said]


async def prompt(target: Any, text: str) -> str:
    return str(await target.invoke_prompt("{{$said}}", said=text))


async def prompt_stream(target: Any, text: str) -> list[str]:
    said = target.invoke_prompt_stream("{{$said}}", said=text)
    return ["".join(map(str, piece)) async for piece in said]


async def get_response(target: Any, text: str) -> str:
    return str(await target.get_response(text))


async def invoke(target: Any, text: str) -> list[str]:
    return [str(item) async for item in target.invoke(text)]


async def invoke_stream(target: Any, text: str) -> list[str]:
    return [str(item) async for item in target.invoke_stream(text)]


async def chat_invoke(target: Any, text: str) -> list[str]:
    await target.add_chat_message(text)
    return [str(item) async for item in target.invoke()]


async def chat_invoke_stream(target: Any, text: str) -> list[str]:
    await target.add_chat_message(text)
    return [str(item) async for item in target.invoke_stream()]


async def orchestrate(target: Any, text: str) -> str:
    runtime = InProcessRuntime()
    runtime.start()
    try:
        result = await target.invoke(task=text, runtime=runtime)
        said = await result.get(timeout=20)
    finally:
        await runtime.stop_when_idle()
    return "\n".join(map(str, said if isinstance(said, list) else [said]))


SURFACES = {
    "service": Surface(of(service, whole)),
    "service, streaming": Surface(of(service, pieces)),
    "kernel.invoke_prompt": Surface(of(kernel, prompt)),
    "kernel.invoke_prompt_stream": Surface(of(kernel, prompt_stream)),
    "agent.get_response": Surface(of(agent, get_response), history=True),
    "agent.invoke": Surface(of(agent, invoke), history=True),
    "agent.invoke_stream": Surface(of(agent, invoke_stream), history=True),
    "chat.invoke": Surface(of(chat, chat_invoke), history=True),
    "chat.invoke_stream": Surface(of(chat, chat_invoke_stream), history=True),
    "sequential": Surface(of(sequential, orchestrate), history=True),
    "concurrent": Surface(of(concurrent, orchestrate), history=True),
    "group chat": Surface(of(group, orchestrate), history=True),
}
