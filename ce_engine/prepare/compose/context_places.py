"""Which places of retrieved documents are the context that an app put into its prompt, and which are words of its own."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Collection, Iterator, Mapping, Sequence

from ce_engine.prepare.sources import QuotedSpan


BETWEEN = 240
"""Characters that may stand between two documents of one context, or two messages of one conversation: labels,
and what is too short to know."""

Places = Mapping[int, Sequence[QuotedSpan]]
"""By message."""


def context_places(spans: Places, systems: Collection[int]) -> dict[int, list[QuotedSpan]]:
    """The places that may be shortened: a document may repeat a rule of the app's, or a person quote it.

    What stands among other documents is context. What stands by itself is, where it stands nowhere else; in a
    system message, only where no documents stand together anywhere. Where nobody can tell, it stays whole.
    """
    blocks = [(index, block) for index, places in spans.items() for block in _blocks(places)]
    together = [(index, block) for index, block in blocks if len(_ranks(block)) > 1]
    alone = [(index, block) for index, block in blocks if len(_ranks(block)) == 1]
    known = set[int]().union(*(_ranks(block) for _, block in together))
    times = Tally(block[0].rank for _, block in alone)
    context: dict[int, list[QuotedSpan]] = {}
    for index, block in together:
        context.setdefault(index, []).extend(_nearest(block))
    for index, block in alone:
        rank = block[0].rank
        if rank in known or times[rank] > 1 or (together and index in systems):
            continue
        context.setdefault(index, []).extend(block)
    return context


def _blocks(places: Sequence[QuotedSpan]) -> Iterator[list[QuotedSpan]]:
    """The places of a text that stand together."""
    block = list[QuotedSpan]()
    for span in sorted(places, key=lambda span: span.start):
        if block and span.start - block[-1].end > BETWEEN:
            yield block
            block = []
        block.append(span)
    if block:
        yield block


def _ranks(block: Sequence[QuotedSpan]) -> set[int]:
    return {span.rank for span in block}


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
