"""How far evidence is to be trusted, by rule, where nobody said (A-09)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from numbers import Real
from typing import Any

from ce_engine.ports.evidence import EvidenceDraft, EvidenceIngestor
from ce_engine.schema.document import EvidenceSource
from ce_engine.schema.enums import EvidenceType, SourceKind, ToolCallStatus


BM25_HALF = 10.0
"""The BM25 score that counts as half sure: such scores have no upper end."""

SCORES: Mapping[str, Callable[[float], float | None]] = {
    "": lambda score: score if 0 <= score <= 1 else None,
    "similarity": lambda score: score if 0 <= score <= 1 else None,
    "cosine": lambda score: (1 + score) / 2 if -1 <= score <= 1 else None,
    "cosine_distance": lambda score: 1 - score / 2 if 0 <= score <= 2 else None,
    "distance": lambda score: 1 / (1 + score) if score >= 0 else None,
    "bm25": lambda score: score / (score + BM25_HALF) if score >= 0 else None,
    "logit": lambda score: 1 / (1 + math.exp(-max(-700.0, score))),
}
"""A retriever's score as confidence in 0..1, by the kind of score; `None` outside the kind's range.

Without a kind only what can be a similarity is taken for one: the best hit of a distance is the
smallest number. `distance` is any that begins at 0 (Euclidean), `logit` is a reranker's.
"""

SOURCES: Mapping[SourceKind, float | None] = {
    SourceKind.SYSTEM: 1.0,
    SourceKind.TOOL: 0.9,
    SourceKind.SKILL: 0.8,
    SourceKind.USER: 0.7,
    SourceKind.LLM: 0.5,
    SourceKind.RAG: None,
}
"""By what kind of thing said it; a retrieved text is as good as its score says, and unknown without."""

FAILED = 0.1
"""What a tool said when it failed tells of the tool, and little of the world."""


def from_score(score: object, kind: str = "") -> float | None:
    """A retriever's score as confidence; `None` where it is no number of a known kind, or out of range."""
    rule = SCORES.get(kind)
    if rule is None or isinstance(score, bool) or not isinstance(score, Real):
        return None
    try:
        number = float(score)  # of numpy, too
    except OverflowError:
        return None
    return rule(number) if math.isfinite(number) else None


class RuleIngestor:
    """The default `EvidenceIngestor`: evidence as it came, with a confidence by rule where nobody said one."""

    def ingest(self, draft: EvidenceDraft) -> EvidenceDraft:
        """See `ports_ingest.EvidenceIngestor`."""
        if draft.confidence is not None:
            return draft
        kind = str(draft.metadata.get("score_kind", ""))
        score = draft.metadata.get("score")
        confidence = by_rule(draft.source.kind, status=draft.status, score=score, of=kind)
        return replace(draft, confidence=confidence)


def ingest_draft(draft: EvidenceDraft, ingestor: EvidenceIngestor) -> tuple[EvidenceDraft, bool]:
    """What the ingestor makes of a draft, or where it fails the default; and whether it failed."""
    with suppress(Exception):  # one of somebody else's may raise anything
        result = ingestor.ingest(draft)
        if _is_draft(result):
            return result, False
    return RuleIngestor().ingest(draft), True


def _is_draft(result: object) -> bool:
    """Whether it can be stored: whatever its annotations say, it may be somebody else's."""
    if not isinstance(result, EvidenceDraft):
        return False
    draft: Any = result
    return (
        isinstance(draft.content, str)
        and isinstance(draft.source, EvidenceSource)
        and isinstance(draft.type, EvidenceType)
        and isinstance(draft.metadata, Mapping)
        and (draft.confidence is None or 0 <= draft.confidence <= 1)
    )


def by_rule(
    kind: SourceKind, *, status: ToolCallStatus | str = "", score: object = None, of: str = ""
) -> float | None:
    """The confidence of evidence from a source.

    Args:
        kind: what kind of thing said it.
        status: how the tool that said it ended; `""` where nobody said.
        score: what a retriever gave it, if anything.
        of: the kind of that score, a key of `SCORES`.
    """
    if status and status != ToolCallStatus.SUCCESS:
        return FAILED
    return SOURCES[kind] if score is None else from_score(score, of)
