"""Which facts go in: what is given, and what relevance finds, best first, as much as fits (A-10, D-02)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ce_engine.prepare.material import Material
from ce_engine.prepare.pins import Pin
from ce_engine.prepare.prune import LEAST_CHARS
from ce_engine.prepare.render import Locale, Snippet, excerpt, knowledge, snippet_line, some_of
from ce_engine.prepare.sections import FRAMING
from ce_engine.prepare.sources import Candidate, Sources
from ce_engine.quote import quote
from ce_engine.schema.document import ContextBlock, Ref
from ce_engine.schema.enums import BlockType, Priority
from ce_engine.schema.report import PruneDecision


FLOOR = 0.25
"""Share of its kind's best score that a candidate needs; 0.25 costs hardly any recall, 0.4 loses answers."""

ALWAYS = 4
"""The best few candidates are let through whatever they score: an answer may share no word with its question."""

LONG, CHARS_A_TOKEN = 20_000, 4
"""A longer text is not counted for saying that it did not go in; it has about a token for so many characters."""

TOLD = 200
"""Pieces that nobody looked at which have a decision each; the rest have one together."""

FEW, SHORT = 16, 32
"""As many candidates are looked at first as fill the room with this many tokens each, and at least so many."""


NEAR = 0.85
"""Share of the score of the nearest message that goes out which another needs to be added to a prefix."""

MESSAGE = "m:"
"""What ids of candidates that are messages begin with; scores compare within one kind."""


@dataclass(slots=True)
class Nominated:
    """Candidates with their blocks, and the tokens that are left.

    `missed`: one did not fit, or not as a whole; `excerpts` are the ids of the latter, and `decisions` tells
    of each of the others why it is not among them; after `tell`, of all.
    """

    chosen: list[tuple[Candidate, ContextBlock]]
    left: int
    missed: bool = False
    excerpts: set[str] = field(default_factory=set)
    decisions: list[PruneDecision] = field(default_factory=list)

    def tell(self, pruned: Mapping[str, PruneDecision], went: Collection[str]) -> None:
        """Take in what the pruner decided on the chosen, of which some `went` in, by their ids."""
        for name, decision in pruned.items():
            if decision.action != "dropped" and name not in went:
                decision.action, decision.reason = "dropped", "over_budget"
            elif decision.action == "kept" and name in self.excerpts:
                decision.action, decision.reason = "degraded", "excerpt"
        self.decisions = [*pruned.values(), *self.decisions]


def nominate(
    found: Sequence[Candidate],
    query: str,
    *,
    left: int,
    most: int,
    sources: Sources,
    locale: Locale,
) -> Nominated:
    """Take candidates, at most `most`, while `left` tokens last; long ones as excerpts.

    One that must go in (`Priority.MUST`) goes in whole, whatever is left.
    """
    wanted: frozenset[str] | None = None
    left -= sources.count(quote(knowledge([], locale), locale)) + FRAMING
    # A long document must not take the whole room: the best sentences of several say more.
    cap = max(240, left)
    made = Nominated([], left)
    seen: set[str] = set()
    for place, whole in enumerate(found):
        candidate, must = whole, whole.priority is Priority.MUST
        if (is_again := whole.snippet.text in seen) or (place >= most and not must):
            why = "duplicate" if is_again else "over_limit"
            made.decisions.append(lost(whole, sources, locale, why))
            continue
        seen.add(whole.snippet.text)
        is_excerpt = len(whole.snippet.text) > cap and not must
        has_room = must or made.left > FRAMING
        if is_excerpt and has_room:
            wanted = frozenset(sources.terms(query)) if wanted is None else wanted
            candidate = _fitting(whole, wanted, sources, cap, left, locale)
        cost = cost_of(candidate, sources, locale, known=not is_excerpt) if has_room else 0
        if not has_room or (cost > made.left and not must):
            made.decisions.append(lost(whole, sources, locale, "over_budget"))
            made.missed = True
            continue
        if is_excerpt:
            made.excerpts.add(whole.id)
            made.missed = True
        made.left -= cost
        made.chosen.append((candidate, candidate_block(candidate, cost)))
    return made


def candidate_block(candidate: Candidate, tokens: int) -> ContextBlock:
    """The block that a candidate is to a pruner."""
    snippet = candidate.snippet
    evidence = bool(snippet.evidence_id) or snippet.kind == "document"
    return ContextBlock(
        block_id=candidate.id,
        block_type=BlockType.EVIDENCE if evidence else BlockType.CONVERSATION,
        priority=candidate.priority,
        token_estimate=tokens,
        content=snippet.text,
        refs=[Ref(evidence_id=snippet.evidence_id)] if snippet.evidence_id else [],
        created_at=snippet.at or None,
        sensitivity=candidate.sensitivity,
    )


def lost(candidate: Candidate, sources: Sources, locale: Locale, why: str) -> PruneDecision:
    """The decision on a candidate that does not go in."""
    chars = len(candidate.snippet.text)
    tokens = cost_of(candidate, sources, locale) if chars <= LONG else chars // CHARS_A_TOKEN
    return PruneDecision(block_id=candidate.id, action="dropped", reason=why, token_estimate=tokens)


def not_looked_at(
    rest: Sequence[tuple[str, int]], there: Collection[str], why: str
) -> list[PruneDecision]:
    """Decisions on evidence that nobody looked at; on what is beyond `TOLD` pieces, one.

    Args:
        rest: ids and characters.
        there: ids of candidates that stand in the input already.
        why: the reason.
    """
    told = [
        PruneDecision(
            block_id=name, action="dropped", reason=why, token_estimate=chars // CHARS_A_TOKEN
        )
        for name, chars in rest
        if name not in there
    ]
    beyond = told[TOLD:]
    if beyond:
        beyond[0].count = len(beyond)
        beyond[0].token_estimate = sum(decision.token_estimate for decision in beyond)
    return [*told[:TOLD], *beyond[:1]]


def with_text(candidate: Candidate, text: str) -> Candidate:
    """The candidate with another text: for this call alone."""
    return replace(candidate, snippet=replace(candidate.snippet, text=text), stored=False)


def cost_of(candidate: Candidate, sources: Sources, locale: Locale, *, known: bool = True) -> int:
    """Tokens of a candidate's line; counted once where it is stored and is `known` to be whole."""
    snippet = candidate.snippet
    name = f"{candidate.id} {snippet.evidence_id}" if candidate.stored and known else ""
    cost = sources.costs.get(name)
    if cost is None:
        cost = sources.count(snippet_line(snippet, locale)) + 2
        if name:
            sources.costs[name] = cost
    return cost


def _fitting(
    candidate: Candidate,
    wanted: frozenset[str],
    sources: Sources,
    cap: int,
    left: int,
    locale: Locale,
) -> Candidate:
    """The best sentences, of at most `cap` characters and `left` tokens: a character may cost more than one."""
    short = _shorter(candidate, wanted, sources, cap)
    cost = cost_of(short, sources, locale, known=False)
    chars = len(short.snippet.text) * left // cost * 9 // 10
    if cost <= left or chars < LEAST_CHARS:
        return short
    return _shorter(candidate, wanted, sources, chars)


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
    """Facts that a source gave, best first; before all what must go in."""
    found = [
        Candidate(
            m.id,
            Snippet("document", m.text, m.source, m.at, m.evidence_id),
            m.score or 0.0,
            order,
            priority=m.priority,
            sensitivity=m.sensitivity,
        )
        for order, m in enumerate(materials)
    ]
    return sorted(found, key=lambda c: (c.priority is not Priority.MUST, -c.score))


def relevant(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, best first, without those that are far behind the best one of their kind."""
    best: dict[str, float] = {}
    kept: list[Candidate] = []
    for candidate in candidates:
        top = best.setdefault(candidate.id[:2], candidate.score)
        if candidate.score >= FLOOR * top or len(kept) < ALWAYS:
            kept.append(candidate)
    return kept
