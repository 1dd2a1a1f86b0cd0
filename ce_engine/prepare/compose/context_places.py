"""Which places of retrieved documents are the context that an app put into its prompt, and which are words of its own."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Collection, Iterator, Mapping, Sequence

from ce_engine.prepare.sources import QuotedSpan
from ce_engine.text.relevance.passages import BETWEEN, clusters


RULE = 500
"""Characters of a system message that a document may repeat, and that are the app's own all the same."""

SENTENCE = 250
"""The same of what stands by itself where no documents stand together: a rule, or how a question begins."""

Places = Mapping[int, Sequence[QuotedSpan]]
"""By message."""

Block = tuple[int, Sequence[QuotedSpan]]
"""The places that stand together in a message."""


def context_places(spans: Places, systems: Collection[int]) -> dict[int, list[QuotedSpan]]:
    """The places that may be shortened: a document may repeat a rule of the app's, or a person quote it.

    What stands among other documents is context; in a system message only what is long, and stands together nowhere
    else: two documents may repeat two rules. What stands by itself is, where it is long and stands nowhere else.
    Where nobody can tell, it stays whole: a document that was found need not have come into the prompt.
    """
    blocks: list[Block] = [
        (index, block) for index, places in spans.items() for block in clusters(places, _between)
    ]
    together = [(index, block) for index, block in blocks if len(_ranks(block)) > 1]
    beside = [_ranks(block) for index, block in together if index not in systems]
    together = [
        (index, block)
        for index, block in together
        if index not in systems
        or (_size(block) > RULE and not any(_ranks(block) <= ranks for ranks in beside))
    ]
    there = {(index, rank) for index, block in together for rank in _ranks(block)}
    alone = [
        (index, block)
        for index, block in blocks
        if len(_ranks(block)) == 1
        and (
            _size(block) > (RULE if together and index in systems else SENTENCE)
            or (index not in systems and (index, block[0].rank) in there)
        )
    ]
    context: dict[int, list[QuotedSpan]] = {}
    for index, block in together:
        context.setdefault(index, []).extend(_nearest(block))
    for index, block in _parts(together, alone):
        context.setdefault(index, []).extend(block)
    return context


def _parts(together: Sequence[Block], alone: Sequence[Block]) -> Iterator[Block]:
    """What stands by itself, and is a document or a part of one, and no copy."""
    sizes_together: dict[int, set[tuple[int, int]]] = {}
    for index, block in together:
        for span in block:
            sizes_together.setdefault(span.rank, set()).add((index, span.end - span.start))
    totals: Tally[tuple[int, int]] = Tally()
    times: Tally[tuple[int, int]] = Tally()
    for index, block in alone:
        totals[block[0].rank, index] += _size(block)
        times[block[0].rank, _size(block)] += 1
    for index, block in alone:
        rank, size = block[0].rank, _size(block)
        known = sizes_together.get(rank)
        others = [total for (other, n), total in totals.items() if other == rank and n != index]
        if known is not None:
            is_part = any(n == index for n, _ in known) and (index, size) not in known
        else:
            is_part = times[rank, size] == 1 and totals[rank, index] > max(others, default=0)
        if is_part:
            yield index, block


def _between(before: QuotedSpan, after: QuotedSpan) -> int:
    """Long documents may have long headers."""
    return max(BETWEEN, min(before.end - before.start, after.end - after.start) // 2)


def _ranks(block: Sequence[QuotedSpan]) -> set[int]:
    return {span.rank for span in block}


def _size(block: Sequence[QuotedSpan]) -> int:
    return sum(span.end - span.start for span in block)


def _nearest(block: Sequence[QuotedSpan]) -> Iterator[QuotedSpan]:
    """Of places with as much of one document, those that are nearest to another one."""
    gaps = dict[QuotedSpan, int]()
    for span in block:
        others = [other for other in block if other.rank != span.rank]
        gaps[span] = min(max(o.start - span.end, span.start - o.end) for o in others)
    least: dict[tuple[int, int], int] = {}
    for span, gap in gaps.items():
        key = span.rank, span.end - span.start
        least[key] = min(gap, least.get(key, gap))
    yield from (
        span for span, gap in gaps.items() if gap == least[span.rank, span.end - span.start]
    )
