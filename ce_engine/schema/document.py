"""The session document and its parts (A-01), in the JSON form that replays and moves between stores."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ce_engine.schema.enums import (
    AuthorKind,
    BlockType,
    EvidenceType,
    ModelUsageStage,
    ModelUsageStatus,
    Priority,
    ProviderKind,
    Role,
    SourceKind,
    TaskStatus,
    ToolCallStatus,
    ToolType,
)
from ce_engine.schema.html_repr import HtmlRepr


SCHEMA_VERSION = "1.1"
"""1.0 is the schema without the additive fields; `schema.migration` reads it too."""


def additive() -> Any:
    """A field beyond the original schema: it does not appear in JSON while it is `None`."""
    return Field(default=None, exclude_if=lambda value: value is None)


class Schema(BaseModel):
    """Base of the schema's types: unknown fields are refused, additive ones left out when unset."""

    model_config = ConfigDict(extra="forbid", use_enum_values=False)


class Author(Schema):
    """Who wrote a message; kept wherever several agents talk (B-16)."""

    kind: AuthorKind
    id: str


class Ref(Schema):
    """A pointer to evidence, or, with a `selector` (A-05), to a part of it.

    `cited` is true where the app itself says that its message rests on it.
    """

    evidence_id: str
    selector: str | None = None
    cited: bool | None = additive()


class ToolRequest(Schema):
    """One tool call that an assistant message asks for; `id` is the host's, which may repeat."""

    name: str
    id: str | None = None
    args: dict[str, Any] = Field(default_factory=dict)


class AttachmentRecord(Schema):
    """What is kept of a picture or a file: what it is and how large it is, never what it shows.

    `size` is in bytes. `digest` is keyed: equal for equal ones of the session, and nothing outside it.
    """

    kind: str
    format: str | None = additive()
    name: str | None = additive()
    width: int | None = additive()
    height: int | None = additive()
    size: int | None = additive()
    pages: int | None = additive()
    digest: str | None = additive()

    def label(self) -> str:
        """For people, on one line: `[image 640x480, png]`, `[file report.pdf, pdf, 3 pages]`."""
        of_image = f"{self.width}x{self.height}" if self.width and self.height else ""
        name = " ".join((self.name or "").split())
        parts = [" ".join(filter(None, (self.kind, name, of_image))), self.format or ""]
        if self.pages:
            parts.append(f"{self.pages:,} page{'s' * (self.pages > 1)}")
        elif self.size is not None and not of_image:
            parts.append(f"{self.size:,} byte{'s' * (self.size != 1)}")
        return f"[{', '.join(filter(None, parts))}]"


class Message(Schema):
    """One message. Fields from `message_id` on are additive; `seq` counts from 1 in the session."""

    role: Role
    content: str
    author: Author | None = None
    at: str | None = None
    refs: list[Ref] | None = None
    message_id: str | None = additive()
    parent_id: str | None = additive()
    seq: int | None = additive()
    tool_calls: list[ToolRequest] | None = additive()
    tool_call_id: str | None = additive()
    status: str | None = additive()
    variant_of: str | None = additive()
    replaces: str | None = additive()
    attachments: list[AttachmentRecord] | None = additive()
    """Pictures and files that went with it; set by the engine, of what the host's message has."""


class MessageIndexRange(Schema):
    """The messages that a summary stands for, both ends included."""

    from_index: int
    to_index: int


class Summary(Schema):
    """A summary of earlier messages."""

    content: str
    updated_at: str
    message_index_range: MessageIndexRange


class Task(Schema):
    """One task of a to-do list, with what it produced.

    `framework` names the framework that works through it and tells its agents of it: it is recorded, and
    not brought into prompts.
    """

    task_id: str
    name: str
    status: TaskStatus = TaskStatus.PENDING
    depends_on: list[str] = Field(default_factory=list)
    result_evidence_ids: list[str] = Field(default_factory=list)
    error: str = ""
    framework: str | None = additive()


class TodoList(Schema):
    """The tasks of a session, in order."""

    tasks: list[Task] = Field(default_factory=list)


class TaskState(Schema):
    """What a session is working on."""

    todo_list: TodoList = Field(default_factory=TodoList)


class ToolProvider(Schema):
    """Who provides a tool, and where."""

    kind: ProviderKind
    name: str = ""
    uri: str = ""


class ToolCall(Schema):
    """One run of a tool. Its id is `<message_id>:<position>` where a model asked for it, since hosts reuse ids.

    `error` is what it failed with, redacted, where no result says so.
    """

    tool_call_id: str
    tool: str
    provider: ToolProvider
    type: ToolType = ToolType.TOOL
    called_at: str = ""
    args_digest: dict[str, Any] = Field(default_factory=dict)
    status: ToolCallStatus = ToolCallStatus.SUCCESS
    duration_ms: int = 0
    result_evidence_ids: list[str] = Field(default_factory=list)
    task_id: str | None = None
    error: str | None = additive()


class ToolState(Schema):
    """The tool calls of a session, in order."""

    tool_calls: list[ToolCall] = Field(default_factory=list)


class ModelUsage(Schema):
    """What one model call used; tokens as the provider says, or `params["estimated"]` is true."""

    model_usage_id: str
    provider: str
    model: str
    stage: ModelUsageStage = ModelUsageStage.OTHER
    params: dict[str, Any] = Field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    first_token_latency_ms: int | None = None
    latency_ms: int = 0
    status: ModelUsageStatus = ModelUsageStatus.SUCCESS
    error: str = ""
    task_id: str | None = None


class Session(Schema):
    """One log of one user: messages, summary, tasks, tool calls, usage."""

    session_id: str = Field(min_length=1)
    messages: list[Message] = Field(default_factory=list)
    summary: Summary | None = None
    task_state: TaskState = Field(default_factory=TaskState)
    tool_state: ToolState = Field(default_factory=ToolState)
    model_usage: list[ModelUsage] = Field(default_factory=list)


class EvidenceSource(Schema):
    """Where evidence came from."""

    kind: SourceKind
    name: str = ""
    uri: str = ""


class EvidenceLinks(Schema):
    """The call that made a piece of evidence (A-03)."""

    model_usage_id: str | None = None
    tool_call_id: str | None = None


class Evidence(Schema):
    """A piece of content an answer may rest on; `metadata` keys: created_at, tags, sensitivity, links, ..."""

    evidence_id: str
    type: EvidenceType
    source: EvidenceSource
    content: str = ""
    confidence: float | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    links: EvidenceLinks = Field(default_factory=EvidenceLinks)


PAYLOAD = EvidenceSource(kind=SourceKind.SYSTEM, name="event payload")
"""Of what an event refers to, because it is too large for a log (B-02)."""


def may_be_found(evidence: Evidence) -> bool:
    """Whether relevance may bring it in: what a model said stands in its message, a payload is its event's."""
    return evidence.type is not EvidenceType.LLM_OUTPUT and evidence.source != PAYLOAD


class ContextBlock(Schema):
    """A candidate for the model's input; `token_estimate` in tokens.

    `mac` is the engine's, of an instruction that it stored: with another, or none, it is quoted.
    """

    block_id: str
    block_type: BlockType
    priority: Priority
    token_estimate: int = 0
    content: str = ""
    refs: list[Ref] = Field(default_factory=list)
    created_at: str | None = additive()
    sensitivity: str | None = additive()
    mac: str | None = additive()


class AgentInfo(Schema):
    """The agent that acts."""

    agent_id: str
    name: str = ""
    version: str = ""


class Actor(Schema):
    """Who acts: a user, through an agent."""

    user_id: str = ""
    user_role: str = ""
    agent: AgentInfo | None = None


class Meta(Schema):
    """When a document was made and changed, and by whom."""

    locale: str = ""
    created_at: str = ""
    updated_at: str = ""
    actor: Actor | None = None


class SessionDocument(HtmlRepr, Schema):
    """Everything of one session, as JSON: what `ce show --json` prints and what moves between stores."""

    schema_version: str = SCHEMA_VERSION
    session: Session
    evidences: dict[str, Evidence] = Field(default_factory=dict)
    context_blocks: list[ContextBlock] = Field(default_factory=list)
    meta: Meta | None = None


def shape_problems(document: SessionDocument, *, remote_refs: bool) -> list[str]:
    """What breaks the invariants of keys, ids and refs; selectors are not looked at (A-02)."""
    problems = [
        f"evidence key {key!r} is not its evidence_id {item.evidence_id!r}"
        for key, item in document.evidences.items()
        if key != item.evidence_id
    ]
    seen: set[str] = set()
    for block in document.context_blocks:
        if block.block_id in seen:
            problems.append(f"block_id {block.block_id!r} is not unique")
        seen.add(block.block_id)
    if not remote_refs:
        problems += [
            f"{place} refers to evidence {ref.evidence_id!r}, which is not in the document"
            for place, ref in refs_of(document)
            if ref.evidence_id not in document.evidences
        ]
    return problems


def refs_of(document: SessionDocument) -> list[tuple[str, Ref]]:
    """All refs of a document, each with the place where it stands."""
    refs = [
        (f"message {index}", ref)
        for index, message in enumerate(document.session.messages)
        for ref in message.refs or ()
    ]
    refs += [
        (f"block {block.block_id!r}", ref)
        for block in document.context_blocks
        for ref in block.refs
    ]
    return refs
