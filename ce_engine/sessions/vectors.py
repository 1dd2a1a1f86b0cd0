"""The vectors of a session's texts, in memory alone: they go with the session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ce_engine.errors import EmbedderError
from ce_engine.runtime.bounded_dict import BoundedDict
from ce_engine.text.relevance.meaning import Meaning, digits


MOST_BYTES = 64_000_000
"""Of one session's vectors; a longer one goes on by words alone."""

QUESTIONS = 16
"""Questions whose vectors are kept."""

LEAST = 1e-6
"""A product of sizes is taken for no less: all vectors may be the same."""

UNREADABLE = -1
"""The place of a text whose language the model does not know."""


class Vectors:
    """Vectors by the ids of messages and evidence, and those of the last questions; `name` is the embedder's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._matrix = np.zeros((0, 0), np.float32)
        self._places: dict[str, int] = {}
        self._count = 0
        self._questions: BoundedDict[str, Any] = BoundedDict(QUESTIONS)
        self._asked: BoundedDict[str, str] = BoundedDict(QUESTIONS)

    @property
    def bytes(self) -> int:
        """Memory that they take."""
        return int(self._matrix.nbytes)

    def ask(self, question: str, text: str) -> None:
        """Say that a question is to have a vector, too, by what of it is to be embedded."""
        if question not in self._questions:
            self._asked[question] = text

    def missing(self, texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Id and text of what has no vector yet; of questions, which come first, they are their own id."""
        return [*self._asked.items(), *(pair for pair in texts if pair[0] not in self._places)]

    def reads(self, question: str) -> bool:
        """Whether the model knows the language of a question that it has embedded."""
        return bool(self._questions[question].size)

    def put(self, texts: Sequence[tuple[str, str]], vectors: Sequence[Sequence[float]]) -> None:
        """Take in what an embedder answered.

        Raises:
            EmbedderError: it is not a vector for each text, all of one size, of finite numbers; or there
                are too many.
        """
        for (name, _), vector in zip(texts, self._checked(vectors, len(texts)), strict=True):
            if self._asked.pop(name, None) is not None:
                self._questions[name] = vector
            elif name not in self._places:
                self._places[name] = self._place(vector) if vector.size else UNREADABLE

    def _checked(self, answer: Sequence[Sequence[float]], count: int) -> list[Any]:
        try:
            vectors = [np.asarray(numbers, np.float32) for numbers in answer]
        except (TypeError, ValueError) as error:
            raise EmbedderError("the embedder answered no lists of numbers") from error
        if len(vectors) != count:
            raise EmbedderError(f"the embedder answered {len(vectors)} vectors for {count} texts")
        old_vectors = [self._matrix] if self._count else []
        old_vectors += [vector for vector in self._questions.values() if vector.size]
        sizes = {vector.shape[-1] for vector in old_vectors} | {
            vector.size for vector in vectors if vector.size
        }
        if len(sizes) > 1 or any(
            vector.ndim != 1 or not np.isfinite(vector).all() for vector in vectors
        ):
            raise EmbedderError(
                f"the embedder answered vectors of {sorted(sizes)} numbers, or some that are not finite; "
                "expected one size, and finite numbers"
            )
        return [vector / (float(np.linalg.norm(vector)) or 1.0) for vector in vectors]

    def _place(self, vector: Any) -> int:
        """Where a new vector stands; the matrix is doubled where it is full."""
        place, matrix = self._count, self._matrix
        if place == len(matrix):
            if matrix.nbytes > MOST_BYTES:
                raise EmbedderError(f"the session has more than {MOST_BYTES} bytes of vectors")
            more = np.zeros((max(64, place), vector.size), np.float32)
            matrix = self._matrix = np.concatenate([matrix, more]) if place else more
        matrix[place] = vector
        self._count += 1
        return place

    def meaning(self, question: str, name_of: Callable[[int], str]) -> Meaning:
        """What entries are given for a question that was embedded; `name_of` their numbers are the ids."""
        question_vector, places = self._questions[question], self._places

        def worth(numbers: Sequence[int], lends: int, unit: int) -> Sequence[int]:
            at = np.fromiter(
                (places.get(name_of(n), UNREADABLE) for n in numbers), np.int64, len(numbers)
            )
            mask = at != UNREADABLE
            if not mask.any():
                return []
            cosines = _cosines(self._matrix, at[mask], question_vector)
            near = np.zeros(len(numbers), np.float32)
            near[mask] = cosines
            return digits(near, mask, lends, unit)

        return worth


def _cosines(vectors: Any, places: Any, question_vector: Any) -> Any:
    """Of the vectors at some places with the one that is asked, all seen from the mean of those.

    What all have in common tells nothing. Vectors have the size 1, so that none needs to be moved or copied.
    """
    count = np.bincount(places, minlength=len(vectors)).astype(np.float32)
    mean = count @ vectors / len(places)
    of = question_vector - mean
    dots = vectors @ of - mean @ of
    sizes = np.sqrt(np.maximum(1.0 - 2.0 * (vectors @ mean) + mean @ mean, 0.0))
    return (dots / np.maximum(sizes * np.linalg.norm(of), LEAST))[places]
