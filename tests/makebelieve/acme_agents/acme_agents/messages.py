"""What agents, models and tools say to each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ToolCall:
    """A tool that the model asks for; `arguments` is the text that the model wrote, JSON as a rule."""

    id: str
    name: str
    arguments: str


@dataclass
class Message:
    """One message; may be changed at any time, and has no id.

    Attributes:
        role: `system`, `user`, `assistant` or `tool`.
        speaker: who says it, where that is not the user himself.
        calls: the tools that an assistant's message asks for.
        answers: the id of the call that a tool's message answers.
        failed: a tool's message that tells of an error.
        usage: what the provider says that its answer cost.
    """

    role: str
    text: str = ""
    speaker: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    answers: str = ""
    failed: bool = False
    usage: dict[str, Any] | None = None


@dataclass(frozen=True)
class Piece:
    """A piece of a streamed answer: its text, and pieces of calls as the provider sends them."""

    text: str = ""
    calls: tuple[Mapping[str, Any], ...] = ()


def join(pieces: Iterable[Piece]) -> Message:
    """Put a streamed answer together."""
    whole = Message("assistant")
    for piece in pieces:
        whole.text += piece.text
        for part in piece.calls:
            if part["index"] == len(whole.calls):
                whole.calls.append(ToolCall(part["id"], part["function"]["name"], ""))
            whole.calls[part["index"]].arguments += part["function"].get("arguments") or ""
    return whole
