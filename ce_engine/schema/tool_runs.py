"""What a host reports beside its model calls: runs of tools, retrievals, and evidence of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ce_engine.errors import SchemaValidationError
from ce_engine.schema.enums import ProviderKind, TaskStatus, ToolCallStatus, ToolType


@dataclass(slots=True)
class ToolRun:
    """A tool that ran. Live content: it is redacted before anything is stored.

    Attributes:
        run_id: the framework's id of this run, unique; the engine gives one to a run that has none.
        host_call_id: the id of the call that the model asked for, which may repeat; `None` where
            the host ran the tool by itself.
        type: what kind of tool it is (A-29); `None` is a `function_call` where a model asked for it,
            else a `tool`. What a `skill` gives is evidence of its own type, `skill_output`. Who
            provides it, an MCP server or another, is `provider_kind`'s to say.
        pure: equal arguments always give an equal result, which is then stored once (A-09).
        status: how it ended; `error_code` is a short stable word, never an exception's text.
        error: what it failed with, in words, where it gave no result.
        started_at: UTC, ISO 8601 with `Z`.
        media: digests of what it gave beside text, as in `HostMessage`: they are part of the result.
    """

    name: str
    args: Mapping[str, Any] | str
    result: str
    run_id: str = ""
    host_call_id: str | None = None
    status: ToolCallStatus = ToolCallStatus.SUCCESS
    started_at: str = ""
    duration_ms: int = 0
    provider_kind: ProviderKind = ProviderKind.BUILTIN
    provider_name: str = ""
    provider_uri: str = ""
    error_code: str = ""
    task_id: str | None = None
    pure: bool = False
    media: Sequence[str] = ()
    error: str = ""
    type: ToolType | None = None

    @classmethod
    def from_mcp(
        cls, name: str, args: Mapping[str, Any], result: Any, *, server: str, uri: str, **more: Any
    ) -> Self:
        """The run of an MCP tool.

        Args:
            name: the tool's, on its server.
            args: what it was called with.
            result: the server's answer: the SDK's `CallToolResult`, or the same as plain JSON.
            server: the server's name.
            uri: where it is, for example `mcp://orders`.
            more: further fields of the run.
        """
        plain = result if isinstance(result, Mapping) else result.model_dump(by_alias=True)
        failed = bool(plain.get("isError"))
        return cls(
            name,
            args,
            _mcp_text(plain),
            status=ToolCallStatus.ERROR if failed else ToolCallStatus.SUCCESS,
            provider_kind=ProviderKind.MCP,
            provider_name=server,
            provider_uri=uri,
            **more,
        )


def _mcp_text(result: Mapping[str, Any]) -> str:
    """What a result says; of what is no text, its kind, its place and its size."""
    parts = []
    for part in result.get("content") or ():
        resource = part.get("resource") or part
        text = resource.get("text")
        if text is None:
            size = len(resource.get("data") or resource.get("blob") or "") * 3 // 4
            details = [part.get("type"), resource.get("mimeType"), resource.get("uri")]
            label = " ".join(str(item) for item in details if item)
            text = f"[{label}, {size} bytes]" if size else f"[{label}]"
        parts.append(text)
    if not parts and result.get("structuredContent") is not None:
        return json.dumps(result["structuredContent"], ensure_ascii=False, default=str)
    return "\n".join(parts)


@dataclass(slots=True)
class TaskRun:
    """Where a task of the framework's own stands. Live content: it is redacted before anything is stored.

    Attributes:
        task_id: names it in its session; what is told of it later replaces what was told before.
        depends_on: the ids of the tasks that it waits for.
        result: what it gave.
        error: what it failed with, in words.
    """

    task_id: str
    name: str
    status: TaskStatus = TaskStatus.PENDING
    depends_on: Sequence[str] = ()
    result: str = ""
    error: str = ""

    @property
    def texts(self) -> tuple[Any, ...]:
        """What may be long."""
        return self.name, self.result, self.error


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
    """A retriever that ran, with its hits, best first. Recorded as a tool call and `rag_doc` evidence (A-29).

    `score_kind` says what the scores are: `similarity` (0..1), `cosine`, `cosine_distance`,
    `distance`, `bm25` or `logit`. Without it a number in 0..1 is taken for a similarity.
    """

    name: str
    query: str
    documents: Sequence[RetrievedDoc]
    run_id: str = ""
    started_at: str = ""
    duration_ms: int = 0
    provider_kind: ProviderKind = ProviderKind.BUILTIN
    provider_name: str = ""
    provider_uri: str = ""
    score_kind: str = ""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How one piece of evidence is taken in (A-09).

    Attributes:
        redact: false only where the whole engine's redaction is off: nothing unredacted is stored.
        dedup: false stores it in any case.
        confidence: in 0..1; `None` leaves it to the rules of `upload.confidence`.
        pure_args: the arguments of the tool whose result it is, if equal arguments always give an
            equal result: it is then recognised by them, and not by its content.
    """

    redact: bool = True
    dedup: bool = True
    confidence: float | None = None
    pure_args: Mapping[str, Any] | str | None = None

    def __post_init__(self) -> None:
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise SchemaValidationError(
                f"confidence is {self.confidence}; expected a number in 0..1. For a retriever's own "
                'score put it into metadata: {"score": ..., "score_kind": "bm25"}'
            )


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


_SHORTER = {"chars", "input", "withheld"}
"""Fields of arguments of which only how long they were, or their beginning, is stored."""


def are_whole(args: Mapping[str, Any]) -> bool:
    """Whether stored arguments are all that a call had."""
    return "chars" not in args or not args.keys() <= _SHORTER
