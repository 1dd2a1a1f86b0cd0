"""Relevance for random entries: what a search may return, and that only the entries matter."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ce_engine.text.relevance.relevance import LexicalIndex
from ce_engine.text.relevance.tally import Tally, best, scored


SPOKEN = (
    "bees roses budget Kubernetes adopted running 48213 8 May 2023 yesterday three Ann Bob I you when "
    "what 蜜蜂 玫瑰 集群 昨天 三 我 你 什么时候 東京 タワー 꿀벌 부산 ?"
)
SENTENCES = st.lists(st.sampled_from(SPOKEN.split()), max_size=8).map(" ".join) | st.text(
    max_size=30
)
DAYS = st.none() | st.dates().map(str) | st.sampled_from(["2023-05-08", "2023-05-09", "soon"])
ENTRIES = st.lists(
    st.tuples(
        SENTENCES,
        st.sampled_from([None, "Ann", "Bob", "user", "assistant", "小明"]),
        DAYS,
        st.sampled_from(["message", "rag_doc"]),
    ),
    max_size=60,
)
Entries = list[tuple[str, str | None, str | None, str]]


def add(index: LexicalIndex, entries: Entries, start: int = 0) -> LexicalIndex:
    for n, (text, speaker, at, kind) in enumerate(entries, start=start):
        index.add(n, text, speaker=speaker, at=at, kind=kind)
    return index


@given(ENTRIES, SENTENCES, st.data())
def test_in_one_go_or_in_two_is_the_same(entries: Entries, query: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(entries)))
    grown = add(LexicalIndex(), entries[:cut])
    grown.search(query, limit=5)
    add(grown, entries[cut:], start=cut)
    whole = add(LexicalIndex(), entries)
    assert grown.search(query, limit=20) == whole.search(query, limit=20)
    assert (len(grown), grown.bytes) == (len(whole), whole.bytes)


@given(
    ENTRIES,
    SENTENCES,
    st.sets(st.integers(0, 59)),
    st.sets(st.integers(0, 59)),
    st.integers(0, 70),
    st.integers(0, 70),
    st.integers(0, 70),
)
def test_what_a_search_may_return(
    entries: Entries,
    query: str,
    removed: set[int],
    excluded: set[int],
    start: int,
    stop: int,
    limit: int,
) -> None:
    index = add(LexicalIndex(), entries)
    for n in removed:
        index.remove(n)
    allowed = set(range(len(entries))) - removed
    assert len(index) == len(allowed)
    hits = index.search(query, limit=limit, exclude=excluded.__contains__, among=range(start, stop))
    allowed &= set(range(start, stop)) - excluded
    assert {hit.n for hit in hits} <= allowed
    assert len({hit.n for hit in hits}) == len(hits) <= limit
    assert all(math.isfinite(hit.score) and hit.score > 0 for hit in hits)
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.n))


@given(ENTRIES, SENTENCES, st.integers(0, 30))
def test_a_lower_limit_returns_the_head(entries: Entries, query: str, limit: int) -> None:
    index = add(LexicalIndex(), entries)
    assert index.search(query, limit=limit) == index.search(query, limit=100)[:limit]


@given(ENTRIES, SENTENCES)
def test_an_index_emptied_by_removal_finds_nothing(entries: Entries, query: str) -> None:
    index = add(LexicalIndex(), entries)
    index.search(query, limit=100)
    for n in range(len(entries)):
        index.remove(n)
    assert index.search(query, limit=100) == []


# Weights that a tally holds exactly: three leading bits.
EXACT = st.builds(lambda leading, bit: leading << bit, st.integers(1, 7), st.integers(0, 6))


@given(
    st.lists(st.tuples(st.sets(st.integers(0, 90)), EXACT), max_size=60),
    st.sets(st.integers(0, 90)),
    st.integers(0, 40),
)
def test_sums_and_the_best_of_them(
    weighted: list[tuple[set[int], int]], among: set[int], count: int
) -> None:
    def mask(positions: set[int]) -> int:
        return sum(1 << position for position in positions)

    tally = Tally()
    sums = dict.fromkeys(range(91), 0)
    for positions, weight in weighted:
        tally.add(mask(positions), weight)
        for position in positions:
            sums[position] += weight
    ranked = sorted((p for p in among if sums[p]), key=lambda p: (-sums[p], p))[:count]
    total = tally.total()
    assert scored(total, best(total, mask(among), count)) == [(sums[p], p) for p in ranked]
