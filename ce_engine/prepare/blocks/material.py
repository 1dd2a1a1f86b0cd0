"""Context that is put in beside the messages of the line: constraints, settings, facts, tasks, a summary (E-01)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ce_engine.schema.degradation import Degradation
from ce_engine.schema.document import ContextBlock, Evidence, Ref
from ce_engine.schema.enums import BlockType, Layer, Priority


RULES, NOTED = "framework__context", "noted__context"
"""Rules that the owner stored, and those that a program, a source or a text gave."""

LAYERS = {
    RULES: Layer.RULES,
    "experience__context": Layer.SETTINGS,
    "knowledge__context": Layer.RETRIEVED,
    "todo__context": Layer.IMMEDIATE,
    "compression__context": Layer.IMMEDIATE,
}
"""The layer of each section (D-01, E-02)."""

CONTEXTS = {RULES: Layer.RULES, NOTED: Layer.RULES, **LAYERS}
"""The layer of each context as it goes out."""

SECTION_OF = {
    BlockType.INSTRUCTION: "framework__context",
    BlockType.MEMORY: "experience__context",
    BlockType.EVIDENCE: "knowledge__context",
    BlockType.STATE: "todo__context",
    BlockType.PLAN: "todo__context",
    BlockType.CONVERSATION: "compression__context",
}
"""Where a context block goes, by its type."""

_KINDS = {section: kind for kind, section in reversed(SECTION_OF.items())}


@dataclass(frozen=True, slots=True)
class Material:
    """One piece of context, whatever its source.

    Attributes:
        id: the block's id in decisions and reports.
        section: a key of `LAYERS`.
        text: as it may go out; rendered, in one or more lines.
        source: where it is from, a word: `constraints`, `tasks`, or the name of a source.
        priority: what goes first inside its section (A-17).
        score: confidence (settings) or similarity (facts) in 0..1, best kept longest; `None` is unknown.
        at: when it was made, UTC, ISO 8601.
        evidence_id: the evidence that it renders, `""` if none.
        owned: a rule that the owner stored on purpose; of what is brought in, only these may stand in
            the system's message.
        kind: of the block that it was; if not given, as its section has it.
        sensitivity: a word of the app's own; the configuration says which do not go out (A-11).
        is_fetched: whether a source of the host's gave it.
    """

    id: str
    section: str
    text: str
    source: str
    priority: Priority = Priority.MEDIUM
    score: float | None = None
    at: str = ""
    evidence_id: str = ""
    owned: bool = False
    kind: BlockType | None = None
    sensitivity: str | None = None
    is_fetched: bool = False

    @property
    def context(self) -> str:
        """The key of the context that it goes out in: rules that nobody stored on purpose are data."""
        return self.section if self.owned or self.section != RULES else NOTED


def block_of(material: Material, tokens: int) -> ContextBlock:
    """The material as a block, as pruners see it."""
    return ContextBlock(
        block_id=material.id,
        block_type=material.kind or _KINDS[material.section],
        priority=material.priority,
        token_estimate=tokens,
        content=material.text,
        refs=[Ref(evidence_id=material.evidence_id)] if material.evidence_id else [],
        created_at=material.at or None,
        sensitivity=material.sensitivity,
    )


def sensitivity_of(evidence: Evidence) -> str | None:
    """How sensitive evidence is, if somebody said so (`metadata["sensitivity"]`)."""
    sensitivity = evidence.metadata.get("sensitivity")
    return sensitivity if isinstance(sensitivity, str) else None


@dataclass(slots=True)
class CollectedContext:
    """What was collected for one call, with codes of what was not to be had (D-09).

    `left_out` is beyond what may be collected (D-11), best first.
    """

    materials: Sequence[Material] = ()
    warnings: list[str] = field(default_factory=list)
    degradations: list[Degradation] = field(default_factory=list)
    left_out: Sequence[Material] = ()
