"""Which facts go in: what is given, and what relevance finds, best first, as much as fits (A-10, D-02)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ce_engine.prepare.derive import evidence_block
from ce_engine.prepare.material import Material
from ce_engine.prepare.pins import Pin
from ce_engine.prepare.render import Locale, Snippet, excerpt, knowledge, snippet_line, some_of
from ce_engine.prepare.sources import Candidate, Sources
from ce_engine.quote import quote
from ce_engine.schema.document import ContextBlock


FLOOR = 0.25
"""Share of its kind's best score that a candidate needs; 0.25 costs hardly any recall, 0.4 loses answers."""

ALWAYS = 4
"""The best few candidates are let through whatever they score: an answer may share no word with its question."""

FRAMING = 8
"""Tokens that a new message or a join may cost beyond its text; an upper bound."""


FEW, SHORT = 16, 32
"""As many candidates are looked at first as fill the room with this many tokens each, and at least so many."""


NEAR = 0.85
"""Share of the score of the nearest message that goes out which another needs to be added to a prefix."""

MESSAGE = "m:"
"""What ids of candidates that are messages begin with; scores compare within one kind."""


@dataclass(slots=True)
class Nominated:
    """Candidates with their blocks, the tokens that are left, and whether one did not fit, or not as a whole."""

    chosen: list[tuple[Candidate, ContextBlock]]
    left: int
    missed: bool


def nominate(
    found: Sequence[Candidate],
    query: str,
    *,
    left: int,
    most: int,
    sources: Sources,
    locale: Locale,
) -> Nominated:
    """Take candidates, at most `most`, while `left` tokens last; long ones as excerpts."""
    wanted: frozenset[str] | None = None
    left -= sources.count(quote(knowledge([], locale), locale)) + FRAMING
    # A long document must not take the whole room: the best sentences of several say more.
    cap = max(240, left)
    chosen: list[tuple[Candidate, ContextBlock]] = []
    seen: set[str] = set()
    for candidate in found[:most]:
        if left <= FRAMING:
            break
        snippet = candidate.snippet
        if snippet.text in seen:
            continue
        seen.add(snippet.text)
        kept = f"{candidate.id} {snippet.evidence_id}" if candidate.stored else ""
        if len(snippet.text) > cap:
            kept = ""
            wanted = frozenset(sources.terms(query)) if wanted is None else wanted
            candidate = _shorter(candidate, wanted, sources, cap)  # noqa: PLW2901 - the same, shorter
            snippet = candidate.snippet
        cost = _cost(kept, snippet, sources, locale)
        if cost > left:
            continue
        left -= cost
        chosen.append(
            (candidate, evidence_block(candidate.id, snippet.evidence_id, cost, snippet.at))
        )
    texts = {candidate.snippet.text for candidate in found[:most]}
    missed = len(chosen) < len(texts) or any(len(text) > cap for text in texts)
    return Nominated(chosen, left, missed)


def _cost(name: str, snippet: Snippet, sources: Sources, locale: Locale) -> int:
    """Tokens of a snippet's line; counted once where it has a name."""
    known = sources.costs.get(name)
    if known is None:
        known = sources.count(snippet_line(snippet, locale)) + 2
        if name:
            sources.costs[name] = known
    return known


def _shorter(candidate: Candidate, wanted: frozenset[str], sources: Sources, cap: int) -> Candidate:
    """A candidate with the best of its sentences; the beginning of one that is too long says nothing again."""
    text = candidate.snippet.text
    part = excerpt(text, wanted, sources.terms, cap)
    short = some_of(text, part) if part else text[:cap]
    return replace(
        candidate,
        snippet=replace(candidate.snippet, text=short),
        sentences=part,
        stored=candidate.stored and bool(part),
    )


def pin_of(chosen: Iterable[Candidate], locale: Locale) -> Pin | None:
    """What stays of those that go out: what is stored; the others are for one call alone."""
    stored = [candidate for candidate in chosen if candidate.stored]
    if not stored:
        return None
    found = (candidate.snippet.evidence_id for candidate in stored)
    return Pin(
        quote(knowledge([candidate.snippet for candidate in stored], locale), locale),
        locale,
        tuple((candidate.id, candidate.sentences) for candidate in stored),
        tuple(dict.fromkeys(evidence_id for evidence_id in found if evidence_id)),
    )


def parted(
    chosen: Sequence[Candidate], locale: Locale, *, stays: bool
) -> tuple[Pin | None, list[Snippet]]:
    """What will stay before the question, and what is for this call alone, each in order of time."""
    ordered = sorted(chosen, key=lambda found: (found.snippet.at, found.order))
    pin = pin_of(ordered, locale) if stays else None
    return pin, [found.snippet for found in ordered if pin is None or not found.stored]


def worth_adding(
    found: Sequence[Candidate], pinned: Collection[str], nearest: Callable[[], float] | None
) -> list[Candidate]:
    """What is not there yet, and of messages only what is about as near as those that are there.

    Args:
        found: candidates.
        pinned: ids of those that stand before earlier questions.
        nearest: gives the score of the nearest message that goes out; `None` to take what there is.
    """
    new = [candidate for candidate in found if candidate.id not in pinned]
    if nearest is None or not any(candidate.id.startswith(MESSAGE) for candidate in new):
        return new
    there = [c.score for c in found if c.id in pinned and c.id.startswith(MESSAGE)]
    least = NEAR * max([nearest(), *there])
    return [c for c in new if c.score > least or not c.id.startswith(MESSAGE)]


def given(materials: Sequence[Material]) -> list[Candidate]:
    """Facts that a source gave, best first."""
    found = [
        Candidate(
            m.id, Snippet("document", m.text, m.source, m.at, m.evidence_id), m.score or 0.0, order
        )
        for order, m in enumerate(materials)
    ]
    return sorted(found, key=lambda candidate: -candidate.score)


def relevant(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, best first, without those that are far behind the best one of their kind."""
    best: dict[str, float] = {}
    kept: list[Candidate] = []
    for candidate in candidates:
        top = best.setdefault(candidate.id[:2], candidate.score)
        if candidate.score >= FLOOR * top or len(kept) < ALWAYS:
            kept.append(candidate)
    return kept
