"""What is never left out of a call, whatever its budget (decision 6)."""

from __future__ import annotations

from ce_engine.prepare.message_groups import MessageLine
from ce_engine.schema.enums import Origin


def mark_never_left_out(line: MessageLine) -> None:
    """Mark the groups that may never be left out, and those of earlier turns (decision 6).

    Never out: the task message, the newest message, and the newest complete tool group of the current turn; beside
    them what the host protects, and system messages.
    """
    for position, group in enumerate(line.groups):
        first = group.items[0]
        group.must = group.must or not group.complete
        if first.origin is Origin.TASK and first.index is not None:
            line.task = position
    if not line.groups:
        return
    line.groups[-1].must = True
    if line.task is not None:
        line.groups[line.task].must = True
        for group in line.groups[: line.task]:
            group.past = True
    for group in reversed(line.groups):
        if group.past:
            break  # a big result of an earlier turn must not hold the budget for ever
        if group.complete and len(group.items) > 1:
            group.must = True
            break
