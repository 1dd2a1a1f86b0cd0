"""Which call every piece of evidence came from, and which messages rest on it (A-03)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ce_engine.cli.output import number, short_id
from ce_engine.schema.document import Evidence, Message, ModelUsage, SessionDocument, ToolCall
from ce_engine.schema.enums import EvidenceType
from ce_engine.schema.rows import TurnRow


@dataclass(slots=True)
class Links:
    """The links of one session, to be followed either way."""

    document: SessionDocument
    turns: Sequence[TurnRow]
    calls: dict[str, ToolCall] = field(init=False)
    usages: dict[str, ModelUsage] = field(init=False)
    used_by: dict[str, list[int]] = field(init=False)
    """Evidence id -> numbers of the messages that refer to it."""
    outputs: dict[str, Evidence] = field(init=False)
    """Message id of an answer -> the evidence of it."""

    def __post_init__(self) -> None:
        session = self.document.session
        self.calls = {call.tool_call_id: call for call in session.tool_state.tool_calls}
        self.usages = {usage.model_usage_id: usage for usage in session.model_usage}
        self.used_by = {}
        for position, message in enumerate(session.messages, start=1):
            for ref in message.refs or ():
                self.used_by.setdefault(ref.evidence_id, []).append(message.seq or position)
        of_turn = {
            evidence.metadata.get("turn_id"): evidence
            for evidence in self.document.evidences.values()
            if evidence.type is EvidenceType.LLM_OUTPUT
        }
        self.outputs = {
            turn.answer_message_id: of_turn[turn.turn_id]
            for turn in self.turns
            if turn.answer_message_id is not None and turn.turn_id in of_turn
        }

    def source(self, evidence: Evidence) -> str:
        """The call that made the evidence, in words; what is missing is said."""
        links = evidence.links
        if links.tool_call_id is not None:
            call = self.calls.get(links.tool_call_id)
            name = call.tool if call is not None else "not recorded"
            return f"call {short_id(links.tool_call_id)} {name}"
        if links.model_usage_id is not None:
            usage = self.usages.get(links.model_usage_id)
            name = spent(usage) if usage is not None else "not recorded"
            return f"usage {short_id(links.model_usage_id)} {name}"
        return "no call"

    def evidence(self, evidence_id: str) -> str:
        """A piece of evidence with the way back to its call, on one line."""
        found = self.document.evidences.get(evidence_id)
        if found is None:
            return f"{short_id(evidence_id)} (kept elsewhere)"
        return f"{short_id(evidence_id)} {found.type.value} <- {self.source(found)}"

    def asked(self, message: Message) -> list[str]:
        """The tool calls that a message asks for: ours of it, its name and arguments."""
        found = []
        for position, request in enumerate(message.tool_calls or ()):
            key = f"{message.message_id}:{position}"
            name = short_id(key) if key in self.calls else "not run"
            found.append(f"{name} {request.name}({arguments(request.args)})")
        return found


def arguments(args: dict[str, object]) -> str:
    """Arguments as in a call: `name='pydantic', limit=3`."""
    return ", ".join(f"{key}={value!r}" for key, value in args.items())


def spent(usage: ModelUsage) -> str:
    """Model, tokens and time of a model call."""
    mark = "~" if usage.params.get("estimated") else ""
    tokens = f"{mark}{number(usage.prompt_tokens)} + {number(usage.completion_tokens)} tokens"
    return ", ".join(part for part in (usage.model, tokens) if part)
