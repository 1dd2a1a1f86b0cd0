"""What adapters of frameworks' embedding models share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ce_integrations.calls.blocking import on_a_thread


MODEL_FIELDS = ("model", "model_name", "deployment")
"""What classes of frameworks call their model's name."""


def name_of(model: object) -> str:
    """A model's class, and what it calls its model, if it tells."""
    values: list[object] = [getattr(model, field, "") for field in MODEL_FIELDS]
    names = [name for name in values if isinstance(name, str) and name]
    return " ".join([type(model).__name__, *names[:1]])


async def embedded(
    texts: Sequence[str], embed: Callable[[list[str]], Sequence[Sequence[float]]]
) -> list[Sequence[float]]:
    """What `embed` gives, asked on a thread of its own; an empty text has an empty vector: services refuse it."""
    sent_texts = [text for text in texts if text.strip()]
    embeddings = await on_a_thread(lambda: embed(sent_texts)) if sent_texts else ()
    if len(embeddings) != len(sent_texts):
        return list(embeddings)  # the engine says what is wrong with it
    vectors = iter(embeddings)
    return [next(vectors) if text.strip() else () for text in texts]
