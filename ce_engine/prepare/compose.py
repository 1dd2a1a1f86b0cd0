"""The plan: what goes out, in which order; a pure function that reads and writes no state (E-01, E-03, E-06)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ce_engine.schema.call import Extend, Insert, Keep, Restore, Shorten, Step
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Layer


SECTIONS = (
    "framework__context",
    "experience__context",
    "knowledge__context",
    "todo__context",
    "compression__context",
)
"""The order of what is brought in (E-03); only this module may change it."""


STANDING = ("framework__context", "experience__context", "compression__context")
"""What stays the same from call to call (D-05): it never stands behind the history."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One message that goes out: the host's at `index`, with `text` for a shortened one, or a stored one.

    What stands `before` its own text was brought in for it.
    """

    index: int | None = None
    text: str | None = None
    message: Message | None = None
    before: str = ""


def merge(contexts: Mapping[str, str]) -> str:
    """The collected contexts as one text, in their fixed order.

    Raises:
        ValueError: a key is no known section; keys end in `__context` (E-06).
    """
    unknown = set(contexts) - set(SECTIONS)
    if unknown:
        raise ValueError(f"unknown context keys {sorted(unknown)}; known: {list(SECTIONS)}")
    return "\n\n".join(contexts[key] for key in SECTIONS if contexts.get(key))


def compose(
    *,
    system_prompt: Sequence[int],
    checkpoint_messages: Sequence[Piece],
    contexts: Mapping[str, str],
    query: int | None,
    block_ids: Sequence[str] = (),
    placement: Literal["seed", "cache"] = "seed",
) -> list[Step]:
    """Put the input together.

    Args:
        system_prompt: host indexes of the leading system messages.
        checkpoint_messages: everything behind them, the query in its place among them.
        contexts: what was collected, keys as in `SECTIONS`.
        query: host index of the task message; it is among `checkpoint_messages` exactly once (E-04).
        block_ids: the context blocks that `contexts` render.
        placement: where the contexts stand: after the leading system message, or but for `STANDING`
            right before the query's own text, so that what is before it stays the same from call to call.
    """
    late = [key for key in SECTIONS if key not in STANDING] if placement == "cache" else []
    late = late if query is not None else []
    text = merge({key: contexts[key] for key in contexts if key not in late})
    asked = merge({key: contexts[key] for key in contexts if key in late})
    steps: list[Step] = []
    if text:
        if system_prompt:
            steps.append(Extend(system_prompt[0], f"\n\n{text}"))
            steps += [Keep(index) for index in system_prompt[1:]]
        else:
            steps.append(Insert(text, Layer.RETRIEVED, tuple(block_ids)))
    else:
        steps += [Keep(index) for index in system_prompt]
    for piece in checkpoint_messages:
        own = asked and piece.index is not None and piece.index == query
        steps.append(_step(piece, piece.before + (f"{asked}\n\n" if own else "")))
    return steps


def _step(piece: Piece, before: str) -> Step:
    message = piece.message
    if message is not None:
        content = f"{before}{message.content}"
        return Restore(message.model_copy(update={"content": content}) if before else message)
    if piece.index is None:
        raise ValueError("a piece is a host message or a stored one")
    if piece.text is not None:
        return Shorten(piece.index, f"{before}{piece.text}")
    return Extend(piece.index, before, before=True) if before else Keep(piece.index)
