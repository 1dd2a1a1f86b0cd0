"""A host app by hand: it keeps its messages, asks, runs tools and answers, as an agent framework does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ce_engine import (
    Answer,
    ContextEngine,
    HostMessage,
    Message,
    ModelCall,
    Origin,
    Prepared,
    Role,
    Scope,
    ToolRequest,
    Usage,
)


def system(text: str) -> HostMessage:
    """A system prompt."""
    return HostMessage(Message(role=Role.SYSTEM, content=text), Origin.SYSTEM)


def user(text: str, host_id: str | None = None) -> HostMessage:
    """A person's words."""
    return HostMessage(Message(role=Role.USER, content=text), Origin.TASK, host_id)


def assistant(text: str, host_id: str | None = None) -> HostMessage:
    """An answer."""
    return HostMessage(Message(role=Role.ASSISTANT, content=text), Origin.ANSWER, host_id)


def tool_calls(*calls: tuple[str, str, dict[str, Any]], text: str = "") -> HostMessage:
    """An assistant message that asks for (id, name, args) each."""
    requests = [ToolRequest(id=i, name=name, args=args) for i, name, args in calls]
    message = Message(role=Role.ASSISTANT, content=text, tool_calls=requests)
    return HostMessage(message, Origin.TOOL_CALL)


def tool_result(call_id: str, text: str, *, error: bool = False) -> HostMessage:
    """The result of a call."""
    message = Message(role=Role.TOOL, content=text, tool_call_id=call_id)
    return HostMessage(message, Origin.TOOL_RESULT, error=error)


@dataclass
class HostApp:
    """Keeps the whole history and resends it with every call, like an agent with a checkpointer."""

    engine: ContextEngine
    scope: Scope
    messages: list[HostMessage] = field(default_factory=list)
    framework: str = "by-hand"
    requests: int = 0

    def prepare(self, *extra: HostMessage, new_request: bool = True, **call: Any) -> Prepared:
        """Add messages and prepare a call over all of them."""
        self.messages.extend(extra)
        self.requests += new_request
        call.setdefault("request_id", f"request-{self.requests}")
        return self.engine.sync.prepare(
            ModelCall(
                scope=self.scope,
                messages=list(self.messages),
                framework=self.framework,
                **call,
            )
        )

    def commit(self, prepared: Prepared, answer: HostMessage, usage: Usage | None = None) -> None:
        """Record the model's answer and keep it."""
        self.engine.sync.commit(
            prepared.turn,
            Answer(answer.message, answer.host_id, model="model-1", provider="provider-1"),
            usage=usage,
        )
        self.messages.append(answer)

    def ask(self, question: str, answer: str, **call: Any) -> Prepared:
        """One whole turn."""
        prepared = self.prepare(user(question), **call)
        self.commit(prepared, assistant(answer), Usage(10, 5, 15))
        return prepared
