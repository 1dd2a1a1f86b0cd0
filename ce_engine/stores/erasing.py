"""Takes a deleted text out of the rows of its session, wherever it stands in them (A-30). Rows stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import BaseModel

from ce_engine.schema.document import ContextBlock, ModelUsage, Task, ToolRequest
from ce_engine.schema.rows import EvidenceRow, MessageRow, ToolCallRow, TurnRow
from ce_engine.stores import row_rules
from ce_engine.stores.quotations import Quotations


R = TypeVar("R")
M = TypeVar("M", bound=BaseModel)


@dataclass(slots=True)
class Erasing:
    """The deletion of one text from the rows of its session.

    Attributes:
        cleared: ids of the messages, evidence, blocks, tool calls and tasks that it stood in.
    """

    quotations: Quotations
    at: str
    cleared: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, text: str, at: str) -> Erasing:
        return cls(Quotations(text), at)

    def changed(self, rows: Iterable[R], erase: Callable[[R], R]) -> list[R]:
        """Those of the rows that had the text, without it."""
        if not self.quotations:
            return []
        return [new for row in rows if (new := erase(row)) is not row]

    def message(self, row: MessageRow) -> MessageRow:
        """Where nothing but the text stood, the content is withheld, as that of any deleted message."""
        message = row.message
        content = self.quotations.without(message.content)
        calls = [self._request(call) for call in message.tool_calls or ()]
        if content == message.content and calls == (message.tool_calls or []):
            return row
        self._clear(message.message_id)
        update = {"content": content, "tool_calls": calls or None}
        withheld = row.withheld or (bool(message.content) and not content)
        return replace(row, message=_updated(message, update), withheld=withheld)

    def _request(self, call: ToolRequest) -> ToolRequest:
        return self._model(call, args=self.quotations.without_data(call.args))

    def evidence(self, row: EvidenceRow) -> EvidenceRow:
        """What a message has of it goes from there; where nothing is left, it is deleted, too."""
        evidence = row.evidence
        content = evidence.content if row.message_id else self.quotations.without(evidence.content)
        metadata = self.quotations.without_data(evidence.metadata, passages_only=True)
        new = self._model(evidence, content=content, metadata=metadata)
        if evidence.content and not content:
            new = row_rules.without_content(evidence, self.at) or new
        self._noted(evidence, new, evidence.evidence_id)
        return row if new is evidence else replace(row, evidence=new)

    def block(self, block: ContextBlock) -> ContextBlock:
        new = self._model(block, content=self.quotations.without(block.content))
        return self._noted(block, new, block.block_id)

    def tool_call(self, row: ToolCallRow) -> ToolCallRow:
        args = self.quotations.without_data(row.call.args_digest)
        error = self.quotations.without(row.call.error) if row.call.error else row.call.error
        call = self._model(row.call, args_digest=args, error=error)
        call = self._noted(row.call, call, call.tool_call_id)
        return row if call is row.call else replace(row, call=call)

    def task(self, task: Task) -> Task:
        names = {name: self.quotations.without(getattr(task, name)) for name in ("name", "error")}
        return self._noted(task, self._model(task, **names), task.task_id)

    def usage(self, usage: ModelUsage) -> ModelUsage:
        """Of numbers and words of ours only passages are taken."""
        params = self.quotations.without_data(usage.params, passages_only=True)
        error = self.quotations.without(usage.error, passages_only=True)
        return self._model(usage, params=params, error=error)

    def turn(self, row: TurnRow) -> TurnRow:
        """Its report and archive; of numbers and words of ours only passages are taken."""
        report = self.quotations.without_data(row.report, passages_only=True)
        attempts = self.quotations.without_data(row.attempts, passages_only=True)
        if report is row.report and attempts is row.attempts:
            return row
        return replace(row, report=report, attempts=attempts)

    def _model(self, thing: M, **update: Any) -> M:
        same = all(getattr(thing, name) == value for name, value in update.items())
        return thing if same else _updated(thing, update)

    def _noted(self, old: M, new: M, name: str) -> M:
        if new is not old:
            self._clear(name)
        return new

    def _clear(self, name: str | None) -> None:
        if name is not None:
            self.cleared.append(name)


def _updated(thing: M, update: dict[str, Any]) -> M:
    return thing.model_copy(update=update)
