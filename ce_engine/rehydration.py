"""Stored text that goes out again says what was said: placeholders become live values (decision 13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ce_engine.counting import Counter
from ce_engine.ports import Restored, SessionRedactor
from ce_engine.quote import requoted
from ce_engine.schema.call import Extend, Insert, Keep, Restore, Shorten, Step


@dataclass(slots=True)
class Rehydrated:
    """What live values cost in tokens, in restored messages and elsewhere; and placeholders that go out."""

    restored: int = 0
    injected: int = 0
    placeholders_sent: int = 0


def rehydrate(
    plan: list[Step],
    redactor: SessionRedactor | None,
    counter: Counter,
    room: int | None,
    counted: Mapping[str, int],
) -> Rehydrated:
    """Put live values into the steps of a finished plan, in place; what is stored is not changed.

    Args:
        plan: the steps, as they are to go out.
        redactor: of the session: it knows only what it took out itself, in this process.
        counter: counts what that costs.
        room: tokens that are left of the limit; a step whose live text needs more keeps its
            placeholders. `None` is no limit.
        counted: tokens that restored messages were counted with, by message id.
    """
    done = Rehydrated()
    for position, step in enumerate(plan):
        if isinstance(step, Keep) or redactor is None:
            continue
        found = _restored(redactor, step)
        if not found.restored:
            done.placeholders_sent += found.unresolved
            continue
        fresh, cost = _live(step, found.text, counter, counted)
        if room is not None and done.restored + done.injected + cost > room:
            done.placeholders_sent += found.unresolved + found.restored
            continue
        plan[position] = fresh
        done.placeholders_sent += found.unresolved
        if isinstance(step, Restore):
            done.restored += cost
        else:
            done.injected += cost
    return done


def _restored(redactor: SessionRedactor, step: Restore | Insert | Extend | Shorten) -> Restored:
    """The step's text with live values, which can pose as nothing where they stand in a quote."""
    text = step.message.content if isinstance(step, Restore) else step.text
    try:
        found = redactor.restore(text)
        if not found.restored:
            return found
        return replace(found, text=requoted(text, lambda part: redactor.restore(part).text))
    except Exception:  # noqa: BLE001 - a redactor of somebody else's may raise anything
        return Restored(text)


def _live(
    step: Restore | Insert | Extend | Shorten,
    text: str,
    counter: Counter,
    counted: Mapping[str, int],
) -> tuple[Step, int]:
    """The step with its live text, and the tokens that it needs more than were counted."""
    if isinstance(step, Restore):
        message = step.message.model_copy(update={"content": text})
        known = None if step.before else counted.get(message.message_id or "")
        before = counter.message(step.message) if known is None else known
        return replace(step, message=message), max(0, counter.message(message) - before)
    return replace(step, text=text), max(0, counter.text(text) - counter.text(step.text))
