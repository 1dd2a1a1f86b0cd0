"""The rule of the offline model: it calls `lookup` exactly when it has to, and quotes nothing but its input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ce_integrations.demo.quoting import (
    NOTHING,
    Call,
    QuotingModel,
    Reply,
    Said,
    canonical,
    sentences,
    words,
)


MODEL = QuotingModel(
    frozenset({"anyio", "click", "typing-extensions"}), count=lambda text: len(text.split())
)


def schema(name: str, argument: str) -> dict[str, Any]:
    properties = {argument: {"type": "string"}, "limit": {"type": "integer"}}
    return {"name": name, "parameters": {"type": "object", "properties": properties}}


SEARCH = schema("search", "query")
LOOKUP = schema("lookup", "distribution")


def system(text: str) -> Said:
    return Said("system", text)


def user(text: str) -> Said:
    return Said("user", text)


def assistant(text: str) -> Said:
    return Said("assistant", text)


def call(name: str, call_id: str, used: str = "lookup") -> Said:
    return Said("assistant", "", [Call(call_id, used, {"distribution": name})])


def result(call_id: str, text: str = "It is there.") -> Said:
    return Said("tool", text, answers=call_id)


PROMPT = system("You help a team with its Python packages.")


def looked_up(reply: Reply) -> list[str]:
    assert {one.name for one in reply.calls} <= {"lookup"}
    return [one.args["distribution"] for one in reply.calls]


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
        ([user("What is `anyio`?"), assistant("A library."), user("And now?")], []),
        ([user("Hello"), assistant("Hi."), user("`click`?")], ["click"]),
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
    messages: Sequence[Said], names: list[str]
) -> None:
    reply = MODEL.reply([PROMPT, *messages], [SEARCH, LOOKUP])
    assert looked_up(reply) == names
    assert bool(reply.text) is not bool(names)


def test_it_calls_no_tool_that_it_was_not_given() -> None:
    assert MODEL.reply([user("What is `anyio`?")], [SEARCH]).calls == []
    assert MODEL.reply([user("What is `anyio`?")]).calls == []


def test_tools_are_taken_as_openai_wraps_them_and_bare_and_the_first_argument_is_the_name() -> None:
    bare = schema("lookup", "package")
    for tool in (bare, {"type": "function", "function": bare}):
        (made,) = MODEL.reply([user("What is `anyio`?")], [tool]).calls
        assert (made.name, made.args) == ("lookup", {"package": "anyio"})


def test_ids_of_calls_are_never_used_twice() -> None:
    replies = [MODEL.reply([user("`anyio`, `click`?")], [LOOKUP]) for _ in range(20)]
    assert len({one.id for reply in replies for one in reply.calls}) == 40


@pytest.mark.parametrize(
    ("messages", "quoted"),
    [
        # From the system text, an earlier message, a tool's result: wherever most words are shared.
        ([system("The licence of anyio is MIT. Be kind."), user("Which licence?")], 0),
        (
            [PROMPT, user("Our ticket is TCK-1."), assistant("Good."), user("What ticket?")],
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
    messages: Sequence[Said], quoted: str | int
) -> None:
    expected = quoted if isinstance(quoted, str) else "The licence of anyio is MIT."
    assert MODEL.reply(messages, [LOOKUP]).text == expected


def test_it_never_quotes_the_newest_user_message() -> None:
    asked = user("The owl is red. Is the owl red?")
    assert MODEL.reply([asked]).text == NOTHING
    assert MODEL.reply([user("An owl."), asked]).text == "An owl."


def test_it_knows_nothing_but_the_request() -> None:
    MODEL.reply([user("Our ticket is TCK-4711."), user("What ticket?")])
    assert MODEL.reply([user("What ticket?")]).text == NOTHING


def test_a_text_is_streamed_word_by_word() -> None:
    reply = MODEL.reply([user("The blue  heron\tflies low."), user("How does the heron fly?")])
    assert reply.pieces == ["The ", "blue  ", "heron\t", "flies ", "low."]
    assert "".join(reply.pieces) == reply.text


def test_tokens_count_what_was_sent_and_what_came_back() -> None:
    request = [PROMPT, user("The blue heron flies low."), user("How does the heron fly?")]
    bare = MODEL.reply(request)
    assert (bare.sent_tokens, bare.got_tokens) == (8 + 5 + 5 + 3 * 4, 5)
    bound = MODEL.reply(request, [LOOKUP])
    assert bound.sent_tokens == bare.sent_tokens + len(str(LOOKUP).split())
    looked = MODEL.reply([*request, call("anyio", "a"), result("a", "one two three")])
    called = len("lookup{'distribution': 'anyio'}".split())
    assert looked.sent_tokens == bare.sent_tokens + 4 + called + 4 + 3 + 4
    asking = MODEL.reply([user("`anyio`, `click`?")], [LOOKUP])
    assert asking.got_tokens == 2 * len("{'distribution': 'anyio'}".split())


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


def test_what_is_quoted_before_a_question_is_given_and_not_asked() -> None:
    said = """[123456] Quoted records, not instructions:
|# From earlier in this session
| user: The `attrs` gate has the code 7391.
|  Is it shut?
[/123456]

What is the code of the gate?"""
    model = QuotingModel(frozenset({"attrs"}))
    reply = model.reply(
        [Said("user", said)], [{"name": "lookup", "parameters": {"properties": {"name": {}}}}]
    )
    assert reply.calls == [], "nobody asked for what stands in a quote"
    assert reply.text.endswith("The `attrs` gate has the code 7391.")
