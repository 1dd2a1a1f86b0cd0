"""What a host reports beside its model calls: runs of tools and retrievals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ce_engine.schema.enums import ProviderKind, ToolCallStatus


@dataclass(slots=True)
class ToolRun:
    """A tool that ran. Live content: it is redacted before anything is stored.

    Attributes:
        run_id: the framework's id of this run, unique.
        host_call_id: the id of the call that the model asked for, which may repeat; `None` where
            the host ran the tool by itself.
        status: how it ended; `error_code` is a short stable word, never an exception's text.
        started_at: UTC, ISO 8601 with `Z`.
    """

    name: str
    args: Mapping[str, Any] | str
    result: str
    run_id: str
    host_call_id: str | None = None
    status: ToolCallStatus = ToolCallStatus.SUCCESS
    started_at: str = ""
    duration_ms: int = 0
    provider_kind: ProviderKind = ProviderKind.BUILTIN
    provider_name: str = ""
    provider_uri: str = ""
    error_code: str = ""
    task_id: str | None = None


@dataclass(slots=True)
class RetrievedDoc:
    """A hit. `metadata` may hold doc_version, effective_at, domain, tags; `score` as the retriever gave it."""

    text: str
    uri: str = ""
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""


@dataclass(slots=True)
class Retrieval:
    """A retriever that ran, with its hits, best first. Recorded as a tool call and `rag_doc` evidence (A-29)."""

    name: str
    query: str
    documents: Sequence[RetrievedDoc]
    run_id: str
    started_at: str = ""
    duration_ms: int = 0
    provider_kind: ProviderKind = ProviderKind.BUILTIN
    provider_name: str = ""
    provider_uri: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Original:
    """What a piece was before redaction (A-19). It does not show itself in logs.

    Attributes:
        id: of the message, the evidence, or the tool call.
        content: its text.
        data: what else it has: `{"args": ...}` or `{"metadata": ...}`.
    """

    id: str
    content: str
    data: Any = None
