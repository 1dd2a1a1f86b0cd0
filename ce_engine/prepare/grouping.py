"""A line of messages as groups that go or stay together (decision 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ce_engine.prepare.choose.never_left_out import mark_never_left_out
from ce_engine.prepare.message_groups import BelowCut, MessageGroup, MessageItem, MessageLine
from ce_engine.schema.enums import Origin


def split(items: Sequence[MessageItem], below: BelowCut | None = None) -> MessageLine:
    """Split a line into groups, and mark what may never be left out (decision 6).

    Never out: system messages, the task message (newest of origin `task`), the newest message,
    the newest complete tool group of the current turn, and what the host protects. A tool result
    without its call is an orphan, and so is a call without all its results behind which the talk goes
    on: providers refuse both, so they are not passed on, unless the host protects them, or there is
    nothing else: then they stand as the host sent them. What is protected for having no id but its place
    goes with its call where that stands before it.
    """
    line = MessageLine(below=below)
    current: MessageGroup | None = None
    open_calls: list[str] = []
    for item in items:
        if item.origin is Origin.SYSTEM:
            line.system.append(item)
        elif item.is_tool_result:
            if current is not None and answers(item, open_calls):
                current.items.append(item)
                current.tokens += item.tokens
                current.must = current.must or (item.protected and item.call_id is not None)
                current.complete = not open_calls
            elif item.protected:
                line.groups.append(MessageGroup([item], must=True, tokens=item.tokens))
            else:
                line.orphans.append(item)
        else:
            current = MessageGroup(
                [item], complete=not item.calls, must=item.protected, tokens=item.tokens
            )
            open_calls = list(item.calls)
            line.groups.append(current)
    for group in [g for g in line.groups[:-1] if not g.complete and _is_unanswered(g)]:
        line.groups.remove(group)
        line.orphans += group.items
    if not line.groups:  # an empty list would only hide what is wrong with the host's
        line.groups = [MessageGroup([item], tokens=item.tokens) for item in line.orphans]
        line.orphans = []
    mark_never_left_out(line)
    return line


def take_out_repeated(
    line: MessageLine, items: Sequence[MessageItem], says: Callable[[MessageItem], object]
) -> None:
    """Leave out what the host says again later, word by word, in the midst of the talk (decision 6).

    Memories of some frameworks add the same system message with every turn. The newest stays.
    """
    talk = next((n for n, item in enumerate(items) if item.origin is not Origin.SYSTEM), 0)
    statements: set[object] = set()
    for item in reversed(items[talk:]):
        if item.origin is Origin.SYSTEM:
            if says(item) in statements:
                line.system = [
                    system_item for system_item in line.system if system_item is not item
                ]
                line.orphans.append(item)
            statements.add(says(item))


def _is_unanswered(group: MessageGroup) -> bool:
    """Whether a group that is not complete is a call that nobody answered; old function calls, which have no ids, may go without."""
    return not group.must and any(group.items[0].calls)


def answers(item: MessageItem, open_calls: list[str]) -> bool:
    """Close the calls that a result answers; whether there is any."""
    waiting = len(open_calls)
    # Function calls of the old style have no ids, nor have their results.
    for call_id in (item.call_id or "", *item.more_call_ids):
        if call_id in open_calls:
            open_calls.remove(call_id)
    return len(open_calls) < waiting
