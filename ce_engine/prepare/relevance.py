"""Which older messages and pieces of evidence a question needs, found by their words, without a model.

Every entry has a position, and a term's posting is a bit mask over positions. So the masks of what is
near a match, of a day's talk, of a speaker and of a date are all made with a few shifts and carries of
one big integer, and scores of all entries are added up at once, one bit of the score at a time. A
search costs some dozens of such operations whatever the session's length; only what is returned is
looked at one by one.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from operator import itemgetter
from typing import NamedTuple

from ce_engine.prepare.terms import (
    Day,
    asks_how_many,
    asks_when,
    dates,
    header,
    ordinal,
    tells_number,
    tells_time,
    term_set,
    tokens,
)


# Weights. A question's terms share out 1 by their rarity (the idf of BM25); an entry that has them all
# in itself, and so in its neighbourhood and its day, gets OWN + NEXT + NEAR + DAY. Presence alone
# counts: on LoCoMo and CMRC neither term frequency nor length added anything to it.
OWN = 0.3
NEXT = 0.15  # the term is in the entry or beside it: answers follow questions
NEAR = 0.2  # ... or two entries away: what a talk is about outlasts a turn
DAY = 0.35  # the term fell on the same day
SPEAKER = 0.2  # the question names who speaks
DATE = 1.0  # it names the very day: nothing is stronger
AFTER = 0.9  # people tell what they did some days later; less each day, gone after FOLLOWING
MONTH = 0.3  # it names the month or the year
WHEN = 0.075  # "when" meets an expression of time
HOW_MANY = 0.04  # "how many" meets a number

UNIT = 256
"""Scores are sums of whole numbers of 1/256."""

FOLLOWING = 14
"""Days after a named day that its story may still be told."""

DAYS = 16
"""Days of talk, at most, that lend their score."""

TERMS = 48
"""Terms of a question that count, the rarest first: a pasted page must not cost more than a question."""

LONG = 80
"""Distinct terms from which an entry is a document: it has many words by its length alone."""

LONG_SHARE = 0.6
"""What a document's own terms count for; to its neighbours and its day it lends nothing."""

STRETCH = 24
"""Entries without a date that count as one day's talk."""

SPARSE = 24
"""Positions from which a posting is kept as a mask; below it a list is smaller."""


class Hit(NamedTuple):
    """An entry that a question may need; scores compare within one search."""

    n: int
    score: float


class _Tally:
    """Adds weights to sets of positions given as masks, for all positions at once."""

    def __init__(self) -> None:
        self._columns: list[list[int]] = []

    def add(self, mask: int, weight: float) -> None:
        """Give `weight`, rounded to two leading bits, to every position in `mask`."""
        whole = int(weight + 0.5)
        bit = max(0, whole.bit_length() - 2)
        coarse = int(weight / (1 << bit) + 0.5)
        columns = self._columns
        while coarse > 0:
            if coarse & 1:
                while len(columns) <= bit:
                    columns.append([])
                columns[bit].append(mask)
            coarse >>= 1
            bit += 1

    def total(self) -> list[int]:
        """The sums in binary: a mask for every bit, lowest first (carry-save addition)."""
        sums: list[int] = []
        columns = self._columns
        for bit, column in enumerate(columns):
            if len(column) > 1 and bit + 1 == len(columns):
                columns.append([])
            while len(column) > 2:
                a, b, c = column.pop(), column.pop(), column.pop()
                odd = a ^ b
                column.append(odd ^ c)
                columns[bit + 1].append(a & b | odd & c)
            if len(column) == 2:
                a, b = column
                sums.append(a ^ b)
                columns[bit + 1].append(a & b)
            else:
                sums.append(column[0] if column else 0)
        return sums


def _best(sums: Sequence[int], among: int, count: int) -> int:
    """The `count` positions with the highest sums; of equals at the edge the oldest."""
    some = 0
    for mask in sums:
        some |= mask
    sure, level = 0, among & some
    for mask in reversed(sums):
        upper = sure | level & mask
        size = upper.bit_count()
        if size > count:
            level &= mask
        else:
            sure, level = upper, level & ~mask
            if size == count:
                return sure
    for _ in range(count - sure.bit_count()):
        sure |= level & -level
        level &= level - 1
    return sure


def _positions(mask: int) -> Iterator[int]:
    digits = f"{mask:b}"[::-1]
    at = digits.find("1")
    while at >= 0:
        yield at
        at = digits.find("1", at + 1)


def _scored(sums: Sequence[int], mask: int) -> list[tuple[int, int]]:
    """(score, position) of every position in `mask`, best first, the older of equals first."""
    positions = list(_positions(mask))
    if not positions:
        return []
    # One byte a position: gather the byte that holds its bit of a sum, leave the bit alone, and make
    # it 0 or 1; then all positions' scores grow together, eight bits of them to a number.
    size, count = max(map(int.bit_length, sums)) // 8 + 1, len(positions)
    gather = itemgetter(*[position >> 3 for position in positions], 0)
    where = int.from_bytes(bytes([1 << (position & 7) for position in positions]), "little")
    ones = int.from_bytes(b"\1" * count, "little")
    parts = [0] * ((len(sums) + 7) // 8)
    for bit, row in enumerate(sums):
        held = int.from_bytes(bytes(gather(row.to_bytes(size, "little"))[:-1]), "little") & where
        parts[bit >> 3] |= (((held + 127 * ones) >> 7) & ones) << (bit & 7)
    low, *more = (part.to_bytes(count, "little") for part in parts)
    scores = list(low)
    for level, part in enumerate(more, start=1):
        scores = [score | value << (8 * level) for score, value in zip(scores, part, strict=True)]
    return sorted(zip(scores, positions, strict=True), key=lambda pair: -pair[0])


class LexicalIndex:
    """The words of a session's messages and evidence, searchable; grows by one entry at a time.

    Entries are added in ascending `n`. Nothing is read but what is handed in, nothing is random, and an
    index depends only on what was added and removed, not on when.
    """

    def __init__(self) -> None:
        self._ns: list[int] = []
        # A term's positions: of one entry `-1 - position`, of a few a list, of more a mask.
        self._postings: dict[str, int | list[int]] = {}
        self._speakers: dict[str, int] = {}
        self._starts: list[int] = []
        self._days: list[int | None] = []
        self._ends = self._alive = self._lends = self._long = self._timed = self._numbered = 0
        self._dense = self._listed = 0

    def __len__(self) -> int:
        return self._alive.bit_count()

    @property
    def bytes(self) -> int:
        """Memory that the index takes, roughly."""
        mask = len(self._ns) // 7 + 40
        fixed = 120 * len(self._ns) + 140 * len(self._postings)
        lists = 100 * (len(self._postings) - self._dense) + 9 * self._listed
        return fixed + lists + mask * (self._dense + len(self._speakers) + 6)

    def add(
        self,
        n: int,
        text: str,
        *,
        speaker: str | None = None,
        at: str | None = None,
        kind: str = "message",
    ) -> None:
        """Index an entry, once in its life; the cost is linear in its text.

        Args:
            n: its number, above every number before.
            text: what it says. A leading date and name (`[8 May 2023] Ann: ...`) are understood.
            speaker: who says it: a name or a role.
            at: when, ISO 8601. A date in the text's head counts more.
            kind: `message`, or what it is else: only messages lend their words to what is around.

        Raises:
            ValueError: `n` is not above the last one.
        """
        if self._ns and n <= self._ns[-1]:
            raise ValueError(f"entry {n} came after {self._ns[-1]}; add entries in ascending order")
        position = len(self._ns)
        bit = 1 << position
        head = header(text)
        words = set(tokens(text[head.start :]))
        found = term_set(words)
        self._ns.append(n)
        self._alive |= bit
        self._extend(position, head.day or _day(at))
        for name in {head.speaker, (speaker or "").lower()} - {""}:
            self._speakers[name] = self._speakers.get(name, 0) | bit
        if len(found) >= LONG:
            self._long |= bit
        elif kind == "message":
            self._lends |= bit
        if tells_time(words):
            self._timed |= bit
        if tells_number(words):
            self._numbered |= bit
        self._post(position, bit, found)

    def _extend(self, position: int, day: int | None) -> None:
        """Put the next position into the running day's talk, or begin one."""
        bit = 1 << position
        running = self._starts and self._days[-1] == day
        if running and (day is not None or position - self._starts[-1] < STRETCH):
            self._ends ^= bit | bit >> 1
        else:
            self._starts.append(position)
            self._days.append(day)
            self._ends |= bit

    def _post(self, position: int, bit: int, found: set[str]) -> None:
        postings = self._postings
        for term in found:
            posting = postings.get(term)
            if posting is None:
                postings[term] = ~position
            elif isinstance(posting, list):
                posting.append(position)
                self._listed += 1
                if len(posting) > SPARSE:
                    postings[term] = _mask(posting)
                    self._listed -= len(posting)
                    self._dense += 1
            else:
                postings[term] = posting | bit if posting >= 0 else [~posting, position]
                self._listed += 2 * (posting < 0)

    def search(
        self,
        query: str,
        *,
        limit: int,
        exclude: Callable[[int], bool] | None = None,
        among: range | None = None,
    ) -> list[Hit]:
        """The entries that the query may need, best first, the newer of equals first.

        Args:
            limit: hits at most.
            exclude: numbers that must not come; asked for the best entries only.
            among: numbers (a range with step 1) that may come; `None` for all.
        """
        sums = self._score(query)
        allowed = self._alive
        if among is not None:
            low, high = (bisect_left(self._ns, edge) for edge in (among.start, among.stop))
            allowed &= _range(low, max(low, high))
        if not sums or limit <= 0:
            return []
        seen = 0
        while best := _best(sums, allowed, limit):
            refused = 0
            if exclude is not None:
                for position in _positions(best & ~seen):
                    if exclude(self._ns[position]):
                        refused |= 1 << position
            if not refused:
                break
            seen |= best
            allowed &= ~refused
        return [Hit(self._ns[p], score / UNIT) for score, p in _scored(sums, best)]

    def _score(self, query: str) -> list[int]:
        """Sums of all entries for the query; empty where it says nothing to go by."""
        words = set(tokens(query))
        tally = _Tally()
        found = self._add_terms(tally, term_set(words))
        found |= self._add_speakers(tally, query.lower())
        found |= self._add_dates(tally, dates(query))
        if not found:
            return []
        if asks_when(words):
            tally.add(self._timed, UNIT * WHEN)
        if asks_how_many(words):
            tally.add(self._numbered, UNIT * HOW_MANY)
        return tally.total()

    def _add_terms(self, tally: _Tally, wanted: set[str]) -> bool:
        known: list[tuple[float, str, int]] = []
        for term in wanted:
            posting = self._postings.get(term)
            if posting is not None:
                mask = _mask(posting)
                known.append((_idf(len(self), mask.bit_count()), term, mask))
        known.sort(reverse=True)
        del known[TERMS:]
        unit = UNIT / (sum(idf for idf, _, _ in known) or 1)
        days = _Tally()
        inside = (1 << len(self._ns)) - 1 & ~self._ends
        for idf, _, own in known:
            lent = own & self._lends
            beside = own | lent << 1 | lent >> 1
            near = beside | lent << 2 | lent >> 2
            share = idf * unit
            if own & self._long:
                tally.add(own & self._long, share * OWN * LONG_SHARE)
                tally.add(own & ~self._long, share * OWN)
            else:
                tally.add(own, share * OWN)
            tally.add(beside, share * NEXT)
            tally.add(near, share * NEAR)
            # Adding ones to all but a day's last position carries into it from any that is set.
            said = ((lent & inside) + inside | lent) & self._ends
            days.add(said, _idf(len(self._starts), said.bit_count()) * unit * DAY)
        if len(self._starts) > 1:
            self._add_days(tally, days.total())
        return bool(known)

    def _add_days(self, tally: _Tally, sums: list[int]) -> None:
        if not sums:
            return
        for score, end in _scored(sums, _best(sums, self._ends, DAYS)):
            start = self._starts[bisect_right(self._starts, end) - 1]
            tally.add(_range(start, end + 1), score)

    def _add_speakers(self, tally: _Tally, query: str) -> bool:
        """Who is named first is most often the one who said it; others count half."""
        named = sorted(
            (place, name) for name in self._speakers if (place := _named(name, query)) >= 0
        )
        for rank, (_, name) in enumerate(named):
            tally.add(self._speakers[name], UNIT * SPEAKER / (1 + (rank > 0)))
        return bool(named)

    def _add_dates(self, tally: _Tally, named: list[Day]) -> bool:
        known = [day for day in self._days if day]
        if not named or not known:
            return False
        years = range(date.fromordinal(min(known)).year, date.fromordinal(max(known)).year + 1)
        spans = list(_spans(named, years))
        ends = [*self._starts[1:], len(self._ns)]
        found = False
        for start, end, day in zip(self._starts, ends, self._days, strict=True):
            if day and (weight := _closeness(day, spans)):
                found = True
                tally.add(_range(start, end), UNIT * weight)
        return found


def choose(hits: Sequence[Hit], cost: Callable[[int], int], budget_tokens: int) -> list[int]:
    """Take hits by score while they fit, passing over what does not; return them in original order.

    Args:
        hits: best first.
        cost: tokens of an entry as it will be rendered.
        budget_tokens: what they may cost together.
    """
    chosen: list[int] = []
    left = budget_tokens
    for hit in hits:
        tokens_of = cost(hit.n)
        if tokens_of <= left:
            chosen.append(hit.n)
            left -= tokens_of
    return sorted(chosen)


def _idf(total: int, holding: int) -> float:
    return math.log1p((total - holding + 0.5) / (holding + 0.5))


def _mask(posting: int | list[int]) -> int:
    if isinstance(posting, int):
        return posting if posting >= 0 else 1 << ~posting
    mask = 0
    for position in posting:
        mask |= 1 << position
    return mask


def _range(start: int, end: int) -> int:
    return (1 << end) - (1 << start)


def _day(at: str | None) -> int | None:
    try:
        return date.fromisoformat(at[:10]).toordinal() if at else None
    except ValueError:
        return None


def _named(name: str, query: str) -> int:
    """Where the query names the speaker, -1 if it does not."""
    place = query.find(name)
    if place < 0 or not name.isascii():
        return place
    end = place + len(name)
    if (place and query[place - 1].isalnum()) or (end < len(query) and query[end].isalnum()):
        return -1
    return place


def _spans(named: list[Day], years: range) -> Iterator[tuple[int, int, float]]:
    """(first, last, weight) of the days that are named; without a year, in each of `years`."""
    for year, month, day in named:
        for y in [year] if year else years:
            first, last = (y, month or 1, day or 1), (y, month or 12, day or 31)
            weight = DATE if day else MONTH
            begin, end = ordinal(Day(*first)), ordinal(Day(*last))
            if begin and not day:
                following = (y + 1, 1, 1) if month in (None, 12) else (y, (month or 0) + 1, 1)
                end = date(*following).toordinal() - 1
            if begin and end:
                yield begin, end, weight


def _closeness(day: int, spans: Sequence[tuple[int, int, float]]) -> float:
    """What a day's talk counts: all of the weight within a span, less each day after it."""
    best = 0.0
    for first, last, weight in spans:
        if first <= day <= last:
            best = max(best, weight)
        elif last < day <= last + FOLLOWING:
            best = max(best, weight * AFTER * (1 - (day - last) / (FOLLOWING + 1)))
    return best
