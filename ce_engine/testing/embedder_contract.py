"""What every embedder must do, as tests: subclass `EmbedderContract` and give it an `embedder` fixture (A-27)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest

from ce_engine.ports.embedder import Embedder


TEXTS = (
    "My cat sleeps on the sofa.",
    "The bank raised its interest rates again.",
    "A kitten naps on the couch.",
)
ODD = (
    "",
    " ",
    "?",
    "😀👍🏽",
    "猫在沙发上睡觉。",
    '{"rows": [1, 2, 3]}',
    "word " * 20_000,
    "a" * 5000,
)

Vector = Sequence[float]


def cosine(vector: Vector, other: Vector) -> float:
    """How near two vectors are."""
    sizes = math.hypot(*vector) * math.hypot(*other)
    return sum(a * b for a, b in zip(vector, other, strict=True)) / sizes


def alike(vectors: Sequence[Vector], other: Sequence[Vector]) -> bool:
    """Whether they are the same vectors: a service may round."""
    return all(
        list(a) == pytest.approx(list(b), abs=1e-3) for a, b in zip(vectors, other, strict=True)
    )


class EmbedderContract:
    """Everything that `ports_embed.Embedder` promises.

    A subclass gives a fixture `embedder` that reads English.
    """

    pytestmark = pytest.mark.anyio

    async def test_it_names_its_model(self, embedder: Embedder) -> None:
        assert embedder.name.strip()
        assert embedder.name == embedder.name

    async def test_each_text_has_a_vector_of_the_same_size(self, embedder: Embedder) -> None:
        vectors = await embedder.embed(TEXTS)
        assert len(vectors) == len(TEXTS)
        assert len({len(vector) for vector in vectors}) == 1
        assert len(vectors[0]) > 1

    async def test_what_means_the_like_is_near(self, embedder: Embedder) -> None:
        cat, bank, kitten = await embedder.embed(TEXTS)
        assert cosine(cat, kitten) > cosine(cat, bank)
        assert cosine(cat, kitten) > cosine(kitten, bank)

    async def test_a_text_has_its_vector_whatever_it_is_embedded_with(
        self, embedder: Embedder
    ) -> None:
        together = await embedder.embed(TEXTS)
        assert alike(await embedder.embed(TEXTS[::-1]), together[::-1])
        for text, vector in zip(TEXTS, together, strict=True):
            vectors = await embedder.embed([text, TEXTS[0] * 9])
            assert alike(vectors[:1], [vector])

    async def test_any_text_has_a_vector_or_an_empty_one(self, embedder: Embedder) -> None:
        size = len((await embedder.embed(TEXTS))[0])
        vectors = await embedder.embed(ODD)
        assert {len(vector) for vector in vectors} <= {0, size}
        assert len(vectors) == len(ODD)
        assert all(math.isfinite(number) for vector in vectors for number in vector)

    async def test_nothing_has_no_vectors(self, embedder: Embedder) -> None:
        assert list(await embedder.embed([])) == []

    async def test_it_can_be_asked_twice_at_once(self, embedder: Embedder) -> None:
        first, second = await asyncio.gather(embedder.embed(TEXTS), embedder.embed(TEXTS[:2]))
        assert alike(first[:2], second)

    async def test_what_it_is_given_stays_as_it_is(self, embedder: Embedder) -> None:
        texts = list(TEXTS)
        await embedder.embed(texts)
        assert texts == list(TEXTS)
