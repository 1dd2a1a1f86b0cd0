"""The interface of what takes evidence in; these docstrings are the specification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ce_engine.schema.document import EvidenceSource
from ce_engine.schema.enums import EvidenceType


@dataclass(frozen=True, slots=True)
class EvidenceDraft:
    """A piece of evidence before it is redacted and stored. Live content: keep none of it.

    Attributes:
        content: what it says. Of a message of the session its own content is stored, whatever is given
            here.
        source: where it is from.
        type: what it is.
        metadata: what else is known: `score` and `score_kind` of a retriever, doc_version, tags, ...
        status: how the tool ended that said it; `""` where nobody told.
        confidence: in 0..1, `None` where nobody knows.
    """

    content: str
    source: EvidenceSource
    type: EvidenceType
    metadata: Mapping[str, Any] = field(default_factory=dict)
    status: str = ""
    confidence: float | None = None


class EvidenceIngestor(Protocol):
    """Says what is stored of a piece of evidence, and how far it is to be trusted (A-09).

    Redaction comes after it, and so nothing that it adds is stored unredacted. What is stored already
    is recognised by the content that came, before it.
    """

    def ingest(self, draft: EvidenceDraft) -> EvidenceDraft:
        """The draft as it is to be stored: usually `dataclasses.replace(draft, ...)`.

        Synchronous, fast and without I/O; called on the engine's threads, for several sessions at once.
        Where it raises, or gives what is no draft, the default does its work, and the report's
        `degradations` have `CONTEXT_INGEST_FAILED`.
        """
        ...
