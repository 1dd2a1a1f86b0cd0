"""The order of the stages: from a line of messages to a plan within the limit, with every decision told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate

from ce_engine.config import RuntimeConfig
from ce_engine.ports.pruner import Pruner
from ce_engine.prepare.blocks.material import Material
from ce_engine.prepare.choose.anchored_context import HeldPins, Pin
from ce_engine.prepare.choose.budget import Limit, is_over
from ce_engine.prepare.choose.candidates import (
    BELOW_FLOOR,
    FEW,
    NOT_NEARER,
    OVER_CREDIT,
    OVER_RESERVE,
    OVER_SHARE,
    SHORT,
    Headings,
    Nomination,
    Withheld,
    best,
    cost_of,
    cost_together,
    fact_candidates,
    goes_back,
    lost_decision,
    named_alone,
    nearest_pinned,
    nominate,
    not_looked_at,
    parted,
    pin_of,
    relevant,
    to_the_point,
    with_first,
    with_results,
    with_text,
    worth_adding,
)
from ce_engine.prepare.choose.cut import Cut, CutMarks
from ce_engine.prepare.choose.cutter import Cutter
from ce_engine.prepare.choose.decisions import decisions, steps_left_out
from ce_engine.prepare.choose.groups import Groups
from ce_engine.prepare.choose.policy import CHAT, TOOLS
from ce_engine.prepare.choose.pruner_guard import BlockChooser, is_cut
from ce_engine.prepare.choose.standing_context import FACTS, StandingContext, stand
from ce_engine.prepare.compose.compose import texts_of
from ce_engine.prepare.compose.notes import Notes
from ce_engine.prepare.compose.plan import plan
from ce_engine.prepare.compose.render import knowledge, left_out, replaced
from ce_engine.prepare.compose.sections import FRAMING, Sections
from ce_engine.prepare.compose.shorter_texts import RETRIEVED, saved_in, shorten_texts
from ce_engine.prepare.grouping import split, take_out_repeated
from ce_engine.prepare.message_groups import MessageGroup, MessageItem, MessageLine
from ce_engine.prepare.outcome import Outcome
from ce_engine.prepare.sources import Candidate, CandidateSources
from ce_engine.schema.document import ContextBlock
from ce_engine.schema.report import PruneDecision, RecallReport
from ce_engine.text.relevance.nearness import nearness


def assemble(
    items: Sequence[MessageItem],
    *,
    fixed: int,
    limit: Limit,
    marks: CutMarks,
    config: RuntimeConfig,
    sources: CandidateSources,
    pruner: Pruner,
    inject: bool = True,
) -> Outcome:
    """Run the stages: group, cut, shorten, recall, prune, compose.

    Args:
        items: the line, host messages and stored ones, in order.
        fixed: tokens of tool schemas, response format and the reply's priming.
        limit: what everything together may cost.
        marks: the lane's standing cut. With what is below it, nothing is assembled where it is not told by
            what is above whether it stands or where it moves: all items are needed then.
        config: the run's configuration.
        sources: what the stages ask for.
        pruner: chooses among the candidates.
        inject: whether anything may be brought in (not for helper calls).
    """
    was_cut = marks.budget > 0

    def made(marks: CutMarks) -> Outcome:
        line = split(items, marks.below)
        if is_over(limit, fixed, items):
            take_out_repeated(line, items, sources.says or sources.text)
        run = _Assembly(items, line, fixed, limit, config, sources, pruner, was_cut=was_cut)
        return run.run(marks, inject=inject)

    outcome = made(marks)
    again = [CutMarks(budget=marks.budget, pins=marks.pins), CutMarks()]
    if marks.below:
        again = [CutMarks(below=marks.below, pins=marks.pins)]
    for moved in again:
        if not outcome.crowded:
            break
        outcome = made(moved)
    if marks.below and outcome.crowded:
        outcome.cut.stands = outcome.cut.moved = False
    return outcome


class _Assembly:
    def __init__(
        self,
        items: Sequence[MessageItem],
        line: MessageLine,
        fixed: int,
        limit: Limit,
        config: RuntimeConfig,
        sources: CandidateSources,
        pruner: Pruner,
        *,
        was_cut: bool,
    ) -> None:
        self.items = items
        self.line = line
        self.limit = limit
        self.config = config
        self.sources = sources
        self.given = fixed + sum([item.tokens for item in items if item.index is not None])
        self.fixed = fixed + sum(item.tokens for item in self.line.system)
        self.out = Outcome(
            [], unchanged=False, used=0, before=0, cut=Cut(), line=self.line, alone=sources.alone
        )
        self.groups = Groups(self.out, sources, config.locale)
        self.held = HeldPins(self.out.pins)
        self.sections = Sections(config, sources.count)
        self.chooser = BlockChooser(pruner, config, sources.now)
        self.notes = Notes(self.sections, self.chooser)
        self.steps_out: list[list[str]] = []
        self.free = 0  # tokens for what comes back, those that are withheld included
        self.named: Sequence[Candidate] = ()  # what says what the question names exactly
        task = self._task()
        stays = config.placement == "cache" and task is not None and task.items[0].n is not None
        self.own = task.anchor if task is not None and stays else ""  # who a pin is made for
        self.today = sources.day_of(task.items[0]) if task is not None else ""
        self.cutter = Cutter(
            line, self.own, limit.tokens or 0, config, self.groups, self.held, was_cut=was_cut
        )
        self.policy = self.cutter.policy

    def run(self, marks: CutMarks, *, inject: bool) -> Outcome:
        out, below = self.out, self.line.below
        total = self.cutter.said
        out.before = self.given + (below.tokens + below.saved if below else 0)
        sharing = inject and self.config.enable_share_context
        if sharing:
            out.standing = self._stand(total)
        room = self._room(total) - out.standing.tokens
        if self.limit.tokens is None:
            room = max(room, total)  # the host's own list is never touched
            out.cut = Cut(tokens=total, marks=marks)
        elif sharing and self.policy is TOOLS:
            out.cut = self.cutter.cut_around_pins(room, marks)
        else:
            out.cut = self.cutter.cut(room, marks, self.limit.tokens if sharing else 0)
        if sharing and out.cut.moved and self.policy is not TOOLS:
            spare = self.cutter.spare(out.cut, self._query(), room)
            out.cut = self.cutter.cut(room, marks, self.limit.tokens or 0, spare)
        if below and not (out.cut.stands or (out.cut.moved and self.cutter.moves_alone)):
            out.cut.moved = False
            return out
        if out.cut.tokens > room:
            room += self._shorten_texts(out.cut.tokens - room)
        if sharing and (self.policy is not TOOLS or self.limit.tokens is None):
            self.cutter.hold({} if out.cut.moved else marks.pins)
        self._choose(room, sharing=sharing)
        out.injected_tokens += self.held.tokens
        out.add_evidence(out.standing.evidence | self.notes.evidence)
        out.decisions += [
            *self.held.decisions(),
            *([self.notes.summed] if self.notes.summed is not None else ()),
            *out.standing.decisions,
            *decisions(out, self.cutter.pinned, self.groups.cost),
        ]
        out.used = self.fixed + out.cut.tokens + out.injected_tokens
        out.over_budget = self.limit.tokens is not None and out.used > self.limit.tokens
        plan(out, self.items, self.sources, self.groups.short)
        return out

    def _stand(self, message_tokens: int) -> StandingContext:
        least = sum(group.tokens for group in self.line.groups if group.must)
        unlimited = self.limit.tokens is None
        return stand(
            self.sources.materials,
            room=None if unlimited else self._room(message_tokens),
            size=message_tokens,
            most=self._room(message_tokens) - (message_tokens if unlimited else least) - FRAMING,
            budget=self.config.budget,
            sections=self.sections,
            chooser=self.chooser,
            near=lambda texts: nearness(texts, self._query(), self.sources.terms),
        )

    def _room(self, size: int) -> int:
        """Tokens for messages and what is put in; without a limit, what may be put in is bounded."""
        if self.limit.tokens is None:
            return size + self.limit.inject
        return self.limit.tokens - self.fixed

    def _task(self) -> MessageGroup | None:
        return self.line.groups[self.line.task] if self.line.task is not None else None

    def _shorten_texts(self, over: int) -> int:
        """Leave out what may go of the texts that stay; the tokens that system messages save (decision 6)."""
        out, system = self.out, self.line.system
        groups = [g for n, g in enumerate(self.line.groups) if n not in out.cut.dropped]
        items = [*system, *(item for group in groups for item in group.items)]
        out.shorter = shorten_texts(items, over, self.sources, self.config.locale, self._query)
        out.retrieved_cut = any(short.reason == RETRIEVED for short in out.shorter.values())
        out.saved |= {n: short.saved for n, short in out.shorter.items() if isinstance(n, int)}
        for group in groups:
            saved = saved_in(group.items, out.shorter)
            group.tokens -= saved
            out.cut.tokens -= saved
        saved = saved_in(system, out.shorter)
        self.fixed -= saved
        return saved

    def _choose(self, room: int, *, sharing: bool) -> None:
        """Let the pruner choose among what is above the cut, given facts, and what relevance brings in again."""
        out, line = self.out, self.line
        was_cut = bool(out.cut.dropped or out.cut.shortened or line.below)
        facts = [m for m in self.sources.materials if m.section == FACTS] if sharing else []
        chooses = self.sources.has_more or (self.sources.whole and not self.chooser.keeps_all)
        recalls = sharing and (was_cut or chooses) and self._asks()
        contexts = dict(out.standing.contexts)
        if was_cut:
            state = "looked" if recalls else "chosen_before" if sharing else "off"
            out.recall = RecallReport(state=state)
        if not (was_cut or facts or recalls):
            self._inject(contexts, [], out.cut.tokens + self.held.fit(room - out.cut.tokens))
            return
        left = room - out.cut.tokens - FRAMING
        if sharing and left > 0:
            left -= self._tell(contexts, left)
        notes = room - out.cut.tokens - left
        if self.cutter.in_debt and out.cut.stands and self.held.tokens > left:
            out.crowded = True  # one by one, each of them would end the prefix again
        self.free = left = self.held.fit(left)
        if was_cut:
            left = min(
                left, max(0, self.cutter.returns(out.cut, room, begins=self._begins) - notes)
            )
        if out.recall is not None:
            out.recall.room = max(0, self.free)
        nomination = Nomination([], left)
        if sharing and (left + self.held.tokens > 0 or facts or self.sources.whole):
            nomination = self._candidates(left, facts, recalls=recalls)
        elif recalls and out.recall is not None:
            out.recall.state = "no_room"
        self._let_in(nomination, contexts, room - self.held.tokens, notes)

    def _let_in(
        self, nomination: Nomination, contexts: dict[str, str], room: int, notes: int
    ) -> None:
        """Let the pruner choose among what is above the cut and the nominated; `notes` are tokens of what is told."""
        out, line = self.out, self.line
        positions = [p for p in range(len(line.groups)) if p not in out.cut.dropped]
        candidates = {block.block_id: candidate for candidate, block in nomination.choices}
        spent = notes if candidates or contexts else 0
        blocks = [
            *self.groups.blocks(positions),
            *(block for _, block in reversed(nomination.choices)),
        ]
        fates = self.chooser.choose(blocks, room - spent, partial(self._price, candidates))
        self.groups.prune(positions, fates)
        self.held.leave({line.groups[n].anchor: why for n, why in out.pruned.items()})
        chosen_candidates = [
            candidate if (text := fates[name].text) is None else with_text(candidate, text)
            for name, candidate in candidates.items()
            if fates[name].stays
        ]
        went = self._inject(contexts, to_the_point(chosen_candidates), room)
        nomination.tell({name: fates[name].decision for name in candidates}, went)
        there = self.held.ids
        out.decisions += [
            d for d in nomination.decisions if d.action != "dropped" or d.block_id not in there
        ]
        out.retrieved_cut |= any(map(is_cut, nomination.decisions))

    def _tell(self, contexts: dict[str, str], left: int) -> int:
        """Say what is left out; return the tokens.

        Where results come back, it is a part of the pin with them, and is told when that is chosen: said later, where
        it finds room, it would change what went out.
        """
        if self.policy is not TOOLS or self._asks():
            self.steps_out = steps_left_out(self.line, self.out.cut, self.sources.evidence_of)
        spent = self.notes.tell(contexts, self.out, self.sources, left)
        note = left_out(self.steps_out, self.config.locale)
        if self.policy is not TOOLS:
            return spent + self.notes.add(contexts, "todo__context", note, left - spent)
        new = note and self.own not in self.out.pins
        return spent + (self.sources.count(note) + FRAMING if new else 0)

    def _price(self, candidates: Mapping[str, Candidate], block: ContextBlock) -> int:
        candidate = candidates.get(block.block_id)
        if candidate is None:
            return self.groups.price(block)
        return cost_of(with_text(candidate, block.content), self.sources, self.config.locale)

    def _candidates(self, left: int, facts: Sequence[Material], *, recalls: bool) -> Nomination:
        query, sent_entries = self._query(), self.groups.whole_entries()
        limit = self.config.prune.max_retrieved_chunks
        pinned = sum(len(pin.refs) for pin in self.out.pins.values())
        most = min(limit, max(FEW, left // SHORT) + pinned)
        while True:
            recalled = self.sources.recall(query, sent_entries, most) if recalls else ()
            near = recalled if self.sources.whole else relevant(recalled)
            together = [*fact_candidates(facts), *near]
            # What a conflict says of a text must not tell what may not go out.
            settled = self.sources.settle([c for c in together if not self._is_hidden(c)])
            agreed = {candidate.id for candidate in settled}
            allowed, offered = left, settled
            if recalls and self.policy is TOOLS and self.out.cut.moved:
                allowed, offered = self._with_results(settled, together, sent_entries, left)
            nominated = self._nominated(offered, query, sent_entries, allowed)
            while near and nominated.missed and self._may_release(nominated, near):
                left = allowed = left + self._release()
                nominated = self._nominated(offered, query, sent_entries, left)
            if near and nominated.missed:
                asks_back = partial(self._goes_back, settled, query, sent_entries)
                self.out.crowded |= self._gives_way(nominated, near, asks_back)
            # Others are worse, so that they are looked at only where good ones leave much room.
            if most == limit or len(near) < most or nominated.left < allowed // 4:
                lost_decisions = [
                    *self._explain_lost(together, offered, agreed),
                    *self._below_floor(recalled, near),
                ]
                return self._with_rest(
                    nominated, lost_decisions, len(together), most if recalls else None
                )
            most = limit

    def _with_results(
        self,
        settled: Sequence[Candidate],
        together: Sequence[Candidate],
        sent_entries: frozenset[int],
        left: int,
    ) -> tuple[int, list[Candidate]]:
        """The tokens that may come back where an agent's cut moves, and what is offered: the results that are gone, too."""
        room = self._room(0)
        results = self.sources.results(sent_entries, self.config.prune.max_retrieved_chunks)
        results = [result for result in results if not self._is_hidden(result)]
        allowed = self.cutter.worth(results, left, room, begins=self._begins)
        if self._begins:  # what else its question needs has the rest
            results, allowed = self._within(results, allowed), left
        answers = self.cutter.has_saved(room)
        offered = with_results(settled, together, results, best=self._begins, answers=answers)
        return allowed, offered

    def _may_release(self, nomination: Nomination, near: Sequence[Candidate]) -> bool:
        """Whether what stands before earlier questions may leave for this one."""
        if not (self.policy.makes_room and self.held.costs):
            return False
        if self._is_paid:
            return True
        moves = self.cutter.may_move(self.out.cut, self._room(0))  # then all is chosen anew
        return not moves and nomination.starves(near)

    @property
    def _is_paid(self) -> bool:
        """Whether a prefix may end for this question: so much is saved, or it names something exactly."""
        return bool(self.named) or self.cutter.can_move(self.out.cut)

    def _release(self) -> int:
        """Let what stands before the newest question go that has any; return its tokens."""
        tokens = self.held.release()
        self.free += tokens
        return tokens

    def _gives_way(
        self, nomination: Nomination, near: Sequence[Candidate], asks_back: Callable[[], bool]
    ) -> bool:
        """Whether the cut moves for what found no room: a talk's, or an agent's that is asked back.

        A cut that goes on for it, and still has no room for the nearest, begins anew.
        """
        cutter, cut, room = self.cutter, self.out.cut, self._room(0)
        if self.policy is not TOOLS:
            return (self._is_paid or nomination.starves(near)) and cutter.may_move(cut, room)
        there = {candidate.id for candidate, _ in nomination.choices} | self.held.ids
        is_out = best(near).id not in there
        starves = cutter.is_full(cut, room) or (cutter.goes_on and is_out)
        starves |= any(candidate.id not in there for candidate in self.named)
        starves |= cutter.has_saved(room) and cutter.frees_much(cut, room)
        return self._begins and starves and asks_back()

    def _within(self, results: Sequence[Candidate], tokens: int) -> list[Candidate]:
        """As many of the results, from the first, as cost so many tokens."""
        costs = accumulate(cost_of(result, self.sources, self.config.locale) for result in results)
        return [result for result, cost in zip(results, costs, strict=True) if cost <= tokens]

    def _goes_back(
        self,
        candidates: Sequence[Candidate],
        query: str,
        sent_entries: frozenset[int],
        share: float = 1.0,
    ) -> bool:
        """Whether the question goes back to what was said before the talk around it: it is nearer than a share of it."""
        around = partial(self.sources.around, query, sent_entries, self._task_entry)
        return goes_back(candidates, self._pinned, around, share)

    def _match(self, candidates: Sequence[Candidate], query: str) -> list[Candidate]:
        """What says what the question names exactly, where nothing that goes out does."""

        def there() -> list[str]:
            pins = (pin.text for pin in self.out.pins.values())
            return [*self.groups.texts(), *self.sources.documents(), *pins]

        return named_alone(candidates, query, there)

    @property
    def _task_entry(self) -> int:
        return self.line.groups[self.line.task or 0].items[0].n or 0

    @property
    def _pinned(self) -> set[str]:
        """What stands there whole, by its ids; of the others more may be needed."""
        return {name for pin in self.out.pins.values() for name, part in pin.refs if not part}

    def _explain_lost(
        self, candidates: Sequence[Candidate], settled: Sequence[Candidate], agreed: Collection[str]
    ) -> Iterator[PruneDecision]:
        """Decisions on what was never nominated: too sensitive, out of a conflict, or said by results that go in."""
        stays, there = {candidate.id for candidate in settled}, self.held.ids
        for candidate in candidates:
            if candidate.id in stays or candidate.id in there:
                continue
            why = "said_by_results" if candidate.id in agreed else "conflict"
            why = "sensitivity" if self._is_hidden(candidate) else why
            yield lost_decision(candidate, self.sources, self.config.locale, why)

    def _below_floor(
        self, recalled: Sequence[Candidate], near: Sequence[Candidate]
    ) -> Iterator[PruneDecision]:
        """Decisions on what is far behind the best of its kind."""
        near_ids = {candidate.id for candidate in near} | self.held.ids
        for candidate in recalled:
            if candidate.id not in near_ids and not self._is_hidden(candidate):
                yield lost_decision(candidate, self.sources, self.config.locale, BELOW_FLOOR)

    def _with_rest(
        self,
        nomination: Nomination,
        lost_decisions: Iterable[PruneDecision],
        candidate_count: int,
        most: int | None,
    ) -> Nomination:
        """The same, with decisions on what is lost of the candidates, and on what was not looked at but `most`."""
        nomination.decisions += lost_decisions
        if self.out.recall is not None:
            self.out.recall.most = most or 0
        self.out.shares = nomination.shares
        is_full = candidate_count >= self.config.prune.max_retrieved_chunks
        why = "over_limit" if is_full else "over_budget"
        rest = () if most is None else self.sources.unread()
        nomination.decisions += not_looked_at(rest, self.held.ids, why)
        return nomination

    def _is_hidden(self, candidate: Candidate) -> bool:
        return candidate.sensitivity in self.config.prune.exclude_sensitivity

    def _query(self) -> str:
        """What is asked, without the documents that stand in it."""
        line = self.line
        items = (self._task() or line.groups[-1]).items if line.groups else line.system
        query, spans = self.sources.question_of(items[0])
        return replaced(query, sorted((span.start, span.end, " ") for span in spans))

    def _nominated(
        self, candidates: Sequence[Candidate], query: str, sent_entries: frozenset[int], left: int
    ) -> Nomination:
        if not self.own:
            return self._nominate(candidates, query, left)
        talks = self.policy is CHAT
        self.named = exact_matches = self._match(candidates, query) if self._begins or talks else []
        new = worth_adding(candidates, self._pinned, None, 0.0)
        back = talks and (bool(exact_matches) or self._goes_back(candidates, query, sent_entries))
        if talks and self.out.recall is not None:
            self.out.recall.goes_back = back
            self.out.recall.credit = self.cutter.credit
        if back:
            return self._nominate(
                with_first(exact_matches, new), query, left, is_bought=True, goes_back=True
            )
        stands = self.out.cut.stands
        nearest = (
            partial(self.sources.nearest, query, sent_entries, self._task_entry) if stands else None
        )
        near = with_first(
            exact_matches, worth_adding(candidates, self._pinned, nearest, self.policy.near, query)
        )
        if exact_matches:  # it says the same in no other words: what is free is there for it
            left = max(left, min(self.free, self._cost(exact_matches)))
        if self._is_rich() and self._goes_back(new, query, sent_entries):
            near = with_first(exact_matches, new)
            left = max(left, self.free - int(self._room(0) * self.policy.share))
        least = min(left, self.cutter.refill(self.out.cut, self._room(0), near))
        nomination = self._nominate(near, query, least, is_bought=True)
        may = talks and not (stands and nomination.missed)
        if may and self._goes_back(candidates, query, sent_entries, self.policy.may_go_back):
            share = self.policy.filled if stands else self.policy.refilled
            free = nomination.left + left - least
            most = left - int(free * (1 - share))
            near, nomination = new, self._nominate(new, query, most, is_bought=True)
            nomination.missed = False  # for what may be needed, nothing gives way
        nomination.decisions += self._no_nearer(candidates, near, query)
        return nomination

    def _cost(self, candidates: Sequence[Candidate]) -> int:
        return cost_together(candidates, self.sources, self.config.locale)

    def _is_rich(self) -> bool:
        """Whether an agent's question may cost what a new cut does: its calls have saved that some times over."""
        return self.policy is TOOLS and self._begins and self.cutter.has_saved(self._room(0))

    def _no_nearer(
        self, candidates: Sequence[Candidate], near: Sequence[Candidate], query: str
    ) -> Iterator[PruneDecision]:
        """Decisions on what is not near enough beside what goes out; and by what that was measured."""
        pinned = nearest_pinned(candidates, self._pinned, query)
        self.out.near_pin = (pinned.id, pinned.score) if pinned is not None else None
        self.out.near_share = self.policy.near
        there = {candidate.id for candidate in near} | self._pinned
        for candidate in candidates:
            if candidate.id not in there:
                yield lost_decision(candidate, self.sources, self.config.locale, NOT_NEARER)

    def _nominate(
        self,
        candidates: Sequence[Candidate],
        query: str,
        left: int,
        *,
        is_bought: bool = False,
        goes_back: bool = False,
    ) -> Nomination:
        """Nominate within `left` tokens, and what `is_bought` within what the session has saved."""
        why = OVER_SHARE if self.policy is TOOLS else OVER_RESERVE
        most = left
        if is_bought:
            most = self.cutter.affordable(
                self.out.cut, candidates, left, self.named, goes_back=goes_back
            )
        if most < left:
            left, why = most, OVER_CREDIT
        nomination = self._within_shares(candidates, query, left, why)
        chosen = [candidate for candidate, _ in nomination.choices]
        if len(to_the_point(chosen)) < len(chosen):
            rest = [candidate for candidate in candidates if not candidate.about]
            nomination = self._within_shares(rest, query, left, why)
        return nomination

    def _within_shares(
        self, candidates: Sequence[Candidate], query: str, left: int, why: str
    ) -> Nomination:
        """Nominate within `left` tokens; `why` the rest of what is free is withheld."""
        return nominate(
            candidates,
            query,
            left=left,
            most=self.config.prune.max_retrieved_chunks,
            headings=Headings(self.sources, self.config.locale, self.today),
            stays=self.policy is TOOLS,
            withheld=Withheld(max(0, self.free - left), why),
        )

    def _asks(self) -> bool:
        """Whether what relevance brings in is chosen in this call: once a question, and when the cut moves."""
        if self.own in self.out.pins:
            return False
        again = self.out.cut.moved or self.held.released or self.sources.learns
        return again or not self.own or self._begins

    @property
    def _begins(self) -> bool:
        """Whether a turn begins with this call, or what it needs is chosen once more: its app recorded more for it."""
        return self.sources.has_news or self.line.task == len(self.line.groups) - 1

    def _pin_of(self, candidates: Sequence[Candidate]) -> Pin | None:
        tells = self.policy is TOOLS and self.own not in self.held.pins
        evidence_ids = {
            candidate.snippet.evidence_id for candidate in candidates if candidate.is_stored
        }
        steps = [s for s in self.steps_out if tells and not (s and evidence_ids.issuperset(s))]
        return pin_of(candidates, self.config.locale, self.today, steps)

    def _inject(
        self, contexts: dict[str, str], candidates: list[Candidate], room: int
    ) -> frozenset[str]:
        """Put the sections together; facts that do not fit after all go, the worst first.

        Returns the ids of the candidates that are in.
        """
        out, must = self.out, self.chooser.must
        room += out.standing.tokens
        candidates.sort(key=lambda candidate: (candidate.priority not in must, -candidate.score))
        while True:
            pin, loose = parted(candidates, self._pin_of if self.own else None)
            contexts.pop(FACTS, None)
            if loose:
                contexts[FACTS] = knowledge(loose, self.config.locale, self.today)
            out.texts = texts_of(contexts, self.config.placement, self.config.locale)
            texts = [*filter(None, out.texts), *([pin.text] if pin is not None else ())]
            text = "\n\n".join(texts)
            tokens = self.sources.count(f"\n\n{text}") + len(texts) * FRAMING if text else 0
            if not text or out.cut.tokens + tokens <= room:
                break
            if candidates and candidates[-1].priority not in must:
                candidates[:] = to_the_point(candidates[:-1])
            elif pin is not None and pin.steps:
                self.steps_out = []
            elif contexts.keys() - {FACTS} == out.standing.contexts.keys() and all(
                contexts[name] == text for name, text in out.standing.contexts.items()
            ):
                break  # what must stand is over the budget, and the report says so
            else:
                contexts = dict(out.standing.contexts)
                self.notes.leave()
        out.injected, out.injected_tokens = text, tokens
        if pin is not None:
            out.pins[self.own] = pin
        out.contexts = contexts
        went = [candidate.id for candidate in candidates]
        out.count_injected(loose, went)
        return frozenset(went)
