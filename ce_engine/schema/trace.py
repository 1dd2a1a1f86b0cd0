"""What `engine.trace` answers: evidence, the call that made it, who asked for that call, in which turn."""

from __future__ import annotations

from pydantic import Field

from ce_engine.schema.document import Evidence, Message, ModelUsage, Ref, Schema, ToolCall
from ce_engine.schema.html_repr import HtmlRepr


class EvidenceTrace(Schema):
    """One ref and the way back from it. What is not recorded is `None`.

    `evidence` is `None` where it is kept elsewhere or was deleted. Evidence comes of a tool's run
    (`tool_call`), of a model call (`model_usage`), or of neither.
    """

    ref: Ref
    evidence: Evidence | None = None
    text: str | None = None
    """The part that the ref's selector names."""
    problem: str | None = None
    """Why the selector names none (A-02)."""
    tool_call: ToolCall | None = None
    model_usage: ModelUsage | None = None
    asked_by: Message | None = None
    """The message that asked for the tool call."""
    turn_id: str | None = None
    """The turn of the model call that made the evidence or asked for the tool; of a retrieval and of a
    tool that the host ran by itself, the turn that it was for."""
    turn: int | None = None
    """The turn's number in the session, from 1."""
    used_by: list[str] = Field(default_factory=list)
    """Ids of the messages that refer to the evidence: it is theirs, or it was shown to the model, be it in a note
    that names its value."""
    quoted_by: list[str] = Field(default_factory=list)
    """Of these, the answers that rest on it: they quote it, or the app says so."""


class Trace(HtmlRepr, Schema):
    """What was asked for and where it leads: one entry for each ref of it, those first that an answer rests on.

    `kind` is `message`, `block` or `evidence`. `seen_by` are the agents (lanes that have a name) whose model
    calls had a message in their list, or were shown evidence, in order (B-16), and `asked_for` the runs of
    the tools that a message asks for. `quotes_none` says of an answer in words that it quotes none of its evidence.
    """

    id: str
    kind: str
    evidence: list[EvidenceTrace] = Field(default_factory=list)
    seen_by: list[str] = Field(default_factory=list)
    asked_for: list[ToolCall] = Field(default_factory=list)
    quotes_none: bool = Field(default=False, exclude_if=lambda value: not value)
