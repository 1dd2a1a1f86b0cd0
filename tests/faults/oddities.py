"""Inputs that are huge or odd, as an app's messages: what they hold, and what is to become of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage


UNITS = {
    "one word": "a",
    "one word in Chinese": "中",
    "spaces": " ",
    "new lines": "\n",
    "empty lines": " \n",
    "digits": "7",
    "digits in Thai": "๗",
    "digits and hyphens": "1-",
    "signs": "-=",
    "opening marks": "“「《",
    "digits of formulas": "𝟕",
    "at signs": "@",
    "dots": ".",
    "at signs and dots": "@.",
    "beginnings of addresses": "a@a.",
    "beginnings of URLs": "http://a:b@",
    "beginnings of tokens": "eyJ",
    "labels": "password ",
    "half placeholders": "[EMAIL_",
    "brackets": "[",
    "braces": '{"x":',
    "NUL": "\0",
    "half emoji": "\ud83d",
    "right to left": "\u202eשלום עולם ",
    "bidi marks": "\u202e\u202c",
    "combining": "e\u0301",
    "combining alone": "\u0301",
    "joiners": "\u200d",
    "joined emoji": "👩\u200d👩\u200d👧 ",
    "variation selectors": "\ufe0f",
}
"""What a text repeats, without an end: tokenizers and patterns may be quadratic on it."""

SHALLOW, DEEP, DEEPEST = 100, 300, 100_000
"""Levels of nested JSON: arguments of the deeper ones are a text; a schema of the deepest is refused."""

Fate = Literal["stored", "refused"]


@dataclass(frozen=True)
class Oddity:
    """A list of messages with what goes out beside it.

    Attributes:
        fate: `refused` where the call is not prepared, which is told by name.
        resent: the host sends the whole list again with its next question.
    """

    name: str
    messages: Sequence[BaseMessage]
    tools: Sequence[dict[str, Any]] = ()
    fate: Fate = "stored"
    resent: bool = True
    chars: int = 0

    @property
    def most_seconds(self) -> float:
        """Of the CPU, for two prepared and recorded turns: in proportion to what there is of it.

        Outside ASCII twice as much: with a model that nobody knows, two vocabularies count it.
        """
        texts = [str(message.content) for message in self.messages]
        chars = max(self.chars, sum(len(text) * (1 if text.isascii() else 2) for text in texts))
        return 1.0 + 6e-6 * chars + 2e-3 * len(texts)


def repeated(unit: str, chars: int) -> str:
    return (unit * (chars // len(unit) + 1))[:chars]


def nested(levels: int, *, lists: bool = False) -> dict[str, Any]:
    """Data of so many levels, made without recursion."""
    value: Any = 1
    for _ in range(levels - 1):
        value = [value] if lists else {"x": value}
    return {"x": value}


def called(args: dict[str, Any], result: str) -> list[BaseMessage]:
    """A question, a tool's call and result, and a second one: the first may be shortened."""
    found: list[BaseMessage] = [HumanMessage("What does it say?")]
    for n, (given, told) in enumerate([(args, result), ({"a": 1}, "nothing more")]):
        call = {"id": f"call-{n}", "name": "read", "args": given}
        found += [AIMessage("", tool_calls=[call]), ToolMessage(told, tool_call_id=f"call-{n}")]
    return found


def conversation(messages: int) -> list[BaseMessage]:
    """Questions and answers, the last one a question."""
    made: list[BaseMessage] = []
    for n in range(messages // 2):
        made += [HumanMessage(f"question {n}?"), AIMessage(f"answer {n}")]
    return [*made, HumanMessage("And now?")]


def schema(n: int) -> dict[str, Any]:
    """A tool's schema, of about a kilobyte."""
    fields = {f"field_{k}": {"type": "string", "description": "what it is " * 5} for k in range(10)}
    parameters = {"type": "object", "properties": fields}
    function = {"name": f"tool_{n}", "description": "does a thing", "parameters": parameters}
    return {"type": "function", "function": function}


def texts(chars: int) -> Iterator[Oddity]:
    """Each odd text as the question, and as the older of two results of tools.

    It ends in something else: a pattern that wants the end, or a space, behind a run may begin anew at each of its signs.
    """
    for name, unit in UNITS.items():
        text = f"{repeated(unit, chars - 1)}x"
        yield Oddity(f"{name}, asked", [HumanMessage(text)])
        yield Oddity(f"{name}, a tool's result", called({"a": 1}, text))


def huge(chars: int, messages: int, tools: int) -> Iterator[Oddity]:
    """Much of one thing."""
    yield Oddity("a huge question", [HumanMessage(repeated("word ", chars))])
    yield Oddity("a huge result", called({"a": 1}, repeated("word and line\n", chars)))
    yield Oddity("huge arguments", called({"x": repeated("word ", chars)}, "done"), chars=chars)
    yield Oddity("a long list", conversation(messages))
    yield Oddity("a long list, sent once", conversation(messages), resent=False)
    schemas = [schema(n) for n in range(tools)]
    yield Oddity("many tools", conversation(2), schemas, chars=len(str(schemas)))


def deep() -> Iterator[Oddity]:
    """Nested JSON, as data and as text."""
    for levels in (SHALLOW, DEEP, DEEPEST):
        for lists in (False, True):
            name = f"{'lists' if lists else 'objects'} of {levels} levels"
            yield Oddity(f"{name}, arguments", called(nested(levels, lists=lists), "done"))
    for levels in (SHALLOW, DEEPEST):
        function = {"name": "t", "parameters": nested(levels)}
        tools = [{"type": "function", "function": function}]
        fate: Fate = "stored" if levels == SHALLOW else "refused"
        yield Oddity(f"a schema of {levels} levels", conversation(2), tools, fate)
    text = '{"x":' * DEEPEST + "1" + "}" * DEEPEST
    yield Oddity(f"a result of {DEEPEST} levels", called({"a": 1}, text))
