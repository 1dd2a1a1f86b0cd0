"""Small, complete rows and events for tests of stores."""

from __future__ import annotations

from typing import Any

from ce_engine.schema.document import (
    AttachmentRecord,
    Author,
    ContextBlock,
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    Message,
    MessageIndexRange,
    Meta,
    ModelUsage,
    Ref,
    Session,
    SessionDocument,
    Summary,
    Task,
    TaskState,
    TodoList,
    ToolCall,
    ToolProvider,
    ToolRequest,
    ToolState,
)
from ce_engine.schema.enums import (
    AuthorKind,
    BlockType,
    EvidenceType,
    Origin,
    Priority,
    ProviderKind,
    Role,
    SourceKind,
    TurnStatus,
)
from ce_engine.schema.event_chain import payload_mac
from ce_engine.schema.events import Event
from ce_engine.schema.rows import (
    AppendMessages,
    EvidenceRow,
    MessageRow,
    SummaryRow,
    TurnRow,
    Write,
)
from ce_engine.schema.scope import Scope


SCOPE = Scope(session_id="s", user_id="u", account_id="a")
AT = "2026-01-02T03:04:05.678Z"
ATTACHMENTS = (
    AttachmentRecord(kind="file", format="pdf", name="报告.pdf", size=9, pages=3, digest="d"),
    AttachmentRecord(kind="image", width=640, height=480),
)


def message_row(name: str, content: str = "你好 👋", **fields: Any) -> MessageRow:
    """A user's message with every field of its row set."""
    message = Message(
        role=Role.USER,
        content=content,
        author=Author(kind=AuthorKind.USER, id="小明"),
        at=AT,
        refs=[Ref(evidence_id="e1", selector="lines:1-2")],
        message_id=name,
        parent_id="before",
        tool_calls=[ToolRequest(name="lookup", id="call_0", args={"q": ["数", 1.5, None]})],
        tool_call_id="call_1",
        status="incomplete",
        variant_of="v",
        replaces="r",
        attachments=[attachment.model_copy() for attachment in ATTACHMENTS],
    )
    values: dict[str, Any] = {
        "key": b"k" * 16,
        "loose_key": b"\x00\xff" * 8,
        "origin": Origin.TASK.value,
        "speaker": "小明",
        "lane_key": "lane",
        "turn_id": "t1",
        "request_id": "r1",
        "host_id": b"h" * 16,
        "aside": True,
        "tokens": 7,
        "counted_by": "chars",
        "length": len(content),
        "framework": "acme",
        "has_sensitive": True,
        "withheld": True,
        "redactor_version": "1",
        "late": True,
    }
    return MessageRow(message, **{**values, **fields})


def bare_row(name: str, content: str = "hello") -> MessageRow:
    """A message with nothing set that need not be."""
    message = Message(role=Role.ASSISTANT, content=content, message_id=name)
    return MessageRow(message, key=b"", loose_key=b"", origin=Origin.ANSWER.value)


def message(name: str) -> list[Write]:
    """The write that appends one bare message."""
    return [AppendMessages([bare_row(name)])]


def evidence(name: str, content: str = "a fact", **fields: Any) -> Evidence:
    """A tool's result."""
    values: dict[str, Any] = {
        "type": EvidenceType.TOOL_RESULT,
        "source": EvidenceSource(kind=SourceKind.TOOL, name="lookup", uri="tool://lookup"),
        "confidence": 0.5,
        "metadata": {"created_at": AT, "tags": {"lang": "zh"}},
        "links": EvidenceLinks(tool_call_id="c1"),
    }
    return Evidence(evidence_id=name, content=content, **{**values, **fields})


def evidence_row(name: str, content: str = "a fact", **fields: Any) -> EvidenceRow:
    """Evidence with every field of its row set but `message_id`."""
    values: dict[str, Any] = {
        "dedup_key": b"d" * 16,
        "tokens": 3,
        "turn_id": "t1",
        "lane_key": "lane",
        "project_id": "p",
        "shared": True,
        "redactor_version": "1",
    }
    return EvidenceRow(evidence(name, content), **{**values, **fields})


def tool_call(name: str, **fields: Any) -> ToolCall:
    """A tool's run."""
    values: dict[str, Any] = {
        "tool": "lookup",
        "provider": ToolProvider(kind=ProviderKind.MCP, name="n", uri="u"),
        "called_at": AT,
        "args_digest": {"q": "数"},
    }
    return ToolCall(tool_call_id=name, **{**values, **fields})


def turn(name: str, **fields: Any) -> TurnRow:
    """A turn with every field set."""
    values: dict[str, Any] = {
        "request_id": "r1",
        "lane": "lane",
        "status": TurnStatus.OPEN,
        "purpose": "helper",
        "framework": "acme",
        "parent_turn_id": "p",
        "attempt": 2,
        "opened_at": AT,
        "closed_at": AT,
        "owner": "host:1:2",
        "tip_message_id": "m1",
        "answer_message_id": "m2",
        "model_usage_id": "u1",
        "attempts": [{"status": "failed", "error": "E"}],
        "report": {"kept": 3, "layers": {"rules": {"tokens": 5}}},
    }
    return TurnRow(name, **{**values, **fields})


def event(name: str, scope: Scope = SCOPE, **fields: Any) -> Event:
    """A stored event with its payload's MAC."""
    values: dict[str, Any] = {
        "session_id": scope.session_id,
        "user_id": scope.user_id,
        "account_id": scope.account_id,
        "turn_id": "t1",
        "tool_call_id": "c1",
        "ts": AT,
        "tags": {"framework": "acme"},
        "payload": {"message_id": "m1", "名": [1, {"x": None}]},
        "kind": "user_input",
        "request_id": "r1",
        "redacted": True,
        "token_estimate": 4,
        "meta": {"model": "m"},
        "nonce": "n",
    }
    sample_event = Event(event_type="MessageAppended", event_id=name, **{**values, **fields})
    sample_event.payload_mac = payload_mac(sample_event, b"key")
    return sample_event


def block(name: str, **fields: Any) -> ContextBlock:
    """A context block."""
    values: dict[str, Any] = {
        "block_type": BlockType.EVIDENCE,
        "priority": Priority.MEDIUM,
        "token_estimate": 5,
        "content": "文",
        "refs": [Ref(evidence_id="e1")],
        "created_at": AT,
    }
    return ContextBlock(block_id=name, **{**values, **fields})


def summary(name: str, content: str = "要点", to_index: int = 1, **fields: Any) -> SummaryRow:
    """A summary of the session's messages up to the one of this name."""
    covered = MessageIndexRange(from_index=0, to_index=to_index)
    values: dict[str, Any] = {"tips": [name], "lane_key": "l", "tokens": 2, "evidence_id": "e9"}
    return SummaryRow(
        name,
        Summary(content=content, updated_at=AT, message_index_range=covered),
        **{**values, **fields},
    )


def document(session_id: str = SCOPE.session_id) -> SessionDocument:
    """A session document with something in every part."""
    row = message_row("m1")
    first = row.message.model_copy(update={"seq": 3})
    second = bare_row("m2").message.model_copy(update={"seq": 5})
    return SessionDocument(
        session=Session(
            session_id=session_id,
            messages=[first, second],
            summary=Summary(
                content="要点",
                updated_at=AT,
                message_index_range=MessageIndexRange(from_index=0, to_index=1),
            ),
            task_state=TaskState(todo_list=TodoList(tasks=[Task(task_id="k1", name="do")])),
            tool_state=ToolState(tool_calls=[tool_call("c1", result_evidence_ids=["e1"])]),
            model_usage=[ModelUsage(model_usage_id="u1", provider="p", model="m", latency_ms=3)],
        ),
        evidences={"e1": evidence("e1"), "e0": evidence("e0", "")},
        context_blocks=[block("b1"), block("b0", priority=Priority.MUST)],
        meta=Meta(locale="zh", created_at="2025-01-01T00:00:00.000Z", updated_at=AT),
    )
