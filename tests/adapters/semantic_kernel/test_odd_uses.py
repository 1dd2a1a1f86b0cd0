"""Uses of Semantic Kernel that few apps have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar

from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.connectors.ai.prompt_execution_settings import PromptExecutionSettings
from semantic_kernel.contents import AuthorRole, ChatHistory, ChatMessageContent
from semantic_kernel.functions import KernelArguments, kernel_function

from tests.adapters.odd_uses import Mute, OddUseTests, Use
from tests.adapters.semantic_kernel.natives import SemanticKernel


class Echo(ChatCompletionClientBase):
    """Says what it was told."""

    async def _inner_get_chat_message_contents(
        self, chat_history: ChatHistory, settings: PromptExecutionSettings
    ) -> list[ChatMessageContent]:
        del settings
        text = " ".join(message.content for message in chat_history.messages)
        return [ChatMessageContent(role=AuthorRole.ASSISTANT, content=text)]


class Plotter:
    @kernel_function
    def plot(self, function: str) -> str:
        """Plot a function."""
        return f"plot of {function}"

    @kernel_function
    async def draw(self, function: str) -> AsyncIterator[str]:
        """Plot a function piece by piece."""
        yield "plot of "
        yield function


def service() -> Echo:
    return Echo(ai_model_id="m")


def kernel() -> Kernel:
    made = Kernel()
    made.add_service(service())
    made.add_plugin(Plotter(), "plotter")
    return made


def agent() -> ChatCompletionAgent:
    return ChatCompletionAgent(name="ann", service=service(), instructions="As {{$agent}}:")


async def plot(kernel: Kernel, **inputs: Any) -> str:
    function = kernel.get_function("plotter", "plot")
    return str(await function.invoke(kernel, **inputs))


async def plot_piecewise(kernel: Kernel) -> list[str]:
    function = kernel.get_function("plotter", "draw")
    return [str(piece) async for piece in function.invoke_stream(kernel, function="x^2")]


async def ask_agent(agent: ChatCompletionAgent, /, **inputs: Any) -> str:
    return str((await agent.get_response("hi", **inputs)).content.content)


async def ask_service(service: Echo, /, **inputs: Any) -> str:
    history = ChatHistory()
    history.add_user_message("hi")
    settings = PromptExecutionSettings()
    return str((await service.get_chat_message_contents(history, settings, **inputs))[0].content)


KEYWORDS = {
    "a function's `function`": Use(
        kernel, lambda kernel: plot(kernel, function="x^2"), "plot of x^2"
    ),
    "a function's `function`, streamed": Use(kernel, plot_piecewise, ["plot of ", "x^2"]),
    "a template's `agent`": Use(agent, lambda agent: ask_agent(agent, agent="bob"), "As bob: hi"),
    "a service's `service`": Use(
        service, lambda service: ask_service(service, service="x", subject="y"), "hi"
    ),
}


def ids(name: str, value: Any) -> dict[str, Use]:
    """Uses with an id in their arguments."""
    return {
        f"a function's {name}": Use(
            kernel,
            lambda kernel: plot(kernel, arguments=KernelArguments(function="x^2", **{name: value})),
            "plot of x^2",
        ),
        f"an agent's {name}": Use(
            lambda: ChatCompletionAgent(name="ann", service=service()),
            lambda agent: ask_agent(agent, arguments=KernelArguments(**{name: value})),
            "hi",
        ),
        f"a service's {name}": Use(
            service,
            lambda service: ask_service(service, arguments=KernelArguments(**{name: value})),
            "hi",
        ),
    }


IDS = {**ids("user_id", Mute()), **ids("session_id", Mute())}


class TestOddUses(SemanticKernel, OddUseTests):
    uses: ClassVar[dict[str, Use]] = {**KEYWORDS, **IDS}
