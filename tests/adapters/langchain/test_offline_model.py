"""The offline chat model: it calls `lookup` exactly when its rule says so, and quotes nothing but its input."""

from __future__ import annotations

from collections.abc import Sequence
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

from ce_integrations.langchain.offline_model import (
    NOTHING,
    OfflineChatModel,
    canonical,
    sentences,
    words,
)


INSTALLED = frozenset({"anyio", "click", "typing-extensions"})
PROMPT = SystemMessage("You help a team with its Python packages.")


@tool
def lookup(distribution: str) -> str:
    """Look up the metadata of an installed distribution."""
    return f"{distribution} is there."


@tool
def search(query: str) -> str:
    """Search the documents."""
    return query


def model(*tools: Any) -> Runnable[Any, AIMessage]:
    offline = OfflineChatModel(known=INSTALLED)
    return offline.bind_tools(tools) if tools else offline


def user(text: str) -> HumanMessage:
    return HumanMessage(text)


def call(name: str, call_id: str, used: str = "lookup") -> AIMessage:
    made = {"name": used, "args": {"distribution": name}, "id": call_id, "type": "tool_call"}
    return AIMessage("", tool_calls=[made])


def result(call_id: str, text: str = "It is there.") -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id)


def looked_up(answer: AIMessage) -> list[str]:
    assert {one["name"] for one in answer.tool_calls} <= {"lookup"}
    return [one["args"]["distribution"] for one in answer.tool_calls]


@pytest.mark.parametrize(
    ("messages", "names"),
    [
        ([user("What is `anyio`?")], ["anyio"]),
        ([user("What is `Typing_Extensions`?")], ["typing-extensions"]),
        ([user("`click`还是`anyio`？")], ["click", "anyio"]),
        ([user("`anyio` or `anyio`?")], ["anyio"]),
        # Not a name: no backticks, not installed, something else in backticks.
        ([user("Should I click, and what is anyio?")], []),
        ([user("What is `django`?")], []),
        ([user("Why does `import anyio` fail?")], []),
        # Only the newest user message counts, wherever it stands.
        ([user("What is `anyio`?"), AIMessage("A library."), user("And now?")], []),
        ([user("Hello"), AIMessage("Hi."), user("`click`?")], ["click"]),
        # Looked up already: there is a result of that very call.
        ([user("`anyio`?"), call("anyio", "a"), result("a")], []),
        ([user("`anyio`?"), call("AnyIO", "a"), result("a")], []),
        ([call("anyio", "a"), result("a"), user("And `anyio` again?")], []),
        ([user("`anyio`, `click`?"), call("anyio", "a"), result("a")], ["click"]),
        # Not looked up: another name, another tool, a call without its result.
        ([user("`anyio`?"), call("click", "a"), result("a")], ["anyio"]),
        ([user("`anyio`?"), call("anyio", "a", used="search"), result("a")], ["anyio"]),
        ([call("anyio", "a"), result("b"), user("`anyio`?")], ["anyio"]),
    ],
)
def test_it_looks_up_exactly_what_the_newest_user_message_names(
    messages: Sequence[BaseMessage], names: list[str]
) -> None:
    answer = model(search, lookup).invoke([PROMPT, *messages])
    assert looked_up(answer) == names
    assert bool(answer.content) is not bool(names)


def test_it_calls_no_tool_that_it_was_not_given() -> None:
    assert model(search).invoke([user("What is `anyio`?")]).tool_calls == []
    assert model().invoke([user("What is `anyio`?")]).tool_calls == []


def test_ids_of_calls_are_never_used_twice() -> None:
    answers = [model(lookup).invoke([user("`anyio`, `click`?")]) for _ in range(20)]
    ids = [one["id"] for answer in answers for one in answer.tool_calls]
    assert len(set(ids)) == 40


@pytest.mark.parametrize(
    ("messages", "quoted"),
    [
        # From the system text, an earlier message, a tool's result: wherever most words are shared.
        ([SystemMessage("The licence of anyio is MIT. Be kind."), user("Which licence?")], 0),
        (
            [PROMPT, user("Our ticket is TCK-1."), AIMessage("Good."), user("What ticket?")],
            "Our ticket is TCK-1.",
        ),
        (
            [PROMPT, user("`anyio`?"), call("anyio", "a"), result("a", "x\nanyio: a library\ny")],
            "anyio: a library",
        ),
        (
            [user("灯塔项目由数据平台组负责。别的以后再说。"), user("灯塔项目由谁负责？")],
            "灯塔项目由数据平台组负责。",
        ),
        # More shared words win, then longer ones, then the latest.
        (
            [user("The blue heron. A blue project heron. Heron."), user("Blue heron project?")],
            "A blue project heron.",
        ),
        ([user("A cat ran. A caterpillar ran."), user("Cat, caterpillar?")], "A caterpillar ran."),
        ([user("The red owl. The old owl."), user("Owl?")], "The old owl."),
        # Function words and questions say nothing.
        ([user("It is what it is for you. Red."), user("What is it for, red?")], "Red."),
        (
            [user("Which owl is red? The owl was ill."), user("Which owl is red?")],
            "The owl was ill.",
        ),
        # What ends with a question mark is the question; else all of the message is.
        (
            [user("Kites fly. Owls hunt."), user("For kites and kites that fly. What do owls do?")],
            "Owls hunt.",
        ),
        ([user("Kites fly. Owls hunt."), user("Tell me of owls.")], "Owls hunt."),
        ([user("Kites fly."), user("What do owls do?")], NOTHING),
        ([PROMPT], NOTHING),
    ],
)
def test_it_quotes_the_sentence_that_shares_most_words(
    messages: Sequence[BaseMessage], quoted: str | int
) -> None:
    expected = quoted if isinstance(quoted, str) else "The licence of anyio is MIT."
    assert model(lookup).invoke(messages).content == expected


def test_it_never_quotes_the_newest_user_message() -> None:
    asked = user("The owl is red. Is the owl red?")
    assert model().invoke([asked]).content == NOTHING
    assert model().invoke([user("An owl."), asked]).content == "An owl."


def test_it_knows_nothing_but_the_request() -> None:
    offline = model(lookup)
    offline.invoke([user("Our ticket is TCK-4711."), user("What ticket?")])
    assert offline.invoke([user("What ticket?")]).content == NOTHING


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
    count = OfflineChatModel(known=INSTALLED, count=lambda text: len(text.split()))

    def usage(chat: Runnable[Any, AIMessage], messages: list[BaseMessage]) -> dict[str, int]:
        told: Any = chat.invoke(messages).usage_metadata
        return dict(told)

    bare, bound = usage(count, QUOTING), usage(count.bind_tools([lookup]), QUOTING)
    assert bare["output_tokens"] == 5
    assert bare["total_tokens"] == bare["input_tokens"] + bare["output_tokens"]
    assert bound["input_tokens"] > bare["input_tokens"], "the tools' schemas are sent as well"
    longer = usage(count, [*QUOTING[:-1], AIMessage("one two three"), QUOTING[-1]])
    assert longer["input_tokens"] == bare["input_tokens"] + 3 + 4


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It is 0.28.1, e.g. v2. Really!", ["It is 0.28.1, e.g.", "v2.", "Really!"]),
        ("一句。两句！three\nfour", ["一句。", "两句！", "three", "four"]),
        ("  \n ", []),
    ],
)
def test_sentences(text: str, found: list[str]) -> None:
    assert sentences(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What does anyio require?", ["anyio", "require"]),
        ("It requires licences; class, bus", ["require", "licence", "class", "bus"]),
        ("typing_extensions>=4.13.0", ["typing_extension", "4.13.0"]),
        ("灯塔项目", ["灯塔", "塔项", "项目"]),
        ("我", ["我"]),
    ],
)
def test_words(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_names_are_compared_as_indexes_do() -> None:
    assert canonical(" Typing__Extensions.") == "typing-extensions-"
    assert canonical("ruamel.yaml") == canonical("Ruamel-YAML") == "ruamel-yaml"
