"""What a person needs to take over a run that failed: its steps, and the input that can be made again (B-06)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ce_engine.schema.document import Schema


StepStatus = Literal["done", "failed", "open"]
"""`open`: it began, and nobody recorded an end: its side effects may have happened, or not."""


class HandoverStep(Schema):
    """One model call or tool run.

    Attributes:
        id: of the turn, or of the tool call.
        name: the tool; for a model call what it was for (`chat`, ...).
        host_call_id: the framework's id of a tool call, by which a host that resumes knows it again.
        attempts: how often a model was asked; 1 for a tool run.
        at: when it began (UTC, ISO 8601).
        errors: codes of a model call's failures; what a tool failed with, redacted.
        args: of a tool run, redacted, as it is stored.
        evidence_ids: what it brought; `get_evidence` reads it.
    """

    kind: Literal["model_call", "tool_run"]
    id: str
    name: str
    status: StepStatus
    host_call_id: str | None = None
    attempts: int = 1
    at: str = ""
    errors: list[str] = Field(default_factory=list)
    args: dict[str, Any] = Field(default_factory=dict)
    evidence_ids: list[str] = Field(default_factory=list)


class Checkpoint(Schema):
    """Where a session stood when the package was made: another one says that it went on since.

    Attributes:
        version: of the session in the store.
        events: how many its log has.
        head: of the log's chain.
    """

    version: int
    events: int
    head: str


class Handover(Schema):
    """A run as it can be handed over to a person, or resumed: minimal, redacted, reproducible.

    Attributes:
        turn: the number of the turn, from 1, that is handed over: `ce replay SESSION --turn N` makes
            its input again, byte by byte where `input_hash` agrees.
        triggers: why a person was asked for: payloads of the run's `hitl` events.
        asked: the message that the run answers, redacted; empty where its text is not stored.
        steps: model calls and tool runs since then, in order.
        input_hash: of the input that went to the model, over its redacted form; empty without an archive.
        degradations: codes of what was done less well than it should.
        checkpoint: where the session stands.
    """

    session_id: str
    user_id: str = ""
    account_id: str = ""
    turn: int
    turn_id: str
    request_id: str = ""
    framework: str = ""
    status: str
    triggers: list[dict[str, Any]] = Field(default_factory=list)
    asked: str = ""
    steps: list[HandoverStep] = Field(default_factory=list)
    input_hash: str = ""
    input_tokens: int = 0
    degradations: list[str] = Field(default_factory=list)
    checkpoint: Checkpoint

    def step_of(self, host_call_id: str) -> HandoverStep | None:
        """The newest tool run of this id of the framework's; one that is `done` must not be run again."""
        newest = reversed(self.steps)
        return next((step for step in newest if step.host_call_id == host_call_id), None)
