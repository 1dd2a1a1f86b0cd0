"""Weighted sets of positions, added up for all positions at once: a set is one big integer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter


class Tally:
    """Adds up weights of sets of positions, for all positions at once; no sum may reach 65,536."""

    def __init__(self) -> None:
        self._columns: list[list[int]] = []

    def add(self, members: int, weight: float, feature: str = "") -> None:  # noqa: ARG002 - for `FeatureTally`
        """Give `weight`, rounded to its three leading bits, to the positions in `members`, for a `feature`."""
        bit = max(0, int(weight + 0.5).bit_length() - 3)
        leading = int(weight / (1 << bit) + 0.5)
        columns = self._columns
        while leading > 0:
            if leading & 1:
                while len(columns) <= bit:
                    columns.append([])
                columns[bit].append(members)
            leading >>= 1
            bit += 1

    def total(self) -> list[int]:
        """Every position's sum in binary: the positions with bit 0 set, with bit 1 set, ...

        Three sets of one bit become their parity, which stays, and their majority, which carries.
        """
        sums: list[int] = []
        columns = self._columns
        for bit, column in enumerate(columns):  # grows while carries go up
            if len(column) > 1 and bit + 1 == len(columns):
                columns.append([])
            while len(column) > 2:
                a, b, c = column.pop(), column.pop(), column.pop()
                odd = a ^ b
                column.append(odd ^ c)
                columns[bit + 1].append(a & b | odd & c)
            if len(column) == 2:
                a, b = column
                columns[bit + 1].append(a & b)
                column[:] = [a ^ b]
            sums.append(column[0] if column else 0)
        return sums


class FeatureTally(Tally):
    """Adds up the same, and remembers what one position was given for which feature."""

    def __init__(self, position: int) -> None:
        super().__init__()
        self._bit = 1 << position
        self.found: dict[str, float] = {}

    def add(self, members: int, weight: float, feature: str = "") -> None:
        super().add(members, weight, feature)
        if members & self._bit:
            self.found[feature] = self.found.get(feature, 0.0) + weight


def best(sums: Sequence[int], among: int, count: int) -> int:
    """The `count` positions with the highest sums above 0; of equals at the edge the oldest."""
    some = 0
    for members in sums:
        some |= members
    sure, level = 0, among & some
    for members in reversed(sums):
        upper = sure | level & members
        size = upper.bit_count()
        if size > count:
            level &= members
        else:
            sure, level = upper, level & ~members
            if size == count:
                return sure
    for _ in range(count - sure.bit_count()):
        sure |= level & -level
        level &= level - 1
    return sure


def scored(sums: Sequence[int], members: int) -> list[tuple[int, int]]:
    """(sum, position) of the positions in `members`, best first, the older of equals first."""
    places = list(positions(members))
    if not places:
        return []
    # A number with one byte for each position: gather the bytes that hold their bits, leave those bits
    # alone, make them 0 or 1, and put eight bits of the sums together in each byte.
    size, count = max(map(int.bit_length, sums)) // 8 + 1, len(places)
    gather = itemgetter(*[position >> 3 for position in places], 0)
    mask = int.from_bytes(bytes([1 << (position & 7) for position in places]), "little")
    ones = int.from_bytes(b"\1" * count, "little")
    low = high = 0
    for bit, row in enumerate(sums):
        bits = int.from_bytes(bytes(gather(row.to_bytes(size, "little"))[:-1]), "little") & mask
        bits = ((bits + 127 * ones) >> 7) & ones
        if bit < 8:
            low |= bits << bit
        else:
            high |= bits << (bit - 8)
    halves = zip(low.to_bytes(count, "little"), high.to_bytes(count, "little"), strict=True)
    scores = [lower | upper << 8 for lower, upper in halves]
    return sorted(zip(scores, places, strict=True), key=lambda pair: -pair[0])


def positions(members: int) -> Iterator[int]:
    """The positions in a set, ascending."""
    digits = f"{members:b}"[::-1]
    at = digits.find("1")
    while at >= 0:
        yield at
        at = digits.find("1", at + 1)


def span(start: int, end: int) -> int:
    """The set of the positions from `start` to before `end`."""
    return (1 << end) - (1 << start)


def members_of(posting: int | list[int]) -> int:
    """The set of the positions of a posting: one, as `-1 - position`; a few, as a list; or a set."""
    if isinstance(posting, int):
        return posting if posting >= 0 else 1 << ~posting
    members = 0
    for position in posting:
        members |= 1 << position
    return members
