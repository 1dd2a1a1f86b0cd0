"""Which call every piece of evidence came from, and which messages rest on it (A-03)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.output import number, short_id
from ce_engine.schema.document import Evidence, Message, ModelUsage, SessionDocument, ToolCall
from ce_engine.schema.enums import EvidenceType, Role, ToolCallStatus
from ce_engine.schema.rows import TurnRow
from ce_engine.text.overlap import Quotations


@dataclass(slots=True)
class Links:
    """The links of one session, to be followed either way."""

    document: SessionDocument
    turns: Sequence[TurnRow]
    calls: dict[str, ToolCall] = field(init=False)
    usages: dict[str, ModelUsage] = field(init=False)
    used_by: dict[str, list[int]] = field(init=False)
    """Evidence id -> numbers of the messages that refer to it."""
    answers: dict[str, int] = field(init=False)
    """Message id of an answer -> number of its turn, from 1."""
    violations: dict[str, list[str]] = field(init=False)
    """Message id of an answer -> ids of the constraints that it breaks."""
    turn_of_usage: dict[str, int] = field(init=False)
    """Model usage id -> number of its turn."""
    outputs: dict[str, str] = field(init=False)
    """Turn id -> id of the evidence that its answer became."""
    quotations: Quotations = field(init=False)

    def __post_init__(self) -> None:
        session, numbered = self.document.session, list(enumerate(self.turns, start=1))
        self.calls = {call.tool_call_id: call for call in session.tool_state.tool_calls}
        self.usages = {usage.model_usage_id: usage for usage in session.model_usage}
        self.quotations = Quotations(self.document)
        self.used_by = {}
        for position, message in enumerate(session.messages, start=1):
            for ref in message.refs or ():
                self.used_by.setdefault(ref.evidence_id, []).append(message.seq or position)
        self.answers = {turn.answer_message_id: n for n, turn in numbered if turn.answer_message_id}
        self.violations = {
            turn.answer_message_id: turn.report.get("violations", [])
            for turn in self.turns
            if turn.answer_message_id
        }
        self.turn_of_usage = {turn.model_usage_id: n for n, turn in numbered if turn.model_usage_id}
        self.outputs = {
            str(evidence.metadata.get("turn_id")): evidence.evidence_id
            for evidence in self.document.evidences.values()
            if evidence.type is EvidenceType.LLM_OUTPUT
        }

    def source(self, evidence: Evidence, say: Say = ENGLISH) -> str:
        """The call that made the evidence, as `show` names it below; what is missing is said."""
        links = evidence.links
        if links.tool_call_id is not None:
            missing = "" if links.tool_call_id in self.calls else say(" (not recorded)")
            return f"{say('call {id}', id=short_id(links.tool_call_id))}{missing}"
        if links.model_usage_id is not None:
            missing = "" if links.model_usage_id in self.usages else say(" (not recorded)")
            return f"{say('usage {id}', id=short_id(links.model_usage_id))}{missing}"
        return say("no call")

    def way_back(self, evidence_id: str) -> str:
        """A piece of evidence and the call that made it, on one line."""
        evidence = self.document.evidences.get(evidence_id)
        if evidence is None:
            return f"{short_id(evidence_id)} (kept elsewhere)"
        text = f"{short_id(evidence_id)} {evidence.type.value} <- {self.source(evidence)}"
        call = self.calls.get(evidence.links.tool_call_id or "")
        if call is not None:
            return f"{text} {call.tool}"
        usage = self.usages.get(evidence.links.model_usage_id or "")
        return f"{text} {spent(usage)}" if usage is not None else text

    def failure(self, call: ToolCall) -> str:
        """What a tool's run failed with: in words, or as its result says; empty for one that did not."""
        if call.status is ToolCallStatus.SUCCESS:
            return ""
        evidences = map(self.document.evidences.get, call.result_evidence_ids)
        return call.error or next((item.content for item in evidences if item), "")

    def has_failed(self, result: Message, evidence_ids: Sequence[str]) -> bool:
        """Whether a tool's result is of a run that failed, which the message or the run itself says."""
        evidences = filter(None, map(self.document.evidences.get, evidence_ids))
        runs = (self.calls.get(evidence.links.tool_call_id or "") for evidence in evidences)
        failed = any(run is not None and run.status is not ToolCallStatus.SUCCESS for run in runs)
        return result.status == "error" or failed

    def stands_on(self, message: Message) -> list[tuple[str, str]]:
        """What a message refers to, with the word for it: what an answer rests on comes first."""
        ids = list(dict.fromkeys(ref.evidence_id for ref in message.refs or ()))
        if message.role is Role.TOOL:
            return [("stored as", evidence_id) for evidence_id in ids]
        quotes = [item for item in ids if self.quotations.rests_on(message, item)]
        others = [item for item in ids if item not in quotes]
        return [("rests on", item) for item in quotes] + [("was shown", item) for item in others]

    def became(self, message_id: str) -> Iterator[tuple[str, str]]:
        """What an answer was stored as, with the model call that made it."""
        if message_id not in self.answers:
            return
        turn = self.turns[self.answers[message_id] - 1]
        if turn.turn_id in self.outputs:
            yield "stored as", self.way_back(self.outputs[turn.turn_id])
        elif turn.model_usage_id in self.usages:
            usage = self.usages[turn.model_usage_id]
            yield "used", f"usage {short_id(usage.model_usage_id)} {spent(usage)}"

    def render_calls(self, message: Message, say: Say = ENGLISH) -> list[str]:
        """The tool calls that a message asks for: ours of it, its name and arguments."""
        texts = []
        for position, request in enumerate(message.tool_calls or ()):
            key = f"{message.message_id}:{position}"
            name = short_id(key) if key in self.calls else say("not run")
            texts.append(f"{name} {request.name}({arguments(request.args)})")
        return texts


def arguments(args: dict[str, object]) -> str:
    """Arguments as in a call: `name='pydantic', limit=3`."""
    return ", ".join(f"{key}={value!r}" for key, value in args.items())


def usage_words(usage: ModelUsage, say: Say = ENGLISH) -> str:
    """What a call spent, and whose count that is: beside it may stand our own, of all that went out."""
    is_ours = usage.params.get("estimated") or not usage.prompt_tokens
    by = say("by our own count") if is_ours else say("as the provider told")
    return f"{spent(usage, say)}{say(' ({text})', text=by)}"


def spent(usage: ModelUsage, say: Say = ENGLISH) -> str:
    """Model and tokens of a model call."""
    mark = "~" if usage.params.get("estimated") else ""
    tokens = (
        f"{mark}{number(usage.prompt_tokens)} + {number(usage.completion_tokens)} {say('tokens')}"
    )
    return ", ".join(part for part in (usage.model, tokens) if part)
