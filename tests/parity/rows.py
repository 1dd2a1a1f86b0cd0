"""Stored rows without what two runs of one job never share: ids by place, no times, no names that apps give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ce_engine import Evidence, Message, ToolCall
from tests.parity.scenario import ERROR, QUESTION, Part


Row = dict[str, Any]
Key = tuple[str, str]
"""A kind of row and a field of it."""

ABSENT: tuple[object, ...] = (None, "", [], {})


def rows(part: Part) -> dict[str, list[Row]]:
    """The rows of a part by kind."""
    return _Rows(part).by_kind()


class _Rows:
    def __init__(self, part: Part) -> None:
        self.part = part
        self.session = part.document.session
        self.messages = self.session.messages
        self.places = {m.message_id: place for place, m in enumerate(self.messages)}
        self.contents = {
            e.evidence_id: _unwrapped(e.content) for e in part.document.evidences.values()
        }
        self.usages = {u.model_usage_id: u for u in self.session.model_usage}

        self.injected = {
            turn.answer_message_id: turn.report.get("injected_evidence_ids", ())
            for turn in part.turns
        }
        failed = [call for call in self.session.tool_state.tool_calls if call.status != "success"]
        self.failed = {name for call in failed for name in call.result_evidence_ids}

    def by_kind(self) -> dict[str, list[Row]]:
        evidence = [*map(self._evidence, self.part.document.evidences.values())]
        calls = [*map(self._call, self.session.tool_state.tool_calls)]
        return {
            "message": [*map(self._message, self.messages)],
            "tool call": sorted(
                calls, key=lambda row: (row["asked_by"], row["place"], row["tool"])
            ),
            "evidence": sorted(evidence, key=lambda row: (row["type"], row["content"])),
            "model usage": [*self._usages()],
            "turn": [*self._turns()],
        }

    def _message(self, message: Message) -> Row:
        author = message.author
        return {
            "role": message.role.value,
            "content": _unwrapped(message.content),
            f"author of {message.role.value} messages": author.kind.value if author else None,
            "parent": self.places.get(message.parent_id),
            "tool_calls": [(call.name, call.args) for call in message.tool_calls or ()],
            "tool_call_id": self._asked(message),
            "status": message.status,
            "refs": sorted(self._refs(message)),
        }

    def _refs(self, message: Message) -> Iterator[str]:
        """What it rests on, without what was brought in: that depends on how long tools' schemas are."""
        injected = self.injected.get(message.message_id, ())
        for ref in message.refs or ():
            if ref.evidence_id not in injected:
                yield self.contents[ref.evidence_id]

    def _asked(self, result: Message) -> Any:
        """The call that a result answers, by its name and arguments."""
        if result.tool_call_id is None:
            return None
        for message in self.messages:
            for call in message.tool_calls or ():
                if call.id == result.tool_call_id:
                    return (call.name, call.args)
        return "unknown"

    def _call(self, call: ToolCall) -> Row:
        message_id, _, place = call.tool_call_id.rpartition(":")
        return {
            "tool": call.tool if message_id in self.places else "(retriever)",
            "type": call.type.value,
            "provider": call.provider.kind.value,
            "args": {name: given for name, given in call.args_digest.items() if given},
            "status": call.status.value,
            "error": _unwrapped(call.error or ""),
            "asked_by": self.places.get(message_id, -1),
            "place": int(place) if message_id in self.places else 0,
            "results": sorted(self.contents[name] for name in call.result_evidence_ids),
        }

    def _evidence(self, evidence: Evidence) -> Row:
        source, found = evidence.source, evidence.metadata
        failed = evidence.evidence_id in self.failed
        # A message that does not say that its tool failed is believed like one of a tool that worked.
        knows = self.part.adapter.capabilities.tool_errors or not failed
        return {
            "type": evidence.type.value,
            "source": source.kind.value,
            "uri": source.uri,
            "content": _unwrapped(evidence.content),
            "confidence": None if failed else evidence.confidence,
            "low confidence of an error": evidence.confidence if failed and knows else None,
            "score": found.get("score"),
            "of_tool_call": evidence.links.tool_call_id is not None,
            "of_model_usage": evidence.links.model_usage_id is not None,
        }

    def _usages(self) -> Iterator[Row]:
        for turn in self.part.turns:
            usage = self.usages.get(turn.model_usage_id or "")
            yield {
                "model": usage.model if usage else None,
                "stage": usage.stage.value if usage else None,
                "status": usage.status.value if usage else None,
                "tokens told": (usage is not None and not usage.params.get("estimated")) or None,
            }

    def _turns(self) -> Iterator[Row]:
        for turn in self.part.turns:
            yield {
                "status": turn.status.value,
                "purpose": turn.purpose,
                "attempt": turn.attempt,
                "tip": self.places.get(turn.tip_message_id),
                "answer": self.places.get(turn.answer_message_id),
                "within_budget": not turn.report.get("over_budget", False),
            }


def differences(by_framework: Mapping[str, dict[str, list[Row]]]) -> list[str]:
    """What two frameworks tell otherwise, as lines; what one of them does not tell is none."""
    found: list[str] = []
    kinds = next(iter(by_framework.values()))
    for kind in kinds:
        counts = {name: len(stored[kind]) for name, stored in by_framework.items()}
        if len(set(counts.values())) > 1:
            found.append(f"rows of kind {kind}: {counts}")
            continue
        for place, fields in enumerate(kinds[kind]):
            for field in fields:
                told = {name: stored[kind][place][field] for name, stored in by_framework.items()}
                values = [value for value in told.values() if value not in ABSENT]
                if any(value != values[0] for value in values):
                    found.append(f"{kind} {place}, {field}: {told}")
    return found


def _unwrapped(content: str) -> str:
    """The words of a tool's error, or of a question, whatever a framework or its app says around them."""
    return next((words for words in (ERROR, QUESTION) if words in content), content)
