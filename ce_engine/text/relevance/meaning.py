"""How near entries are to a question by their vectors, as sets of positions that `tally` adds up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


WEIGHT = 0.06
"""Of a cosine that is one standard deviation above the mean of the session's entries."""

BESIDE = 0.4
"""What an entry lends of its own to the one before it and the one behind it."""

MOST = 6.0
"""Standard deviations that count; what is below the mean counts nothing."""

SPREAD = 0.05
"""The standard deviation is taken for no less: among a few like entries it says nothing."""

SAME = 0.95
"""A cosine above which an entry is the question itself, and tells nothing of how near others are."""

Meaning = Callable[[Sequence[int], int, int], Sequence[int]]
"""Of entries' numbers, with the set of positions that lend to what is around them, and what 1 is worth:
sets of positions, by the binary digit that each has in what it is given."""


def digits(cosines: Any, has_vector: Any, lends: int, unit: int) -> list[int]:
    """What positions are given for their meaning, in binary: the set of those with digit 0, with digit 1, ...

    Args:
        cosines: of each position with the question, a NumPy array.
        has_vector: whether it has a vector, a NumPy array of bools.
        lends: the set of positions that lend to those beside them.
        unit: what a score of 1 is worth.
    """
    import numpy as np  # noqa: PLC0415 - needed with an embedder only

    others = cosines[has_vector & (cosines < SAME)]
    if not others.size:
        return []
    near = np.where(has_vector, (cosines - others.mean()) / max(float(others.std()), SPREAD), 0.0)
    lent = BESIDE * np.where(bits(lends, len(near)), near, 0.0)
    near[1:] += lent[:-1]
    near[:-1] += lent[1:]
    worth = np.rint(np.clip(near, 0.0, MOST) * WEIGHT * unit).astype(np.int64)
    return [
        int.from_bytes(np.packbits(worth >> digit & 1 == 1, bitorder="little").tobytes(), "little")
        for digit in range(int(worth.max()).bit_length())
    ]


def bits(members: int, size: int) -> Any:
    """A set as a NumPy array of bools."""
    import numpy as np  # noqa: PLC0415 - needed with an embedder only

    packed = np.frombuffer(members.to_bytes(size // 8 + 1, "little"), dtype=np.uint8)
    return np.unpackbits(packed, count=size, bitorder="little").astype(bool)
