"""The offline model as LangChain's: what is asked and bound reaches the rule, and its reply comes back."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import Runnable
from langchain_core.tools import tool

from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.langchain.demo_model import OfflineChatModel


INSTALLED = frozenset({"anyio", "click", "typing-extensions"})
PROMPT = SystemMessage("You help a team with its Python packages.")


@tool
def lookup(distribution: str) -> str:
    """Look up the metadata of an installed distribution."""
    return f"{distribution} is there."


def model(*tools: Any) -> Runnable[Any, AIMessage]:
    offline = OfflineChatModel(quoting=QuotingModel(INSTALLED, lambda text: len(text.split())))
    return offline.bind_tools(tools) if tools else offline


def user(text: str) -> HumanMessage:
    return HumanMessage(text)


def call(name: str, call_id: str) -> AIMessage:
    made = {"name": "lookup", "args": {"distribution": name}, "id": call_id, "type": "tool_call"}
    return AIMessage("", tool_calls=[made])


def result(call_id: str, text: str = "It is there.") -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id)


def looked_up(answer: AIMessage) -> list[str]:
    assert {one["name"] for one in answer.tool_calls} <= {"lookup"}
    return [one["args"]["distribution"] for one in answer.tool_calls]


@pytest.mark.parametrize(
    ("messages", "names"),
    [
        ([user("`click`还是`anyio`？")], ["click", "anyio"]),
        ([HumanMessage([{"type": "text", "text": "`click`?"}])], ["click"]),
        ([user("Hello"), AIMessage("Hi. `anyio`?"), user("`click`?")], ["click"]),
        ([user("`anyio`?"), call("anyio", "a"), result("a")], []),
        ([user("`anyio`?"), call("anyio", "a")], ["anyio"]),
        ([user("`anyio`?"), call("anyio", "a"), result("b")], ["anyio"]),
    ],
)
def test_calls_and_results_are_known_by_their_ids(
    messages: list[BaseMessage], names: list[str]
) -> None:
    answer = model(lookup).invoke([PROMPT, *messages])
    assert looked_up(answer) == names
    assert bool(answer.content) is not bool(names)
    assert answer.response_metadata["finish_reason"] == ("tool_calls" if names else "stop")


def test_nothing_is_called_that_is_not_bound() -> None:
    assert model().invoke([user("What is `anyio`?")]).tool_calls == []


@pytest.mark.parametrize(
    "said",
    [
        PROMPT,
        user("Help the team!"),
        AIMessage("A team needs help."),
        result("a", "a team with tools"),
    ],
)
def test_every_kind_of_message_is_read(said: BaseMessage) -> None:
    answer = model().invoke([said, user("Which team?")])
    assert answer.content == said.content


QUOTING = [PROMPT, user("The blue heron flies low."), user("How does the heron fly?")]
CALLING = [PROMPT, user("What are `anyio` and `click`?")]


@pytest.mark.parametrize("messages", [QUOTING, CALLING])
async def test_sync_async_and_streams_say_the_same(messages: list[BaseMessage]) -> None:
    offline = model(lookup)
    chunks: list[Any] = list(offline.stream(messages))
    later: list[Any] = [chunk async for chunk in offline.astream(messages)]
    answers = [
        offline.invoke(messages),
        await offline.ainvoke(messages),
        sum(chunks[1:], chunks[0]),
        sum(later[1:], later[0]),
    ]
    said = {(str(a.content), str(looked_up(a)), str(a.usage_metadata)) for a in answers}
    assert len(said) == 1
    assert all(isinstance(chunk, AIMessageChunk) for chunk in chunks)


def test_a_stream_comes_word_by_word() -> None:
    chunks = [chunk.content for chunk in model().stream(QUOTING) if chunk.content]
    assert chunks == ["The ", "blue ", "heron ", "flies ", "low."]


def test_usage_counts_what_was_sent_and_what_came_back() -> None:
    def usage(chat: Runnable[Any, AIMessage], messages: list[BaseMessage]) -> dict[str, int]:
        told: Any = chat.invoke(messages).usage_metadata
        return dict(told)

    bare, bound = usage(model(), QUOTING), usage(model(lookup), QUOTING)
    assert bare["output_tokens"] == 5
    assert bare["total_tokens"] == bare["input_tokens"] + bare["output_tokens"]
    assert bound["input_tokens"] > bare["input_tokens"], "the tools' schemas are sent as well"
