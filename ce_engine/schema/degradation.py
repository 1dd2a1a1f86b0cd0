"""What went on with less than it should have had: its stable code, and the event that tells it (A-25)."""

from __future__ import annotations

from dataclasses import dataclass

from ce_engine.errors import (
    BackpressureError,
    BudgetExceededError,
    EmbedderError,
    EvidenceNotFoundError,
    InputTooLargeError,
    JudgeError,
    RedactionError,
    ScopeViolationError,
    SelectorResolveError,
    SettingForgedError,
    StoreUnavailableError,
    SummarizerError,
    VersionConflictError,
)
from ce_engine.schema.events import EventType


DEDUP_SKIPPED = "CONTEXT_DEDUP_SKIPPED"
INGEST_FAILED = "CONTEXT_INGEST_FAILED"
DERIVE_FAILED = "CONTEXT_DERIVE_FAILED"
RENDER_FAILED = "CONTEXT_RENDER_FAILED"
PRUNE_FAILED = "CONTEXT_PRUNE_FAILED"
RECORDING_GAP = "CONTEXT_RECORDING_GAP"
REDACTION_LIMIT = "CONTEXT_REDACTION_LIMIT"
"""A text was too long to be redacted, or took too long: it is stored without content."""

SETTING_UNVERIFIED = "CONTEXT_SETTING_UNVERIFIED"
"""What an owner set has no MACs: an older release wrote it, or somebody took them away."""

BLOCK_UNVERIFIED = "CONTEXT_BLOCK_UNVERIFIED"
"""An instruction that is stored with the session has no MAC of ours: it was quoted."""

MESSAGE_UNMAPPED = "CONTEXT_MESSAGE_UNMAPPED"
"""An adapter could not read a message of the app's: it went out as it is, and is recorded without content."""

REASONS = {
    RedactionError.code: "redaction_failed",
    REDACTION_LIMIT: "redaction_limit",
    DEDUP_SKIPPED: "dedup_skipped",
    INGEST_FAILED: "ingest_failed",
    DERIVE_FAILED: "derive_failed",
    RENDER_FAILED: "render_failed",
    PRUNE_FAILED: "prune_failed",
    SelectorResolveError.code: "selector_resolve_failed",
    EvidenceNotFoundError.code: "evidence_not_found",
    SummarizerError.code: "summarize_failed",
    JudgeError.code: "judge_failed",
    EmbedderError.code: "embed_failed",
    StoreUnavailableError.code: "store_unavailable",
    RECORDING_GAP: "recording_gap",
    VersionConflictError.code: "version_conflict",
    BudgetExceededError.code: "must_exceeded_budget",
    BackpressureError.code: "backpressure",
    InputTooLargeError.code: "input_too_large",
    ScopeViolationError.code: "scope_violation",
    SettingForgedError.code: "setting_forged",
    SETTING_UNVERIFIED: "setting_unverified",
    BLOCK_UNVERIFIED: "block_unverified",
    MESSAGE_UNMAPPED: "message_unmapped",
    "CONTEXT_SOURCE_UNAVAILABLE": "source_unavailable",
    "CONTEXT_SOURCE_MALFORMED": "source_malformed",
}
"""The `reason` in the event's payload, for each code in `Report.degradations`."""

_ERRORS = frozenset({DERIVE_FAILED, VersionConflictError.code, BudgetExceededError.code})


@dataclass(frozen=True, slots=True)
class Degradation:
    """One thing that was to be had only in part; `of` is the id of the block or evidence, if any."""

    code: str
    of: str = ""

    @property
    def event_type(self) -> EventType:
        """`Error` where the table of A-25 says so: what was skipped whole or stood against us; else `Degraded`."""
        return EventType.ERROR if self.code in _ERRORS else EventType.DEGRADED

    @property
    def payload(self) -> dict[str, str]:
        """What the event says: the code, the reason in one word, and what it is about."""
        payload = {"code": self.code, "reason": REASONS.get(self.code, "other")}
        return {**payload, "of": self.of} if self.of else payload
