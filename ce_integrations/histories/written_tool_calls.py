"""Calls of tools and their results as agents write them: in words of the assistant and of the user."""

from __future__ import annotations

import ast
import json
import re
from typing import Any, NamedTuple

from ce_engine import Role, ToolRequest
from ce_integrations.mapping.content_blocks import call_args


_ACTION = re.compile(r"(Thought: .*?)(?<!\n)\n++Action: (\S+)\n++Action Input: (\{.*\})", re.DOTALL)
"""A ReAct agent's call. Nothing of it is tried twice: a text of line breaks or braces takes no longer."""

_CODE_BEGIN, _CODE_END = "<execute>", "</execute>"
_CODE = re.compile(f"{_CODE_BEGIN}(.*?){_CODE_END}", re.DOTALL)
_EXECUTE = "execute"
"""A CodeAct agent's call: all the code of a text is run at once, by a tool of this name."""

_RESULTS = ("Observation: ", "Result of executing the code given:\n\n")
"""What their results begin with; a person's words may, too."""


class WrittenCall(NamedTuple):
    """What a text says.

    Attributes:
        text: what is said beside the call, or what the tool gave.
        calls: the call, if it is one.
        beside: further words, that cost but say nothing; of a result what it begins with.
    """

    text: str
    calls: list[ToolRequest]
    beside: str = ""


def read(role: Role, text: str) -> WrittenCall:
    """Find a call in what an assistant wrote, or a result in what anybody else did."""
    if role is Role.ASSISTANT:
        return _call(text)
    prefix = next((prefix for prefix in _RESULTS if text.startswith(prefix)), "")
    return WrittenCall(text[len(prefix) :], [], prefix)


def _call(text: str) -> WrittenCall:
    """The call of a text, as the agent's own parser reads it."""
    words = text.strip()
    if words.endswith("}") and (
        action := _ACTION.fullmatch(words)
    ):  # its further words cost less than the framing of a call
        return WrittenCall(action[1], [ToolRequest(name=action[2], args=_args(action[3]))])
    head, end, tail = text.rpartition(_CODE_END)  # behind the last end nothing is searched for one
    code_parts = _CODE.findall(head + end)
    if code := "\n\n".join(part.strip() for part in code_parts):
        words = (_CODE.sub("", head + end) + tail).strip()
        call = ToolRequest(name=_EXECUTE, args={"code": code})
        return WrittenCall(words, [call], f"{_CODE_BEGIN}{_CODE_END}" * len(code_parts))
    return WrittenCall(text, [])


def _args(text: str) -> dict[str, Any]:
    """Arguments as a model wrote them, or as the framework writes them afterwards: JSON or Python."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return call_args({"args": parse(text)})
        except (ValueError, SyntaxError, RecursionError, MemoryError):  # of brackets without end
            continue
    return {"": text}
