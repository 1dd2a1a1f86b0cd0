"""What adapters of frameworks' embedding models share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ce_integrations.calls.blocking import on_a_thread


MODEL_FIELDS = ("model", "model_name", "deployment")
"""What classes of frameworks call their model's name."""


def name_of(model: object) -> str:
    """A model's class, and what it calls its model, if it tells."""
    told: list[object] = [getattr(model, field, "") for field in MODEL_FIELDS]
    names = [name for name in told if isinstance(name, str) and name]
    return " ".join([type(model).__name__, *names[:1]])


async def embedded(
    texts: Sequence[str], embed: Callable[[list[str]], Sequence[Sequence[float]]]
) -> list[Sequence[float]]:
    """What `embed` gives, asked on a thread of its own; an empty text has an empty vector: services refuse it."""
    wanted = [text for text in texts if text.strip()]
    found = await on_a_thread(lambda: embed(wanted)) if wanted else ()
    if len(found) != len(wanted):
        return list(found)  # the engine says what is wrong with it
    vectors = iter(found)
    return [next(vectors) if text.strip() else () for text in texts]
