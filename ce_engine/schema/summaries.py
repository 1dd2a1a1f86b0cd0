"""A stored summary with the messages that it stands for, and the write that keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ce_engine.schema.document import Summary


@dataclass(slots=True)
class SummaryRow:
    """A summary, with the messages that it stands for (A-16).

    A message is covered if it stands before one of `tips` on its path, is one, or is a tool result
    under such a one. A session has a summary for each of its lines of conversation.

    Attributes:
        anchor_message_id: the newest message that is covered; names the row.
        summary: redacted text, and the first and last index of what is covered in the session's list.
        tips: the last covered message of each lane.
        tokens: of the text, counted by `counted_by`.
        evidence_id: the `llm_output` that it was made of.
    """

    anchor_message_id: str
    summary: Summary
    tips: list[str]
    lane_key: str = ""
    tokens: int = 0
    counted_by: str = ""
    evidence_id: str = ""
    redactor_version: str = ""


@dataclass(slots=True)
class PutSummary:
    """Upsert by `anchor_message_id`; the summaries at `replaces`, which it includes, go.

    `epoch` is the session's when the messages were read that it stands for.

    Raises:
        SessionNotFoundError: the session has another epoch: some of them were deleted or replaced.
    """

    row: SummaryRow
    epoch: int
    replaces: Sequence[str] = ()
