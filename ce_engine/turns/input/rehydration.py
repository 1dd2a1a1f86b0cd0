"""Stored text that goes out again says what was said: placeholders become live values (decision 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ce_engine.ports.redaction import RestoreResult, SessionRedactor
from ce_engine.prepare.compose.shorter_texts import saved_in
from ce_engine.prepare.message_groups import MessageItem
from ce_engine.prepare.outcome import Outcome
from ce_engine.schema.call import Extend, HostMessage, Insert, Keep, Restore, Shorten, Step
from ce_engine.text.quote import requoted
from ce_engine.text.redaction.redact import lettering
from ce_engine.text.tokens.call_tokens import Counter


@dataclass(slots=True)
class Rehydration:
    """What live values cost in tokens, in restored messages and elsewhere; placeholders that go out; the steps changed."""

    restored: int = 0
    injected: int = 0
    placeholders_sent: int = 0
    positions: set[int] = field(default_factory=set)


_NOTHING: Mapping[int, int] = {}


def rehydrate(
    plan: list[Step],
    redactor: SessionRedactor | None,
    counter: Counter,
    room: int | None,
    counted: Mapping[str, int],
    host: Sequence[HostMessage] = (),
    kept: Mapping[int, int] = _NOTHING,
) -> Rehydration:
    """Put live values into the steps of a finished plan, in place; what is stored is not changed.

    Args:
        plan: the steps, as they are to go out.
        redactor: of the session: it knows only what it took out itself, in this process.
        counter: counts what that costs.
        room: tokens that are left of the limit; a step whose live text needs more keeps its
            placeholders. `None` is no limit.
        counted: tokens that restored messages were counted with, by message id.
        host: the messages that steps name. One that spells a placeholder out gets no live value.
        kept: tokens of `room` that are for one step's live values, by its position.
    """
    done, whole = Rehydration(), room
    later = sum(kept.values())
    for position, planned in enumerate(plan):
        step = planned
        later -= kept.get(position, 0)
        room = None if whole is None else whole - later
        if isinstance(step, Keep) or redactor is None or _spells(step, host, redactor):
            continue
        if isinstance(step, Restore) and step.message.tool_calls:
            step = plan[position] = _with_live_calls(step, redactor, counter, done, room)
        result = _restored(redactor, step)
        if not result.restored:
            done.placeholders_sent += result.unresolved
            continue
        fresh, cost = _live(step, result.text, counter, counted)
        if room is not None and done.restored + done.injected + cost > room:
            done.placeholders_sent += result.unresolved + result.restored
            continue
        plan[position] = fresh
        done.positions.add(position)
        done.placeholders_sent += result.unresolved
        if isinstance(step, Restore):
            done.restored += cost
        else:
            done.injected += cost
    return done


def _spells(step: Step, host: Sequence[HostMessage], redactor: SessionRedactor) -> bool:
    """Whether a step has a host's own words in which somebody wrote a placeholder out."""
    if not isinstance(step, Shorten) or step.index >= len(host):
        return False
    live = host[step.index].message.content
    return lettering(redactor)(live) != live


def _with_live_calls(
    step: Restore,
    redactor: SessionRedactor,
    counter: Counter,
    done: Rehydration,
    room: int | None,
) -> Restore:
    """The step with live values in the arguments of its calls: a model copies them."""
    calls = [
        call.model_copy(update={"args": live_value(redactor, call.args)})
        for call in step.message.tool_calls or ()
    ]
    if calls == step.message.tool_calls:
        return step
    message = step.message.model_copy(update={"tool_calls": calls})
    cost = max(0, counter.message(message) - counter.message(step.message))
    if room is not None and done.restored + done.injected + cost > room:
        return step
    done.restored += cost
    return replace(step, message=message)


def live_value(redactor: SessionRedactor | None, value: Any) -> Any:
    """Stored data with live values in place of the placeholders that this process knows (decision 13)."""
    if redactor is None:
        return value
    if isinstance(value, Mapping):
        return {key: live_value(redactor, item) for key, item in value.items()}
    if isinstance(value, list):
        return [live_value(redactor, item) for item in value]
    if not isinstance(value, str):
        return value
    with suppress(Exception):  # a redactor of somebody else's may raise anything
        return redactor.restore(value).text
    return value


def _restored(
    redactor: SessionRedactor, step: Restore | Insert | Extend | Shorten
) -> RestoreResult:
    """The step's text with live values, which can pose as nothing where they stand in a quote."""
    text = step.message.content if isinstance(step, Restore) else step.text
    try:
        result = redactor.restore(text)
        if not result.restored:
            return result
        return replace(result, text=requoted(text, lambda part: redactor.restore(part).text))
    except Exception:  # noqa: BLE001 - a redactor of somebody else's may raise anything
        return RestoreResult(text)


def _live(
    step: Restore | Insert | Extend | Shorten,
    text: str,
    counter: Counter,
    counted: Mapping[str, int],
) -> tuple[Step, int]:
    """The step with its live text, and the tokens that it needs more than were counted."""
    if isinstance(step, Restore):
        message = step.message.model_copy(update={"content": text})
        counted_tokens = None if step.before else counted.get(message.message_id or "")
        before = counter.message(step.message) if counted_tokens is None else counted_tokens
        return replace(step, message=message), max(0, counter.message(message) - before)
    return replace(step, text=text), max(0, counter.text(text) - counter.text(step.text))


def rehydrated(
    outcome: Outcome,
    items: Sequence[MessageItem],
    budget: int | None,
    redactor: SessionRedactor | None,
    counter: Counter,
    host: Sequence[HostMessage] = (),
) -> Rehydration:
    """The last change of a plan: live values in what was stored. The count stays an upper bound.

    What stands before earlier questions has room for those that it had.
    """
    if outcome.unchanged:  # nothing that was stored is in it
        return Rehydration()
    anchors = _anchors(outcome, items)
    kept = {position: outcome.pins[anchor].live for position, anchor in anchors.items()}
    total = sum(pin.live for pin in outcome.pins.values())
    room = None if budget is None else max(0, budget - outcome.used + total)
    shorter = outcome.shorter
    counted = {
        item.message_id: item.tokens - (saved_in([item], shorter) if shorter else 0)
        for item in items
        if item.index is None
    }
    done = rehydrate(outcome.plan, redactor, counter, room, counted, host, kept)
    outcome.used += done.restored + done.injected - total
    outcome.cut.tokens += done.restored
    outcome.injected_tokens += done.injected - total
    for position in done.positions & anchors.keys():
        name = anchors[position]
        text = outcome.pins[name].before
        live = counter.text(live_value(redactor, text)) - counter.text(text)
        outcome.pins[name] = replace(outcome.pins[name], live=max(0, live))
    return done


def _anchors(outcome: Outcome, items: Sequence[MessageItem]) -> dict[int, str]:
    """The steps that have a pin before their message, by their positions in the plan."""
    if not outcome.pins:
        return {}
    message_ids = {item.index: item.message_id for item in items if item.index is not None}
    anchors: dict[int, str] = {}
    for position, step in enumerate(outcome.plan):
        if isinstance(step, Restore):
            name = step.message.message_id or ""
        else:
            name = message_ids.get(step.index, "") if isinstance(step, Extend | Shorten) else ""
        if name in outcome.pins:
            anchors[position] = name
    return anchors
