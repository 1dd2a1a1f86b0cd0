"""What the engine tells about one preparation: the assembled input, and a report of every decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from ce_engine.errors import SchemaValidationError
from ce_engine.schema.document import Ref, Schema, ToolRequest, additive
from ce_engine.schema.enums import BlockType, EvidenceType, Priority, Role, SourceKind
from ce_engine.schema.html_repr import HtmlRepr


class EvidenceFilter(Schema):
    """Which evidence to list; `since` and `until` compare with `metadata["created_at"]` (UTC, ISO 8601)."""

    types: list[EvidenceType] | None = None
    source_kinds: list[SourceKind] | None = None
    since: str | None = None
    until: str | None = None
    tags: dict[str, str] | None = None
    limit: int | None = Field(default=None, ge=0)


class BlockFilter(Schema):
    """Which blocks to list."""

    block_types: list[BlockType] | None = None
    priorities: list[Priority] | None = None
    min_priority: Priority | None = None
    limit: int | None = Field(default=None, ge=0)


class PutResult(Schema):
    """What a write answers: `version` is the session's after it."""

    success: bool
    version: int
    error: str | None = None
    removed: dict[str, int] = Field(default_factory=dict)
    """What a deletion took away, counted by kind."""
    cleared: list[str] = Field(default_factory=list, exclude_if=lambda ids: not ids)
    """Ids of what else the text of deleted evidence stood in, and was taken out of."""


class ImportReport(Schema):
    """What came of an import.

    Attributes:
        messages: of the list that was handed over.
        new: those that are stored now.
        known: those that were there already.
        system: the app's own instructions, which are not stored.
        repairs: what was left out, and why, a sentence each.
        session_version: the session's after it.
    """

    messages: int
    new: int
    known: int
    system: int = 0
    repairs: list[str] = Field(default_factory=list)
    session_version: int = 0


class DeletionReport(Schema):
    """How much a deletion took away; all 0 where nothing was there any more."""

    sessions: int = 0
    messages: int = 0
    evidences: int = 0
    tool_calls: int = 0
    turns: int = 0
    settings: int = 0
    """Constraints are one setting of a project, a budget is another."""
    cleared: list[str] = Field(default_factory=list, exclude_if=lambda ids: not ids)
    """Ids of the messages, evidence, blocks, tool calls and tasks that the text of deleted evidence was
    taken out of: all of it, and each passage of 24 characters (12 of Chinese, Japanese or Korean)."""
    derived: list[str] = Field(default_factory=list, exclude_if=lambda ids: not ids)
    """Ids of the answers that may say it in other words: their model was shown it. They stay. One that is still under way has none."""
    bytes_left: str = Field(default="", exclude_if=lambda text: not text)
    """Why a server (PostgreSQL) keeps bytes of it in its files, and the cure; empty where nothing is known of any."""

    def __add__(self, other: DeletionReport) -> DeletionReport:
        names = type(self).model_fields
        return DeletionReport(
            **{name: getattr(self, name) + getattr(other, name) for name in names}
        )


class OriginalsReport(Schema):
    """What a look for the originals of a session found; ids of messages, evidence, tool calls and blocks.

    Attributes:
        there: how many are there.
        missing: what was redacted and has no original: it was redacted while none were kept, or its
            original was lost.
        without_row: originals of which nothing is recorded: a process was killed between both stores.
    """

    there: int = 0
    missing: list[str] = Field(default_factory=list)
    without_row: list[str] = Field(default_factory=list)


class RenderedBlock(Schema):
    """A block with its refs resolved into text."""

    block_id: str
    block_type: BlockType
    priority: Priority
    rendered_content: str
    token_estimate: int
    degradations: list[str] = Field(default_factory=list, exclude_if=lambda codes: not codes)
    """Codes of refs that could not be resolved."""


class MessagePart(Schema):
    """One part of an assembled input; the fields from `tool_calls` on are additive."""

    role: Role
    content: str
    tool_calls: list[ToolRequest] | None = additive()
    tool_call_id: str | None = additive()


class AssembledInput(Schema):
    """The input that is to be sent, as parts and optionally as one text."""

    parts: list[MessagePart]
    text: str | None = None
    total_tokens: int


RECALLED = ("m:", "e:")
"""How the ids of decisions begin on what relevance looked at: stored messages and evidence."""


class PruneDecision(Schema):
    """One decision; a range of messages is one block, `count` says how many it stands for.

    `action` is `kept`, `dropped` or `degraded`. `room` says of what was dropped for its size how many tokens
    were free for it.
    """

    block_id: str
    action: str
    reason: str
    token_estimate: int
    count: int = 1
    room: int | None = additive()


class RecallReport(Schema):
    """How it was looked for what of earlier messages and evidence is brought back, once something is left out.

    Attributes:
        state: `looked` (those that are nearest to the question were), `chosen_before` (a later call of a question,
            for which that was done), `no_room`, or `off` (nothing may be put into this call).
        room: tokens that were free for it.
        most: so many messages were looked at, at most, and as much evidence.
        goes_back: whether the question was seen to go back to what was said earlier; `None` where that makes no
            difference.
        credit: tokens at full price that the session's calls had saved by then, below 0 what they had cost more, which
            bounds what a talk brings back; `None` where nothing depends on it.
    """

    state: str
    room: int = 0
    most: int = 0
    goes_back: bool | None = additive()
    credit: int | None = additive()


class ConflictRecord(Schema):
    """Evidence that disagrees, and what was done about it."""

    evidence_ids: list[str]
    field_path: str
    resolution: str
    detail: str = ""


class RedactionRecord(Schema):
    """What was redacted in one piece; never content.

    `evidence_id` is a message's id where it was a message, and a tool call's where it was its arguments.
    """

    evidence_id: str
    rules_applied: list[str]
    fields_redacted: int


class LayerReport(Schema):
    """One layer's share of the input (D-07), in tokens."""

    tokens: int = 0
    truncated: bool = False
    chunks: int = 0


class SessionCost(Schema):
    """What the calls of a session cost by then, this one included, in tokens at full price.

    `untouched` is without us, and `talk` the same without the rules and evidence that an app by hand put in, where there
    are any.
    """

    sent: float
    untouched: float
    talk: float | None = additive()


class Untouched(Schema):
    """What the same call would have been without us, by our own count.

    Of an app that sends its own history it is that list (`by` is `app`). A caller by hand leaves the history
    to the engine: for it, it is the whole talk, as an app would send it that keeps it all itself (`talk`), with what it
    put in on purpose: the rules and settings that go out, and with each question the evidence recorded for it.

    Attributes:
        tokens: of the input.
        prefix: its leading tokens that equal the lane's last one; `None` on the first.
        put_in: by hand, tokens of rules, settings and evidence among them.
    """

    by: Literal["app", "talk"] = "app"
    tokens: int
    prefix: int | None = None
    put_in: int | None = additive()


class Report(HtmlRepr, Schema):
    """Everything that was decided in one turn. Numbers and refs, never content.

    `token_budget` is what the input may have (window minus reply reserve), `None` where no budget
    is known and nothing is pruned. `token_used` counts messages, tool schemas and response format.
    """

    turn_id: str
    new_evidence_ids: list[str] = Field(default_factory=list)
    new_block_ids: list[str] = Field(default_factory=list)
    prune_decisions: list[PruneDecision] = Field(default_factory=list)
    conflicts: list[ConflictRecord] = Field(default_factory=list)
    redactions: list[RedactionRecord] = Field(default_factory=list)
    token_budget: int | None = None
    token_used: int = 0
    degradations: list[str] = Field(default_factory=list)
    errors: list[str] = Field(default_factory=list)

    tokens_before: int = 0
    """What the host's own input would have cost."""
    messages_in: int = 0
    messages_sent: int = 0
    kept: int = 0
    dropped: int = 0
    shortened: int = 0
    inserted: int = 0
    restored: int = 0
    orphans_removed: int = 0
    placeholders_sent: int = 0
    """Placeholders in what was put in whose live values are not known here any more (decision 13)."""
    over_budget: bool = False
    over_budget_causes: dict[str, int] = Field(default_factory=dict)
    """The fewest parts that alone are over the budget, in tokens: `system`, `tools`, `response_format`, `injected`, `task`, `results`, `history`, `helper`."""
    rules_dropped: list[str] = Field(default_factory=list)
    """Ids of rules that did not go out, with the constraints among them (D-02)."""
    layers: dict[str, LayerReport] = Field(default_factory=dict)
    payload_tokens: dict[str, int] = Field(default_factory=dict)
    """Tokens by kind of payload (B-17), which add up to `token_used`; a kind that there is none of is left out.

    `system`, `task`, `conversation`, `agents` (what other agents said) and `tool_results` are messages; `rules`,
    `memory`, `knowledge`, `state` and `summary` are put in beside them; `tools` and `response_format` are
    schemas, and `priming` is what a chat model adds before its reply. A document inside a message is that message's.
    """
    results_saved: dict[str, int] = Field(default_factory=dict)
    """Tokens that tool results cost less than as the app sends them, by what was done to them as they arrived.

    `repeated_result`, `changed_fields`, `compact_json`, `selected_lines` (`RuntimeConfig.tool_results`); of the
    newest ones `prune_decisions` tell one by one.
    """
    stable_prefix_hash: str = ""
    stable_prefix_unchanged: bool = False
    prefix_tokens_unchanged: int | None = None
    """Leading tokens equal to the lane's last body; `None` on the lane's first body."""
    prefix_broken_by: str = ""
    """Why a part of the lane's last body does not stand there any more: `system` (the app's own system message
    changed), `cut` (it moved), `rules` (one that the owner
    set was added, changed or deleted), `brought_in` (what else was put in changed), `app` (its own list did), `tools` (their
    schemas did, which stand before all else), `pruned`, `left_out` (by hand: of what was sent before not all is sent again);
    `""` where the body only grew."""
    untouched: Untouched | None = None
    """What the call would have been without us; `None` where the app asked for its history, and nobody can say."""
    session_cost: SessionCost | None = None
    """What the session has cost by then; `None` where it is not known of any call what it would have cost without us."""
    dearer_causes: dict[str, int] = Field(default_factory=dict)
    """With `CONTEXT_DEARER`: what the session lost by cause, in input tokens at full price."""
    estimator: str = ""
    warnings: list[str] = Field(default_factory=list)
    cut: str = ""
    """`moved` in this turn, or `stands` where an earlier one made it; `""` where nothing is cut."""
    recall: RecallReport | None = None
    """How it was looked for what comes back; `None` where nothing was left out."""
    injected_evidence_ids: list[str] = Field(default_factory=list)
    quoted_message_ids: list[str] = Field(default_factory=list)
    """Ids of earlier messages that were chosen to be quoted in this turn; what stands quoted before an earlier
    question was chosen in a turn before, and may be there still (`there_already`)."""
    violations: list[str] = Field(default_factory=list)
    """Ids of the constraints that the turn's answer breaks, once a judge has looked at it (D-15)."""
    framework: str = ""
    lane: str = ""
    attempt: int = 1
    purpose: str = "chat"
    extra: dict[str, Any] = Field(default_factory=dict)


def error_parts(code: str) -> tuple[str, str]:
    """An error's code as `Report.errors` has it, without its HTTP status, and that: `InternalServerError:503`; `""` of none."""
    name, _, status = code.rpartition(":")
    return (name, status) if name and status.isdecimal() else (code, "")


def report_of(turn_id: str, report: Mapping[str, Any]) -> Report | None:
    """The report of a turn as its row has it; `None` if none was stored.

    Raises:
        SchemaValidationError: a newer release wrote it.
    """
    if "stable_prefix_hash" not in report:  # every stored report has one
        return None
    try:
        return Report.model_validate({"turn_id": turn_id, **report})
    except ValidationError as error:
        places = ", ".join(".".join(map(str, item["loc"])) for item in error.errors()[:3])
        raise SchemaValidationError(
            f"the report of turn {turn_id!r} does not fit at {places}. Use the release of "
            "ce-integrations that wrote it, or a newer one."
        ) from error


class PrepareResult(Schema):
    """What the seed's `prepare_turn` answers."""

    assembled_input: AssembledInput
    report: Report
    session_version: int | None = None


__all__ = [
    "AssembledInput",
    "BlockFilter",
    "ConflictRecord",
    "DeletionReport",
    "EvidenceFilter",
    "LayerReport",
    "MessagePart",
    "OriginalsReport",
    "PrepareResult",
    "PruneDecision",
    "PutResult",
    "RecallReport",
    "RedactionRecord",
    "Ref",
    "RenderedBlock",
    "Report",
    "Untouched",
    "report_of",
]
