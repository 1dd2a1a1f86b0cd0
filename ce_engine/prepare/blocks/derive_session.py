"""Context blocks of a session's state: instructions, conversation, tasks, evidence, memory, summary (A-10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ce_engine.ports.blocks import DeriveOptions
from ce_engine.ports.tokens import TokenEstimator
from ce_engine.schema.document import (
    ContextBlock,
    Evidence,
    Message,
    Ref,
    Session,
    SessionDocument,
    Task,
)
from ce_engine.schema.enums import BlockType, Priority, Role, TaskStatus
from ce_engine.text.quote import one_line


TASKS_ID = "tasks"
"""The id of the block that holds the session's tasks."""

SUMMARY_ID = "summary"

SURE = 0.8
"""From this confidence on evidence is worth as much as what was said."""
DOUBTFUL = 0.4
UNKNOWN = 0.5
"""Evidence of which nobody knows how good it is counts as middling."""

_OPEN = frozenset({TaskStatus.PENDING, TaskStatus.IN_PROGRESS, TaskStatus.FAILED})
_LOWER = {Priority.HIGH: Priority.MEDIUM, Priority.MEDIUM: Priority.LOW, Priority.LOW: Priority.LOW}

_WORDS = {
    "en": {
        "tasks": "Tasks:",
        "after": " (after {numbers})",
        "error": ": {error}",
        TaskStatus.PENDING: "to do",
        TaskStatus.IN_PROGRESS: "in progress",
        TaskStatus.COMPLETED: "done",
        TaskStatus.FAILED: "failed",
        TaskStatus.CANCELLED: "cancelled",
    },
    "zh": {
        "tasks": "任务：",
        "after": "（在 {numbers} 之后）",
        "error": "：{error}",
        TaskStatus.PENDING: "待办",
        TaskStatus.IN_PROGRESS: "进行中",
        TaskStatus.COMPLETED: "已完成",
        TaskStatus.FAILED: "失败",
        TaskStatus.CANCELLED: "已取消",
    },
}


def task_list(tasks: Sequence[Task], locale: str) -> str:
    """The tasks with their status and what they wait for; empty where none is left to do."""
    if not any(task.status in _OPEN for task in tasks):
        return ""
    words = _WORDS[locale]
    numbers = {task.task_id: number for number, task in enumerate(tasks, start=1)}
    lines = [words["tasks"]]
    for task in tasks:
        line = f"{numbers[task.task_id]}. [{words[task.status]}] {one_line(task.name)}"
        after = sorted(numbers[name] for name in task.depends_on if name in numbers)
        if after:
            line += words["after"].format(numbers=", ".join(map(str, after)))
        if task.error:
            line += words["error"].format(error=one_line(task.error))
        lines.append(line)
    return "\n".join(lines)


class SessionDeriver:
    """The default `BlockDeriver`. Token estimates are of the text that a block stands for.

    | from | type | priority |
    |---|---|---|
    | `custom_instructions`, stored blocks | as they are | as they are |
    | system messages | instruction | must |
    | summary | conversation | high; the messages it covers give no blocks |
    | messages | conversation | newest question must, newer half high, older half medium |
    | tasks | plan | high |
    | evidence | evidence | by confidence; the older half one lower |

    Evidence whose text stands in a message (`metadata["message_id"]`) gives no block of its own.
    """

    def __init__(
        self, estimator: TokenEstimator, *, locale: str = "en", model_hint: str | None = None
    ) -> None:
        self._estimator = estimator
        self._locale = locale
        self._model = model_hint

    async def derive(
        self,
        session_doc: SessionDocument,
        evidences: Sequence[Evidence],
        options: DeriveOptions | None = None,
    ) -> list[ContextBlock]:
        derive_options, session = options or DeriveOptions(), session_doc.session
        blocks = [*derive_options.custom_instructions, *session_doc.context_blocks]
        if derive_options.include_conversation:
            blocks += self._conversation(session)
        if derive_options.include_state:
            text = task_list(session.task_state.todo_list.tasks, self._locale)
            if text:
                blocks.append(self._block(TASKS_ID, BlockType.PLAN, Priority.HIGH, text))
        if derive_options.include_evidences:
            blocks += self._evidence(evidences, derive_options)
        return list({block.block_id: block for block in blocks}.values())

    def _conversation(self, session: Session) -> Iterator[ContextBlock]:
        summary, covered = session.summary, range(0)
        if summary is not None:
            bounds = summary.message_index_range
            covered = range(bounds.from_index, bounds.to_index + 1)
            yield self._block(
                SUMMARY_ID,
                BlockType.CONVERSATION,
                Priority.HIGH,
                summary.content,
                at=summary.updated_at,
            )
        messages = session.messages
        left = [n for n, m in enumerate(messages) if n not in covered and m.content]
        questions = [n for n in left if messages[n].role is Role.USER]
        for rank, n in enumerate(left):
            must = n in questions[-1:]
            yield self._message(n, messages[n], must=must, newer=rank >= len(left) // 2)

    def _message(self, n: int, message: Message, *, must: bool, newer: bool) -> ContextBlock:
        name = f"m:{message.message_id or n}"
        if message.role is Role.SYSTEM:
            return self._block(name, BlockType.INSTRUCTION, Priority.MUST, message.content)
        aged = Priority.HIGH if newer else Priority.MEDIUM
        return self._block(
            name,
            BlockType.CONVERSATION,
            Priority.MUST if must else aged,
            message.content,
            at=message.at,
        )

    def _evidence(
        self, evidences: Sequence[Evidence], options: DeriveOptions
    ) -> Iterator[ContextBlock]:
        alone = [item for item in evidences if not item.metadata.get("message_id")]
        for rank, item in enumerate(alone):
            try:
                yield self._of(item, newer=rank >= len(alone) // 2)
            except Exception as error:  # noqa: BLE001 - one odd document must not cost the others
                if options.on_error is not None:
                    options.on_error(item.evidence_id, error)

    def _of(self, item: Evidence, *, newer: bool) -> ContextBlock:
        sure = UNKNOWN if item.confidence is None else item.confidence
        priority = (
            Priority.HIGH if sure >= SURE else Priority.MEDIUM if sure >= DOUBTFUL else Priority.LOW
        )
        at, sensitivity = item.metadata.get("created_at"), item.metadata.get("sensitivity")
        return ContextBlock(
            block_id=f"e:{item.evidence_id}",
            block_type=BlockType.EVIDENCE,
            priority=priority if newer else _LOWER[priority],
            token_estimate=self._estimator.estimate_text(item.content, self._model),
            refs=[Ref(evidence_id=item.evidence_id)],
            created_at=at,
            sensitivity=sensitivity,
        )

    def _block(
        self, name: str, kind: BlockType, priority: Priority, text: str, *, at: str | None = None
    ) -> ContextBlock:
        return ContextBlock(
            block_id=name,
            block_type=kind,
            priority=priority,
            token_estimate=self._estimator.estimate_text(text, self._model),
            content=text,
            created_at=at or None,
        )
