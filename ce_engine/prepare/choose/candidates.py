"""Which facts go in: what is given, and what relevance finds, best first, as much as fits (A-10, D-02)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ce_engine.prepare.blocks.material import Material
from ce_engine.prepare.choose.anchored_context import Pin
from ce_engine.prepare.choose.prune import LEAST_CHARS
from ce_engine.prepare.compose.render import (
    Locale,
    Snippet,
    day_line,
    day_told,
    excerpt,
    knowledge,
    left_out,
    snippet_line,
    some_of,
)
from ce_engine.prepare.compose.sections import FRAMING
from ce_engine.prepare.sources import Candidate, CandidateSources
from ce_engine.schema.document import ContextBlock, Ref
from ce_engine.schema.enums import BlockType, Priority
from ce_engine.schema.report import PruneDecision
from ce_engine.text.quote import quote
from ce_engine.text.relevance.exact_names import exact_names, says


FLOOR = 0.15
"""Share of its kind's best score that a candidate needs; 0.15 costs no recall, 0.25 some where there is room."""

ALWAYS = 4
"""The best few candidates are let through whatever they score: an answer may share no word with its question."""

OVER_BUDGET = "over_budget"
"""It needs more tokens than were free."""
OVER_LENGTH = "over_length"
"""It is too long for one piece, and none of its sentences can stand for it."""
OVER_RESERVE = "over_reserve"
"""Tokens are free, and kept so that a new cut lasts: the question does not go back."""
OVER_SHARE = "over_share"
"""Tokens are free, and kept so that an agent's next cut does not follow soon."""
OVER_CREDIT = "over_credit"
"""Tokens are free, and the session's calls have not saved as much by now."""
NOT_NEARER = "not_nearer"
"""The question does not go back, and what stands there already is as near to it."""
BELOW_FLOOR = "below_floor"
"""It scores far less than the best of its kind."""

WITHOUT_ROOM = frozenset({OVER_BUDGET, OVER_CREDIT, OVER_RESERVE})
"""Why a piece that was to go in did not."""

LONG, CHARS_A_TOKEN = 20_000, 4
"""A longer text is not counted for saying that it did not go in; it has about a token for so many characters."""

TOLD = 200
"""Pieces that nobody looked at which have a decision each; the rest have one together."""

FEW, SHORT = 16, 16
"""As many candidates are looked at first as fill the room with this many tokens each, and at least so many."""


LEAST = 8
"""Tokens that a sentence needs to say anything."""

MESSAGE = "m:"
"""What ids of candidates that are messages begin with; scores compare within one kind."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """Tokens that are free, and yet none of what may be brought back: `why` one that would fit stays out."""

    tokens: int = 0
    why: str = OVER_BUDGET


@dataclass(frozen=True, slots=True)
class RoomShares:
    """Where the tokens go that are free for what comes back; all but `parts` add up to them.

    `around`: the words around quotes; `for_pieces`: for so many `pieces`; `left` is below 0 where there were fewer than
    `around`. `parts`: of pieces whose best sentences did not fit, by id, what those need and what was left then.
    """

    around: int
    for_pieces: int
    pieces: int
    left: int
    withheld: Withheld
    parts: Mapping[str, tuple[int, int]]


@dataclass(slots=True)
class Nomination:
    """Candidates with their blocks, and the tokens that are left.

    `missed`: one did not fit, or not as a whole; `excerpts` are the ids of the latter, and `decisions` tells
    of each of the others why it is not among them; after `tell`, of all.
    """

    choices: list[tuple[Candidate, ContextBlock]]
    left: int
    missed: bool = False
    excerpts: set[str] = field(default_factory=set)
    decisions: list[PruneDecision] = field(default_factory=list)
    around: int = 0
    withheld: Withheld = field(default_factory=Withheld)
    parts: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def shares(self) -> RoomShares:
        """Where the tokens went."""
        tokens = sum(block.token_estimate for _, block in self.choices)
        count, left = len(self.choices), self.left
        return RoomShares(self.around, tokens, count, left, self.withheld, self.parts)

    def take(self, candidate: Candidate, cost: int, *, is_part: bool) -> None:
        """Let a candidate in, for so many tokens, or its best sentences alone."""
        if is_part:
            self.excerpts.add(candidate.id)
            self.missed = True
        self.left -= cost
        self.choices.append((candidate, candidate_block(candidate, cost)))

    def miss(self, decision: PruneDecision) -> None:
        """Leave one out that had no room."""
        self.decisions.append(decision)
        self.missed = True

    def starves(self, near: Sequence[Candidate]) -> bool:
        """Whether not even what is nearest to the question found room: then the prefix ends soon anyway."""
        nearest = best(near).id
        return any(d.block_id == nearest and d.reason in WITHOUT_ROOM for d in self.decisions)

    def with_free(self, withheld: Withheld) -> Nomination:
        """The same, told of what stayed out for what is withheld: smaller ones may have taken the room since."""
        free = max(0, self.left + withheld.tokens)
        for decision in self.decisions if withheld.tokens else ():
            if decision.reason == withheld.why and decision.token_estimate > free:
                decision.reason, decision.room = OVER_BUDGET, free
        return self

    def tell(self, pruned: Mapping[str, PruneDecision], went: Collection[str]) -> None:
        """Take in what the pruner decided on the chosen, of which some `went` in, by their ids."""
        for name, decision in pruned.items():
            if decision.action != "dropped" and name not in went:
                decision.action, decision.reason = "dropped", "over_budget"
            elif decision.action == "kept" and name in self.excerpts:
                decision.action, decision.reason = "degraded", "excerpt"
        self.decisions = [*pruned.values(), *self.decisions]


@dataclass(slots=True)
class Headings:
    """The days and years that have a heading, and what one more costs; `today` alone has none."""

    sources: CandidateSources
    locale: Locale
    today: str = ""
    days: set[str] = field(default_factory=lambda: {""})

    def cost(self, day: str) -> int:
        """Tokens of the headings that something of a day brings with it."""
        if day in self.days or (day == self.today and self.days == {""}):
            return 0
        is_first = self.days == {"", self.today, self.today[:4]}
        return self._cost(day) + (self._cost(self.today) if is_first else 0)

    def _cost(self, day: str) -> int:
        year = day[:4] if day[:4] in self.days else ""
        kind = "heading of a day" if year else "heading of a year"
        cost = self.sources.costs.get(kind)
        if cost is None:
            cost = self.sources.count(f"{day_line(day, self.locale, year)}\n")
            self.sources.costs[kind] = cost
        return cost


class SentenceChooser:
    """The best sentences of what is too long for the room.

    A long document must not take all of it: the best sentences of several say more.
    """

    def __init__(self, query: str, sources: CandidateSources, locale: Locale, left: int) -> None:
        self.query, self.sources, self.locale = query, sources, locale
        self.cap = max(240, left)
        self.wanted: frozenset[str] | None = None

    def is_long(self, whole: Candidate, room: int) -> bool:
        """Whether a candidate has more than `cap` characters or, where it is to have it, does not fit `room`."""
        is_over = room > 0 and cost_of(whole, self.sources, self.locale) > room
        return is_over or len(whole.snippet.text) > self.cap

    def fitting(self, whole: Candidate, room: int) -> Candidate:
        """The best sentences within `cap` characters and `room` tokens; too much where few fit or none."""
        short, frame = self._of(whole, self.cap), self._cost(with_text(whole, ""))
        while (cost := self._cost(short)) > room >= frame + LEAST:
            chars = len(short.snippet.text) * (room - frame) // (cost - frame) * 9 // 10
            closer = self._of(whole, chars)
            if not closer.sentences and chars < LEAST_CHARS:
                break
            short = closer
        return short

    def _cost(self, candidate: Candidate) -> int:
        return cost_of(candidate, self.sources, self.locale, is_whole=False)

    def _of(self, whole: Candidate, chars: int) -> Candidate:
        """Some sentences; the beginning of one that is too long says nothing again."""
        if self.wanted is None:
            self.wanted = frozenset(self.sources.terms(self.query))
        text = whole.snippet.text
        part = excerpt(text, self.wanted, self.sources.terms, chars)
        return replace(
            whole,
            snippet=replace(whole.snippet, text=some_of(text, part) if part else text[:chars]),
            sentences=part,
            is_stored=whole.is_stored and bool(part),
        )


NOTHING_WITHHELD = Withheld()


def nominate(
    candidates: Sequence[Candidate],
    query: str,
    *,
    left: int,
    most: int,
    headings: Headings,
    stays: bool,
    withheld: Withheld = NOTHING_WITHHELD,
) -> Nomination:
    """Take candidates, at most `most`, while `left` tokens last; long ones as excerpts.

    Where what goes in `stays`, what is stored goes in only as it can be rendered again; values of a result go in
    whole or not.
    One that must go in (`Priority.MUST`) goes in whole, whatever is left. Beside `left` there are tokens that are
    `withheld`.
    """
    sources, locale, seen = headings.sources, headings.locale, set[tuple[str, str]]()
    around = sources.count(quote(knowledge([], locale), locale)) + FRAMING
    left -= around
    nomination = Nomination([], left, around=around, withheld=withheld)
    shorter = SentenceChooser(query, sources, locale, left)
    for place, whole in enumerate(candidates):
        text, must = _repeat_key(whole.snippet), whole.priority is Priority.MUST
        if (is_again := text in seen) or (place >= most and not must):
            why = "duplicate" if is_again else "over_limit"
            nomination.decisions.append(lost_decision(whole, sources, locale, why))
            continue
        seen.add(text)
        has_room = must or nomination.left > FRAMING
        # The best of all goes in as far as it fits, rather than a worse one or none.
        room = 0 if nomination.choices else left - headings.cost(day_told(whole.snippet))
        may_be_cut = has_room and not (must or whole.snippet.says_all)
        is_excerpt = may_be_cut and shorter.is_long(whole, room)
        candidate = shorter.fitting(whole, room or left) if is_excerpt else whole
        has_room &= candidate.is_stored or not (stays and whole.is_stored)
        cost = cost_of(candidate, sources, locale, is_whole=not is_excerpt) if has_room else 0
        day = day_told(candidate.snippet) if 0 < cost <= nomination.left else ""
        cost += headings.cost(day)
        if not has_room or (cost > nomination.left and not must):
            nomination.miss(_without_room(nomination, whole, cost, headings, is_part=is_excerpt))
            continue
        headings.days |= {day, day[:4]}
        nomination.take(candidate, cost, is_part=is_excerpt)
    return nomination.with_free(withheld)


def to_the_point(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates without notes on evidence that is not among them."""
    evidence_ids = {candidate.snippet.evidence_id for candidate in candidates}
    return [c for c in candidates if not c.about or c.about & evidence_ids]


def _without_room(
    nomination: Nomination, whole: Candidate, cost: int, headings: Headings, *, is_part: bool
) -> PruneDecision:
    """The decision on a candidate that did not fit: what it needs, what was free, and why it was no more.

    The `cost` is that of its best sentences where it `is_part`, 0 where none was counted.
    """
    withheld = nomination.withheld
    if is_part and cost:
        nomination.parts[whole.id] = cost, max(0, nomination.left)
    decision = lost_decision(whole, headings.sources, headings.locale, OVER_BUDGET)
    decision.token_estimate = max(decision.token_estimate, cost)
    free = max(0, nomination.left)
    if decision.token_estimate <= free:  # its sentences say nothing, and as a whole it is too long
        decision.reason = OVER_LENGTH
        return decision
    if decision.token_estimate <= nomination.left + withheld.tokens:
        decision.reason = withheld.why
    else:
        free = max(0, nomination.left + withheld.tokens)
    decision.room = free
    return decision


def _repeat_key(snippet: Snippet) -> tuple[str, str]:
    """What must not be said twice: of values of a result, with the call that they answer."""
    return snippet.name if snippet.says_all else "", snippet.text


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


def lost_decision(
    candidate: Candidate, sources: CandidateSources, locale: Locale, why: str
) -> PruneDecision:
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
    decisions = [
        PruneDecision(
            block_id=name, action="dropped", reason=why, token_estimate=chars // CHARS_A_TOKEN
        )
        for name, chars in rest
        if name not in there
    ]
    beyond = decisions[TOLD:]
    if beyond:
        beyond[0].count = len(beyond)
        beyond[0].token_estimate = sum(decision.token_estimate for decision in beyond)
    return [*decisions[:TOLD], *beyond[:1]]


def with_text(candidate: Candidate, text: str) -> Candidate:
    """The candidate with another text: for this call alone."""
    snippet = replace(candidate.snippet, text=text, says_all=False)
    return replace(candidate, snippet=snippet, is_stored=False)


def cost_of(
    candidate: Candidate, sources: CandidateSources, locale: Locale, *, is_whole: bool = True
) -> int:
    """Tokens of a candidate's line; counted once where it is stored and `is_whole`."""
    snippet = candidate.snippet
    name = f"{candidate.id} {snippet.evidence_id}" if candidate.is_stored and is_whole else ""
    cost = sources.costs.get(name)
    if cost is None:
        cost = sources.count(f"{snippet_line(snippet, locale)}\n")
        if name:
            sources.costs[name] = cost
    return cost


def cost_together(
    candidates: Iterable[Candidate], sources: CandidateSources, locale: Locale
) -> int:
    """Tokens of candidates with the frame that they stand in."""
    snippets = [candidate.snippet for candidate in candidates]
    return sources.count(quote(knowledge(snippets, locale), locale)) + 2 * FRAMING


def pin_of(
    candidates: Iterable[Candidate], locale: Locale, today: str, steps: Sequence[Sequence[str]] = ()
) -> Pin | None:
    """What stays of those that go out: what is stored; the others are for one call alone.

    Args:
        candidates: in their order.
        locale: the language.
        today: the day of the message that it stands before.
        steps: those of this turn that are left out: of each the evidence of its results.
    """
    stored_candidates = [candidate for candidate in candidates if candidate.is_stored]
    if not (stored_candidates or steps):
        return None
    snippets = [candidate.snippet for candidate in stored_candidates]
    parts = [
        knowledge(snippets, locale, today) if stored_candidates else "",
        left_out(steps, locale),
    ]
    return Pin(
        quote("\n".join(filter(None, parts)), locale),
        locale,
        tuple((candidate.id, candidate.sentences) for candidate in stored_candidates),
        tuple(dict.fromkeys(s.evidence_id for s in snippets if s.evidence_id)),
        tuple(map(tuple, steps)),
    )


def parted(
    candidates: Sequence[Candidate], make: Callable[[Sequence[Candidate]], Pin | None] | None
) -> tuple[Pin | None, list[Snippet]]:
    """What will stay before the question, if one can be made, and what is for this call alone, by time."""
    ordered = sorted(candidates, key=lambda candidate: (candidate.snippet.at, candidate.order))
    pin = make(ordered) if make is not None else None
    return pin, [
        candidate.snippet for candidate in ordered if pin is None or not candidate.is_stored
    ]


def goes_back(
    candidates: Iterable[Candidate],
    pinned: Collection[str],
    around: Callable[[], float],
    share: float = 1.0,
) -> bool:
    """Whether a question goes back to what was said earlier: something of it is nearer than the talk around it.

    Args:
        candidates: what was found.
        pinned: ids of those that stand before earlier questions, which are not counted.
        around: gives the score of the nearest of the messages right before the question, which lends them its words.
        share: of that score, what another one needs.
    """
    new = (c.score for c in candidates if c.id.startswith(MESSAGE) and c.id not in pinned)
    nearest = max(new, default=0.0)
    return nearest > 0.0 and nearest > share * around()


def named_alone(
    candidates: Sequence[Candidate], query: str, there: Callable[[], Iterable[str]]
) -> list[Candidate]:
    """What users said of what the question names exactly, where nothing that goes out says it.

    What many of them say is no name of anything. Answers and results of tools come back by what is taken from them.

    Args:
        candidates: what was found, best first.
        query: the question.
        there: gives the texts that go out, without the question.
    """
    matches: dict[str, Candidate] = {}
    for name in exact_names(query):
        is_said = says(name)
        saying = [c for c in candidates if c.snippet.kind == "user" and is_said(c.snippet.text)]
        if 0 < len(saying) <= ALWAYS and not any(map(is_said, there())):
            matches |= {candidate.id: candidate for candidate in saying}
    return list(matches.values())


def with_first(firsts: Sequence[Candidate], candidates: Iterable[Candidate]) -> list[Candidate]:
    """What was found, with some before all others."""
    return list({candidate.id: candidate for candidate in (*firsts, *candidates)}.values())


def worth_adding(
    candidates: Sequence[Candidate],
    pinned: Collection[str],
    nearest: Callable[[], float] | None,
    near: float,
    query: str = "",
) -> list[Candidate]:
    """What is not there yet, and of messages only what is about as near as those that are there.

    Args:
        candidates: what was found.
        pinned: ids of those that stand before earlier questions.
        nearest: gives the score of the nearest message that goes out; `None` to take what there is.
        near: share of that score which another one needs.
        query: what is asked; the same question, asked before, answers nothing, however near it is.
    """
    new = [candidate for candidate in candidates if candidate.id not in pinned]
    if nearest is None or not any(candidate.id.startswith(MESSAGE) for candidate in new):
        return new
    there = nearest_pinned(candidates, pinned, query)
    least = near * max(nearest(), there.score if there is not None else 0.0)
    return [c for c in new if c.score > least or not c.id.startswith(MESSAGE)]


def nearest_pinned(
    candidates: Iterable[Candidate], pinned: Collection[str], query: str
) -> Candidate | None:
    """The nearest message of those that stand quoted before earlier questions, but for the same question."""
    asks = query.strip().casefold()
    there = (
        c
        for c in candidates
        if c.id in pinned and c.id.startswith(MESSAGE) and c.snippet.text.strip().casefold() != asks
    )
    return max(there, key=lambda c: c.score, default=None)


def with_results(
    settled: Sequence[Candidate],
    candidates: Iterable[Candidate],
    results: Iterable[Candidate],
    *,
    best: bool,
    answers: bool,
) -> list[Candidate]:
    """Tool results, and what is relevant behind them, but for notes, given facts and the `best`, which stand before.

    The best are one of each kind, for their scores do not compare, the shorter first. Of the `candidates`, what is not `settled` was taken out by a conflict. Answers say again what was in results, but not all of them
    in a talk that goes on: there they come back, too.
    """
    notes = [c for c in settled if not c.is_stored]
    others = [c for c in settled if c.is_stored]
    rest = (c for c in others if answers or c.snippet.kind != "assistant")
    out = {candidate.id for candidate in candidates} - {candidate.id for candidate in settled}
    firsts = (
        {candidate.id[: len(MESSAGE)]: candidate for candidate in reversed(others)} if best else {}
    )
    candidates_by_id: dict[str, Candidate] = {}
    shorter = sorted(firsts.values(), key=lambda c: len(c.snippet.text))
    for candidate in (*notes, *shorter, *results, *rest):
        if candidate.id not in out:
            candidates_by_id.setdefault(candidate.id, candidate)
    return list(candidates_by_id.values())


def fact_candidates(materials: Sequence[Material]) -> list[Candidate]:
    """Facts that a source gave, best first; before all what must go in."""
    candidates = [
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
    return sorted(candidates, key=lambda c: (c.priority is not Priority.MUST, -c.score))


def best(near: Sequence[Candidate]) -> Candidate:
    """What is nearest to the question: of what was said, if there is any."""
    return max(near, key=lambda candidate: (candidate.id.startswith(MESSAGE), candidate.score))


def relevant(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, best first, without those that are far behind the best one of their kind."""
    best: dict[str, float] = {}
    survivors: list[Candidate] = []
    for candidate in candidates:
        top = best.setdefault(candidate.id[:2], candidate.score)
        if candidate.score >= FLOOR * top or len(survivors) < ALWAYS:
            survivors.append(candidate)
    return survivors
