"""Which facts go in: what is given, and what relevance finds, best first, as much as fits (A-10, D-02)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ce_engine.prepare.derive import evidence_block
from ce_engine.prepare.material import Material
from ce_engine.prepare.render import Locale, Snippet, excerpt, knowledge, snippet_line
from ce_engine.prepare.sources import Candidate
from ce_engine.schema.document import ContextBlock


FLOOR = 0.25
"""Share of its kind's best score that a candidate needs; 0.25 costs hardly any recall, 0.4 loses answers."""

ALWAYS = 4
"""The best few candidates are let through whatever they score: an answer may share no word with its question."""

FRAMING = 8
"""Tokens that a new message or a join may cost beyond its text; an upper bound."""


def nominate(
    found: Sequence[Candidate],
    query: str,
    *,
    left: int,
    most: int,
    count: Callable[[str], int],
    terms: Callable[[str], Sequence[str]],
    locale: Locale,
) -> list[tuple[Candidate, ContextBlock]]:
    """Candidates with their blocks, at most `most`, while `left` tokens last; long ones as excerpts."""
    wanted = frozenset(terms(query))
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
        snippet = replace(snippet, text=excerpt(snippet.text, wanted, terms, cap))
        cost = count(snippet_line(snippet, locale)) + 2
        if cost > left:
            continue
        left -= cost
        block = evidence_block(candidate.id, snippet.evidence_id, cost, snippet.at)
        chosen.append((replace(candidate, snippet=snippet), block))
    return chosen


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
