"""Calls of tools and their results as agents write them: in words of the assistant and of the user."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from ce_engine import ToolRequest
from ce_integrations.blocks import call_args


_ACTION = re.compile(r"\s*(Thought: .*?)\n+Action: (\S+)\n+Action Input: (\{.*\})\s*", re.DOTALL)
"""A ReAct agent's call."""

_CODE_END = "</execute>"
_CODE = re.compile(f"<execute>(.*?){_CODE_END}", re.DOTALL)
_EXECUTE = "execute"
"""A CodeAct agent's call: all the code of a text is run at once, by a tool of this name."""

_RESULTS = ("Observation: ", "Result of executing the code given:\n\n")
"""What their results begin with; a person's words may, too."""


def result_prefix(text: str) -> str:
    """What says that a text is the result of a tool; empty where nothing does."""
    return next((prefix for prefix in _RESULTS if text.startswith(prefix)), "")


def call_in(text: str) -> tuple[str, list[ToolRequest]]:
    """(what an assistant says beside its call, the call), as the agent's own parser reads it."""
    if action := _ACTION.fullmatch(text):
        return action[1], [ToolRequest(name=action[2], args=_args(action[3]))]
    head, end, tail = text.rpartition(_CODE_END)  # behind the last end nothing is searched for one
    if code := "\n\n".join(part.strip() for part in _CODE.findall(head + end)):
        said = _CODE.sub("", head + end) + tail
        return said.strip(), [ToolRequest(name=_EXECUTE, args={"code": code})]
    return text, []


def _args(written: str) -> dict[str, Any]:
    """Arguments as a model wrote them, or as the framework writes them afterwards: JSON or Python."""
    for read in (json.loads, ast.literal_eval):
        try:
            return call_args({"args": read(written)})
        except (ValueError, SyntaxError):
            continue
    return {"": written}
