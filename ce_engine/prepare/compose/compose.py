"""The plan: what goes out, in which order; a pure function that reads and writes no state (E-01, E-03, E-06)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ce_engine.schema.call import Extend, Insert, Keep, Restore, Shorten, Step
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Layer, Role
from ce_engine.text.quote import Locale, quote


SECTIONS = (
    "framework__context",
    "noted__context",
    "experience__context",
    "knowledge__context",
    "todo__context",
    "compression__context",
)
"""The order of what is brought in (E-03); only this module may change it."""

SYSTEM = ("framework__context",)
"""What an owner stored as rules: of what is brought in, this alone stands in the system's message."""

NOTED = "noted__context"
STANDING = (NOTED, "experience__context", "compression__context")
"""What stays the same from call to call (D-05): it never stands behind the history."""


class InputTexts(NamedTuple):
    """What is brought in, as it goes out: `rules` in the system's message, the others as quoted data.

    `first` stands before the first message of a person that goes out, `before_query` before the query.
    """

    rules: str
    first: str
    before_query: str

    @property
    def quotes(self) -> int:
        """How many quotes there are."""
        return bool(self.first) + bool(self.before_query)


NO_TEXTS = InputTexts("", "", "")


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message that goes out: the host's at `index`, with `text` for a shortened one, or a stored one.

    What stands `before` its own text was brought in for it. `is_said` is a person's message.
    """

    index: int | None = None
    text: str | None = None
    message: Message | None = None
    before: str = ""
    is_said: bool = False


def merge(contexts: Mapping[str, str]) -> str:
    """The collected contexts as one text, in their fixed order.

    Raises:
        ValueError: a key is no known section; keys end in `__context` (E-06).
    """
    unknown = set(contexts) - set(SECTIONS)
    if unknown:
        raise ValueError(f"unknown context keys {sorted(unknown)}; known: {list(SECTIONS)}")
    return "\n".join(contexts[key] for key in SECTIONS if contexts.get(key))


def texts_of(
    contexts: Mapping[str, str], placement: Literal["seed", "cache"], locale: Locale
) -> InputTexts:
    """The contexts by where they go out; those that are data in their fences.

    With `placement="cache"` only what is `STANDING` is before the history, so that what stands there
    stays the same from call to call.
    """
    early = SECTIONS if placement == "seed" else STANDING
    rules = merge({key: contexts[key] for key in contexts if key in SYSTEM})
    data = {key: contexts[key] for key in contexts if key not in SYSTEM}
    first = merge({key: data[key] for key in data if key in early})
    query_text = merge({key: data[key] for key in data if key not in early})
    return InputTexts(rules, quote(first, locale), quote(query_text, locale))


def compose(
    *,
    system_prompt: Sequence[int],
    checkpoint_messages: Sequence[PromptMessage],
    contexts: InputTexts,
    query: int | None,
    block_ids: Sequence[str] = (),
) -> list[Step]:
    """Put the input together.

    Data stands before a person's message, in it: servers differ in what else they take. Where there
    is none, it is a message of the user's role behind the system's.

    Args:
        system_prompt: host indexes of the leading system messages.
        checkpoint_messages: everything behind them, the query in its place among them.
        contexts: what was collected; see `texts_of`.
        query: host index of the task message; it is among `checkpoint_messages` exactly once (E-04).
        block_ids: the context blocks that `contexts` render.
    """
    steps: list[Step] = [Keep(index) for index in system_prompt]
    if contexts.rules:
        if system_prompt:
            steps[0] = Extend(system_prompt[0], f"\n\n{contexts.rules}")
        else:
            steps.append(Insert(contexts.rules, Layer.RULES))
    before = [piece.before for piece in checkpoint_messages]
    query_position = _place(
        checkpoint_messages, lambda piece: piece.index is not None and piece.index == query
    )
    first = _place(checkpoint_messages, lambda piece: piece.is_said)
    loose = [
        text
        for text, at in ((contexts.first, first), (contexts.before_query, query_position))
        if text and at is None
    ]
    if loose:
        steps.append(Insert("\n\n".join(loose), Layer.RETRIEVED, tuple(block_ids), Role.USER))
    if contexts.before_query and query_position is not None:
        before[query_position] += f"{contexts.before_query}\n\n"
    if contexts.first and first is not None:
        before[first] = f"{contexts.first}\n\n{before[first]}"
    return steps + [_step(*pair) for pair in zip(checkpoint_messages, before, strict=True)]


def _place(
    pieces: Sequence[PromptMessage], is_match: Callable[[PromptMessage], bool]
) -> int | None:
    return next((at for at, piece in enumerate(pieces) if is_match(piece)), None)


def _step(piece: PromptMessage, before: str) -> Step:
    message = piece.message
    if message is not None:
        if not before:
            return Restore(message)
        content = f"{before}{message.content}"
        return Restore(message.model_copy(update={"content": content}), before)
    if piece.index is None:
        raise ValueError("a piece is a host message or a stored one")
    if piece.text is not None:
        return Shorten(piece.index, f"{before}{piece.text}")
    return Extend(piece.index, before, before=True) if before else Keep(piece.index)
