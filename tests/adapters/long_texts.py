"""Texts of a megabyte through a framework's mapper: the work grows as the text does, whatever it repeats.

What is quadratic in a megabyte ends in no test; what is so in Python is seen earlier, in calls that are
counted for a text and for one twice as long.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from ce_engine import Extend, HostMessage, Message, Restore, Role, Shorten
from ce_integrations.mapping.composite_messages import mapped
from tests.adapters.natives import Natives


CHARS = 1_000_000
FIXED = 5_000
"""Calls that are made once in a process, such as for what is imported late."""

UNITS = {
    "one letter": "a",
    "Chinese without a blank": "上海明天天气如何",
    "brackets": "[",
    "both brackets": "[]{}()<>",
    "base64": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0NTY3ODkrLw",
    "deep JSON": '{"x":',
    "an action": "Action:",
    "actions and blanks": "Action: ",
    "actions on lines": "Action: a\n",
    "inputs on lines": "Action: a\nAction Input: {\n",
    "inputs and blanks": "Action Input:      ",
    "observations": "\nObservation: ",
    "thoughts": "Thought: I do.\nAction: a\nAction Input: {}\n",
    "blanks": " ",
    "lines": "\n",
    "quotes": '"',
    "single quotes": "'",
    "escapes": "\\",
    "escaped quotes": '\\"',
    "code fences": "```",
    "tags": "<tool_call>",
    "half emoji": "\ud83d",
    "skipped": "Skipped 1 messages.",
    "digits": "7",
}


def text_of(unit: str, chars: int) -> str:
    return (unit * (chars // len(unit) + 1))[:chars]


def whole(unit: str, chars: int) -> str:
    """The same, as a text that a mapper may take for one of its own to the end."""
    return f'Thought: so.\nAction: f\nAction Input: {{"x": {text_of(unit, chars)}}}'


def counted(work: Callable[[], object]) -> int:
    """Calls of functions, Python's and others, while work is done."""
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # what others left is nobody's work here
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return calls


class LongTextTests(Natives):
    """A framework has its plain messages."""

    @pytest.fixture(params=UNITS)
    def unit(self, request: pytest.FixtureRequest) -> str:
        return UNITS[request.param]

    @pytest.mark.req("A-23", "B-06")
    @pytest.mark.parametrize("form", [text_of, whole])
    def test_the_work_grows_as_the_text_does(
        self, unit: str, form: Callable[[str, int], str]
    ) -> None:
        short, long = (form(unit, n) for n in (CHARS // 2, CHARS))
        for once, twice in zip(self._works(short), self._works(long), strict=True):
            assert counted(twice) <= 2.2 * counted(once) + FIXED

    def _works(self, text: str) -> Iterator[Callable[[], object]]:
        arguments = json.dumps({"x": text})
        made = [self.user(text), self.answer(text), self.result("a", text)]
        made += [self.calls("a", arguments=each) for each in (arguments, text)]
        for native in made:
            yield partial(self._is_known, native)
            yield partial(mapped, self.adapter, native, self.adapter.to_schema)
            if native is not made[-1]:
                yield partial(self._is_edited, native)
        yield lambda: self.adapter.to_answer(self.reply(text))
        yield lambda: self.adapter.map_model_usage(self.reply(text))
        yield partial(self._is_made, text)

    def _is_known(self, native: Any) -> None:
        """What tells that it is one that was mapped before."""
        self.adapter.alike(native)
        self.adapter.parts(native)
        self.adapter.states([native])

    def _is_edited(self, native: Any) -> None:
        for part in self.adapter.split(native):
            self.adapter.to_native(Shorten(0, "short"), part)
            extended = Extend(0, "more", before=True)
            self.adapter.to_native(extended, part)

    def _is_made(self, text: str) -> None:
        for role in Role:
            message = Message(role=role, content=text, tool_call_id="a")
            self.adapter.to_native(Restore(message), None)

    def test_what_is_said_is_all_there(self, unit: str) -> None:
        text = text_of(unit, CHARS)
        said = self._said(self.user(text))
        assert said == text or said in text

    def _said(self, native: Any) -> str:
        hosts: tuple[HostMessage, ...] = mapped(self.adapter, native, self.adapter.to_schema)
        return "".join(host.message.content for host in hosts)
