"""The plan of an outcome: every message that goes out, in its place, with what stands before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import takewhile

from ce_engine.prepare.compose.compose import PromptMessage, compose
from ce_engine.prepare.message_groups import MessageItem
from ce_engine.prepare.outcome import Outcome
from ce_engine.prepare.sources import CandidateSources
from ce_engine.schema.call import Extend, Keep, Restore, Shorten, Step
from ce_engine.schema.enums import Origin, Role


Short = Callable[[MessageItem], tuple[str, int]]
"""The short form of a tool result, and its tokens."""


def plan(
    out: Outcome,
    items: Sequence[MessageItem],
    sources: CandidateSources,
    short: Short,
) -> None:
    """Write the outcome's plan, and what it leaves, shortens and restores."""
    line = out.line
    if _is_untouched(out, items):
        out.plan = [_keep(item.index) for item in items if item.index is not None]
        out.unchanged = True
        return
    place = {
        id(item): position for position, group in enumerate(line.groups) for item in group.items
    }
    leading = sum(1 for _ in takewhile(lambda item: item.origin is Origin.SYSTEM, items))
    dropped_ids = {id(item) for item in line.orphans}
    dropped_ids |= {
        id(item) for position in out.cut.dropped for item in line.groups[position].items
    }
    pieces = [
        _piece(out, item, place.get(id(item), -1), sources, short)
        for item in items[leading:]
        if id(item) not in dropped_ids
    ]
    task = line.groups[line.task].items[0].index if line.task is not None else None
    plan = compose(
        system_prompt=[item.index for item in items[:leading] if item.index is not None],
        checkpoint_messages=pieces,
        contexts=out.texts,
        query=task,
        block_ids=out.evidence_ids,
    )
    out.plan = [_shortened(step, out) for step in plan] if out.shorter else plan
    whole = len(out.plan) == len(items) and not line.below
    out.unchanged = whole and all(isinstance(step, Keep) for step in out.plan)


def _is_untouched(out: Outcome, items: Sequence[MessageItem]) -> bool:
    return (
        not out.injected
        and not out.pins
        and not out.cut.shortened
        and not out.shorter
        and not out.cut.dropped
        and not out.line.below
        and not out.line.orphans
        and all(item.index is not None for item in items)
    )


def _piece(
    out: Outcome, item: MessageItem, position: int, sources: CandidateSources, short: Short
) -> PromptMessage:
    pin, is_said = out.pins.get(item.message_id), item.origin is Origin.TASK
    before = pin.before if pin is not None else ""
    if item.index is None:
        out.restored += 1
        message = sources.message_of(item)
        if (
            message.role is not Role.USER
        ):  # whatever a forged row says of it, these are no person's words
            return PromptMessage(message=message)
        return PromptMessage(message=message, before=before, is_said=is_said)
    if position in out.cut.shortened and item.is_tool_result:
        text, tokens = short(item)
        if tokens < item.tokens:
            out.shortened += 1
            return PromptMessage(index=item.index, text=text, is_said=is_said)
    return PromptMessage(index=item.index, before=before, is_said=is_said)


def _shortened(step: Step, out: Outcome) -> Step:
    """A step with what is left of the host's text, where something inside it is left out."""
    if isinstance(step, Restore):
        short = out.shorter.get(step.message.message_id or "")
        if short is None:
            return step
        out.shortened += 1
        content = f"{step.before}{short.text}"
        return Restore(step.message.model_copy(update={"content": content}), step.before)
    if not isinstance(step, Keep | Extend) or step.index not in out.shorter:
        return step
    out.shortened += 1
    text = out.shorter[step.index].text
    if isinstance(step, Keep):
        return Shorten(step.index, text)
    return Shorten(step.index, step.text + text if step.before else text + step.text)


_keep = lru_cache(4096)(Keep)
