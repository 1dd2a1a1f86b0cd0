"""Makes the row of a piece of evidence: what the ingestor says, redacted, with what recognises it if it is withheld."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ce_engine.config import ContentKind
from ce_engine.ports.evidence import EvidenceDraft
from ce_engine.schema.degradation import INGEST_FAILED
from ce_engine.schema.document import Evidence, EvidenceLinks, EvidenceSource
from ce_engine.schema.enums import EvidenceType, SourceKind
from ce_engine.schema.rows import EvidenceRow
from ce_engine.text.redaction.limits import GIVEN_UP
from ce_engine.text.redaction.pieces import RedactionTally
from ce_engine.turns.record.confidence import ingest_draft
from ce_engine.turns.record.persistence_boundary import MAX_URI_CHARS, Ingest


def evidence_row(
    ingest: Ingest,
    draft: EvidenceDraft,
    *,
    links: EvidenceLinks,
    clean: Mapping[str, str | None] | None = None,
    message_id: str | None = None,
    broken_off: bool = False,
    is_stored: bool = False,
) -> EvidenceRow:
    """A piece of evidence as a row; with `message_id` the content is that message's.

    `clean` is metadata that needs no redaction: ids of our own, and what `name` gave. What recognises
    it (`dedup_key`) is the caller's to set. The content may be redacted already (`is_stored`).
    """
    draft, failed = ingest_draft(draft, ingest.ingestor)
    ingest.degraded += [INGEST_FAILED] if failed else []
    own, metadata = draft.content if message_id is None else "", draft.metadata
    piece = RedactionTally(ingest.ids.generate())
    kind, is_apart = _kind(draft.type), ingest.is_apart(metadata.get("sensitivity"))
    redacted, withheld = ingest.content(
        own, piece, kind=kind, is_apart=is_apart, broken_off=broken_off, is_stored=is_stored
    )
    stored_metadata = {**(_metadata(ingest, metadata, piece) if metadata else {}), **(clean or {})}
    stored_metadata["created_at"] = ingest.clock.now_iso()
    stored_metadata |= {"has_sensitive": True} if redacted.has_sensitive else {}
    if withheld:  # what recognises it, and how much it was
        mac = ingest.fingerprinter.mac("content", own).hex()
        stored_metadata |= {"withheld": True, "length": len(own), "content_mac": mac}
    ingest.note_piece(piece, own, {"metadata": dict(metadata)} if metadata else None)
    evidence = Evidence(
        evidence_id=piece.id,
        type=draft.type,
        source=_source(ingest, draft.source),
        content=redacted.text,
        confidence=draft.confidence,
        metadata=stored_metadata,
        links=links,
    )
    return EvidenceRow(
        evidence=evidence,
        message_id=message_id,
        project_id=ingest.scope.project_id,
        redactor_version=ingest.redactor_version,
    )


def _kind(of: EvidenceType) -> ContentKind:
    if of is EvidenceType.TOOL_RESULT:
        return "tool_results"
    return "messages" if of is EvidenceType.LLM_OUTPUT else "evidence"


def _metadata(ingest: Ingest, metadata: Mapping[str, Any], piece: RedactionTally) -> dict[str, Any]:
    """Metadata as it may be stored; `withheld` is said of the content alone."""
    stored_metadata = dict(ingest.data(dict(metadata), piece, "metadata") or {})
    if ingest.points_only("metadata"):
        piece.pointed = True
        sensitivity = (
            {"sensitivity": stored_metadata["sensitivity"]}
            if "sensitivity" in stored_metadata
            else {}
        )
        return {
            "metadata_withheld": True,
            "metadata_chars": len(json.dumps(stored_metadata)),
            **sensitivity,
        }
    if GIVEN_UP in piece.rules and stored_metadata.keys() == {"withheld", "chars"}:
        return {"metadata_withheld": True, "metadata_chars": stored_metadata["chars"]}
    return stored_metadata


def _source(ingest: Ingest, live: EvidenceSource) -> EvidenceSource:
    uri = ingest.address(live.uri, MAX_URI_CHARS)
    of_app = live.kind in _OF_APP
    name = ingest.name(live.name) if of_app else ingest.address(live.name)
    return EvidenceSource(kind=live.kind, name=name, uri=uri)


_OF_APP = frozenset({SourceKind.TOOL, SourceKind.SKILL, SourceKind.LLM, SourceKind.SYSTEM})
"""Sources whose names the app chose."""
