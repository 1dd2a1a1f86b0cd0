"""What a look at an input answers: a turn's replay, beside another configuration, and an inspection (A-21, D-08)."""

from __future__ import annotations

from pydantic import Field

from ce_engine.schema.document import Schema, additive
from ce_engine.schema.enums import Role
from ce_engine.schema.report import PruneDecision, RecallReport, Report


class SentPart(Schema):
    """One message or text of an input, or one that was left out.

    `action` is `kept`, `shortened`, `extended` (a text was put into it), `injected`, `restored` (from the
    store) or `dropped`; `index` is its place in the host's list, `message_id` the stored message.
    `sources` say where its text is from (D-01): `host`, as the app sends it; `session`, stored messages;
    `evidence`, `constraints`, `tasks`, `blocks`, `summary`; or the name of a source. `form` says of a tool's result
    that goes out in fewer tokens what was done to it, as in `Report.results_saved`.
    """

    action: str
    role: Role
    tokens: int
    content: str = ""
    index: int | None = None
    message_id: str | None = None
    sources: list[str] = Field(default_factory=list)
    form: str | None = additive()


class Sent(Schema):
    """What one configuration sends: `parts` in order, and what it leaves out. Content is redacted.

    Of `tokens`, `put_in` are of rules and quotes beside the messages, and `extras` of tools' schemas, a response format
    and the beginning of the reply; the others are of messages.
    """

    tokens: int
    budget: int | None = None
    put_in: int = 0
    extras: int = 0
    parts: list[SentPart]
    dropped: list[SentPart] = Field(default_factory=list)


class ReplayProblem(Schema):
    """Why a replay is not, or could not be, what was sent."""

    code: str
    detail: str


class Replay(Schema):
    """A turn's input, made again from what is stored, and what another configuration would have sent.

    Attributes:
        turn: the turn's number, from 1.
        recorded: the hash of the input as it was sent, over its redacted form.
        hash: the hash of the input as it was made again.
        equal: whether they are the same; if not, `problems` says why.
        same_choice: whether the same messages and pieces went out, in as many tokens, by the turn's report: where a rule
            was changed since, what says so stands in the place of its text, and all else is as it was.
        problems: what could not be made again exactly, or not be compared.
        sent: the input as it was sent.
        instead: the input with the other configuration; `None` without one. Beside it, both name all messages of the
            talk that they leave out, those too that there was no room to look at.
        diff: lines of a unified diff from `sent` to `instead`.
        why: the decisions on `sent`, and what was brought in; `None` without another configuration.
        why_instead: those on `instead`.
        prefix: leading tokens of `sent` that are those of the lane's call before, as that was sent; `None` where there
            was none, or it cannot be made again.
        prefix_instead: those of `instead`.
        skipped: newer turns that cannot be replayed, where none was asked for by name.
    """

    turn: int
    turn_id: str
    recorded: str
    hash: str
    equal: bool
    same_choice: bool = False
    problems: list[ReplayProblem] = Field(default_factory=list)
    sent: Sent
    instead: Sent | None = None
    diff: list[str] = Field(default_factory=list)
    why: Explanation | None = None
    why_instead: Explanation | None = None
    prefix: int | None = None
    prefix_instead: int | None = None
    skipped: int = 0


class BroughtIn(Schema):
    """A piece that was put in beside the app's own messages, and why.

    Attributes:
        id: of the stored message, of the evidence, or of the piece that a source gave.
        kind: `message` or `evidence`, found again by relevance; else the section that it stands in.
        who: who said it, or where it is from.
        at: when (UTC, ISO 8601), if that is known.
        tokens: what it costs.
        is_part: only its best sentences went in.
        score: by which it was chosen; `None` of what relevance did not choose.
        features: what the score is made of, the most first (`LexicalIndex.explain`).
        words: of the question that it has, as it has them.
        text: as it is stored, redacted.
        spans: of one that went in in part, which of its characters did, each from and to, where that is known.
    """

    id: str
    kind: str
    who: str = ""
    at: str = ""
    tokens: int
    is_part: bool = False
    score: float | None = None
    features: dict[str, float] = Field(default_factory=dict)
    words: list[str] = Field(default_factory=list)
    text: str = ""
    spans: list[tuple[int, int]] = Field(default_factory=list, exclude_if=lambda spans: not spans)


class PassedOver(Schema):
    """A piece that was looked at to be brought in, and was not.

    Attributes:
        id: of the stored message, of the evidence, or of the piece that a source gave.
        kind: `message` or `evidence`; else the section that it would stand in.
        reason: why, as in `PruneDecision.reason`: `over_budget`, `conflict`, `duplicate`, ...
        tokens: what it would have cost.
        room: tokens that were free for it, where it was too much.
        who: who said it, or where it is from.
        at: when (UTC, ISO 8601), if that is known.
        score: its relevance; `None` of what relevance did not find.
        features: what the score is made of, the most first (`LexicalIndex.explain`).
        best: tokens that its best sentences need, where those had no room either.
        best_room: tokens that were left of what might be taken then.
    """

    id: str
    kind: str
    reason: str
    tokens: int
    room: int | None = None
    best: int | None = additive()
    best_room: int | None = additive()
    who: str = ""
    at: str = ""
    score: float | None = None
    features: dict[str, float] = Field(default_factory=dict)


class BroughtInBefore(Schema):
    """What was brought in for an earlier question, and still stands before it.

    Attributes:
        asked: id of that message.
        ids: of what was brought in.
        tokens: what it costs.
        parts: the ids of those of which only the best sentences stand there.
    """

    asked: str
    ids: list[str]
    tokens: int
    parts: list[str] = Field(default_factory=list, exclude_if=lambda ids: not ids)


class RoomTaken(Schema):
    """Where the tokens went that were free for what comes back, which are the sum of all but `pieces`.

    Attributes:
        around: for the words around quotes.
        taken: by the pieces.
        pieces: how many were taken.
        kept: free, and kept from what comes back.
        why: the reason for that, as in `PruneDecision.reason`.
        left: nobody's; below 0 where fewer were free than the words around quotes need.
    """

    around: int
    taken: int
    pieces: int
    kept: int
    why: str
    left: int

    @property
    def free(self) -> int:
        return self.around + self.taken + self.kept + self.left


class NearestThere(Schema):
    """The message that was nearest to the question of those that went out.

    Attributes:
        id: of the stored message.
        score: its relevance.
        is_quoted: whether it stands quoted before an earlier question, and is no message of its own.
        needed: the score above which another message was worth adding: of a talk a little less, of an agent with tools more.
    """

    id: str
    score: float
    is_quoted: bool
    needed: float


class Explanation(Schema):
    """What was brought in for a turn, and why: chosen once more from what is stored.

    `equal` says whether all of it is what was sent; if not, `problems` say why.
    """

    turn_id: str
    asked: str = ""
    equal: bool
    problems: list[ReplayProblem] = Field(default_factory=list)
    brought_in: list[BroughtIn] = Field(default_factory=list)
    earlier: list[BroughtInBefore] = Field(default_factory=list)
    passed_over: list[PassedOver] = Field(default_factory=list)
    """What was looked at and left out, the nearest first, at most 200."""
    decisions: list[PruneDecision] = Field(default_factory=list)
    """All that was decided, as in `Report.prune_decisions`; only beside another configuration."""
    cut: str = ""
    """`moved` where the lane was cut anew, `stands` where an earlier cut stayed; `""` where nothing was cut."""
    cut_before: str = ""
    """The stored message before which the cut is."""
    cut_budget: int = 0
    """The budget that the lane's earlier cut was made for; 0 where there was none."""
    recall: RecallReport | None = None
    """How it was looked for what comes back; only beside another configuration."""
    taken: RoomTaken | None = additive()
    """Where the tokens went that were free for what comes back; `None` where nothing was looked at."""
    nearest: NearestThere | None = additive()
    """What was as near as the pieces that were passed over as `not_nearer`; `None` where none were."""


Replay.model_rebuild()


class InspectedLayer(Schema):
    """One layer of an input (D-01): its tokens and what stands in it. Content is as it would be sent."""

    tokens: int = 0
    truncated: bool = False
    parts: list[SentPart] = Field(default_factory=list)


class Inspection(Schema):
    """What would be sent now, by layer; nothing was sent, injected or recorded (D-08)."""

    layers: dict[str, InspectedLayer]
    tokens: int
    budget: int | None
    report: Report


__all__ = [
    "BroughtIn",
    "BroughtInBefore",
    "Explanation",
    "InspectedLayer",
    "Inspection",
    "PassedOver",
    "Replay",
    "ReplayProblem",
    "Sent",
    "SentPart",
]
