"""What the redactor must catch, through every door that Semantic Kernel has: in no byte of the store, no log, no report."""

from __future__ import annotations

from typing import Any

import pytest
from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import (
    AuthorRole,
    ChatHistory,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
)
from semantic_kernel.functions import KernelPlugin, kernel_function

from ce_engine import ContextEngine
from ce_integrations import ce_session
from ce_integrations.semantic_kernel import install_ce
from ce_integrations.testing.framework_apps import Page
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.canary import CanaryTests, Places
from tests.adapters.semantic_kernel.shelves import shelf
from tests.canary.canaries import Canaries


def agent(service: Any, canary: Canaries) -> Any:
    """Ann has a function that fails at times, and one that searches."""

    @kernel_function(description=canary("tool description"))
    def send(to: str) -> str:
        if to == "nobody":
            raise ValueError(canary("tool error"))
        return canary("tool result")

    pages = [Page(canary("page"), canary("source"), 0.8)]
    made = ChatCompletionAgent(
        name="ann",
        description=canary("agent description"),
        service=service,
        instructions=canary("system"),
        plugins=[KernelPlugin.from_object("tools", {"send": send})],
    )
    made.kernel.add_function("shelf", shelf(pages).create_search_function("look"))
    return made


def history(canary: Canaries) -> ChatHistory:
    """What an app sends to a service by itself."""
    made = ChatHistory(system_message=canary("own system"))
    made.add_user_message(canary("own question"), metadata={"note": canary("message metadata")})
    call = FunctionCallContent(
        id="c1", name="tools-send", arguments=f'{{"to": "{canary("call arguments")}"}}'
    )
    made.add_message(ChatMessageContent(role=AuthorRole.ASSISTANT, items=[call]))
    result = FunctionResultContent(id="c1", name="tools-send", result=canary("result"))
    made.add_message(result.to_chat_message_content())
    return made


async def talk(ann: Any, kernel: Kernel, service: Any, canary: Canaries) -> None:
    with ce_session("s"):
        await ann.get_response(canary("question"))
        await kernel.invoke_prompt("{{$said}}", said=canary("prompt"))
        settings = OpenAIChatPromptExecutionSettings()
        await service.get_chat_message_contents(history(canary), settings)


class TestCanaries(CanaryTests):
    @pytest.mark.req("B-02")
    async def test_no_canary_is_left(
        self, service: Any, engine: ContextEngine, canary: Canaries, places: Places
    ) -> None:
        script = [
            tool_calls([("tools-send", {"to": canary("tool args")})]),
            tool_calls(
                [
                    ("tools-send", {"to": "nobody"}),
                    ("shelf-look", {"query": canary("query")}),
                    ("nowhere", {"to": canary("unknown tool args")}),
                ]
            ),
            *(text(canary("answer")) for _ in range(3)),
        ]
        with Wire(script) as wire:
            made = service(wire)
            ann, kernel = agent(made, canary), Kernel(services=[service(wire)])
            with (
                install_ce(ann, engine=engine) as installation,
                install_ce(kernel, engine=engine),
                install_ce(made, engine=engine),
            ):
                await talk(ann, kernel, made, canary)
                assert installation.flush()
            assert wire.refusals == []
            assert len(wire.requests) == len(script)
        places.judge(canary, installation.last_report("s"))
