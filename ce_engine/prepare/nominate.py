"""Which facts go in: what is given, and what relevance finds, best first, as much as fits (A-10, D-02)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ce_engine.prepare.derive import evidence_block
from ce_engine.prepare.material import Material
from ce_engine.prepare.pins import Pin
from ce_engine.prepare.render import Locale, Snippet, excerpt, knowledge, snippet_line, some_of
from ce_engine.prepare.sources import Candidate, Sources
from ce_engine.schema.document import ContextBlock


FLOOR = 0.25
"""Share of its kind's best score that a candidate needs; 0.25 costs hardly any recall, 0.4 loses answers."""

ALWAYS = 4
"""The best few candidates are let through whatever they score: an answer may share no word with its question."""

FRAMING = 8
"""Tokens that a new message or a join may cost beyond its text; an upper bound."""


FEW, SHORT = 16, 32
"""As many candidates are looked at first as fill the room with this many tokens each, and at least so many."""


@dataclass(slots=True)
class Nominated:
    """Candidates with their blocks, and the tokens that are left."""

    chosen: list[tuple[Candidate, ContextBlock]]
    left: int


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
    count, costs = sources.count, sources.costs
    wanted: frozenset[str] | None = None
    left -= count(knowledge([], locale)) + FRAMING
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
            part = excerpt(snippet.text, wanted, sources.terms, cap)
            short = some_of(snippet.text, part) if part else snippet.text[:cap]
            snippet = replace(snippet, text=short)
            stored = candidate.stored and bool(part)
            candidate = replace(  # noqa: PLW2901 - the same, shorter
                candidate, snippet=snippet, sentences=part, stored=stored
            )
        cost = costs.get(kept)
        if cost is None:
            cost = count(snippet_line(snippet, locale)) + 2
            if kept:
                costs[kept] = cost
        if cost > left:
            continue
        left -= cost
        block = evidence_block(candidate.id, snippet.evidence_id, cost, snippet.at)
        chosen.append((candidate, block))
    return Nominated(chosen, left)


def pin_of(chosen: Iterable[Candidate], locale: Locale) -> Pin | None:
    """What stays of those that go out: what is stored; the others are for one call alone."""
    stored = [candidate for candidate in chosen if candidate.stored]
    if not stored:
        return None
    found = (candidate.snippet.evidence_id for candidate in stored)
    return Pin(
        knowledge([candidate.snippet for candidate in stored], locale),
        locale,
        tuple((candidate.id, candidate.sentences) for candidate in stored),
        tuple(dict.fromkeys(evidence_id for evidence_id in found if evidence_id)),
    )


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
