"""What one invocation brought so far, for all of its model calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from sys import getsizeof


DOCUMENT_BYTES = 100
"""What a document costs beside its text."""


@dataclass(slots=True)
class RequestMemory:
    """Evidence, and (evidence id, live text) of documents, best first.

    `bytes` is what the documents cost beside what is stored of them.
    """

    evidence_ids: list[str] = field(default_factory=list)
    documents: list[tuple[str, str]] = field(default_factory=list)
    bytes: int = 0

    def add_document(self, evidence_id: str, live: str, stored_text: str) -> None:
        """Keep what a document says; most say what is stored, and that is kept once."""
        self.documents.append((evidence_id, stored_text if stored_text == live else live))
        self.bytes += DOCUMENT_BYTES + (0 if stored_text == live else getsizeof(live))
