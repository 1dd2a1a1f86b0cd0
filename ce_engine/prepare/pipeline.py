"""The order of the stages: from a line of messages to a plan within the limit, with every decision told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ce_engine.config import RuntimeConfig
from ce_engine.ports import PruneBudget, Pruner, PruneRules
from ce_engine.prepare.budget import Limit, shares
from ce_engine.prepare.compose import SYSTEM, texts_of
from ce_engine.prepare.constraints import render_constraints
from ce_engine.prepare.cut import Cut, Marks, choose_cut
from ce_engine.prepare.decisions import decisions, steps_left_out
from ce_engine.prepare.derive import conversation_blocks
from ce_engine.prepare.line import Group, Item, Line, split, take_out_repeated, unasked
from ce_engine.prepare.material import Material
from ce_engine.prepare.nominate import (
    FEW,
    FRAMING,
    SHORT,
    Nominated,
    given,
    nominate,
    parted,
    relevant,
    worth_adding,
)
from ce_engine.prepare.outcome import Outcome
from ce_engine.prepare.pins import Held, in_line
from ce_engine.prepare.planning import plan
from ce_engine.prepare.render import (
    knowledge,
    left_out,
    replaced,
    rules,
    section,
    short_result,
)
from ce_engine.prepare.shorter import saved_in, shorten_texts
from ce_engine.prepare.sources import Candidate, Sources
from ce_engine.prepare.standing import FACTS, Standing, stand
from ce_engine.quote import quote
from ce_engine.schema.document import ContextBlock
from ce_engine.schema.enums import Layer
from ce_engine.schema.settings import CONSTRAINTS


def assemble(
    items: Sequence[Item],
    *,
    fixed: int,
    limit: Limit,
    marks: Marks,
    config: RuntimeConfig,
    sources: Sources,
    pruner: Pruner,
    inject: bool = True,
) -> Outcome:
    """Run the stages: group, cut, shorten, recall, prune, compose.

    Args:
        items: the line, host messages and stored ones, in order.
        fixed: tokens of tool schemas, response format and the reply's priming.
        limit: what everything together may cost.
        marks: the lane's standing cut. With what is below it, nothing is assembled where it does not
            stand any more (`Outcome.cut.stands`): all items are needed then.
        config: the run's configuration.
        sources: what the stages ask for.
        pruner: chooses among the candidates.
        inject: whether anything may be brought in (not for helper calls).
    """
    line = split(items, marks.below)
    if limit.tokens is not None and fixed + sum(item.tokens for item in items) > limit.tokens:
        take_out_repeated(line, items, sources.text)
    return _Assembly(items, line, fixed, limit, config, sources, pruner).run(marks, inject=inject)


class _Assembly:
    def __init__(
        self,
        items: Sequence[Item],
        line: Line,
        fixed: int,
        limit: Limit,
        config: RuntimeConfig,
        sources: Sources,
        pruner: Pruner,
    ) -> None:
        self.items = items
        self.line = line
        self.limit = limit
        self.config = config
        self.sources = sources
        self.pruner = pruner
        self.given = fixed + sum(item.tokens for item in items if item.index is not None)
        self.fixed = fixed + sum(item.tokens for item in self.line.system)
        self.short_texts: dict[int, tuple[str, int]] = {}
        self.out = Outcome([], unchanged=False, used=0, before=0, cut=Cut(), line=self.line)
        self.held = Held(self.out.pins)
        self.fence = sources.count(quote("|", config.locale))
        task = self._task()
        stays = config.placement == "cache" and task is not None and task.items[0].n is not None
        self.own = task.anchor if task is not None and stays else ""  # who a pin is made for

    def run(self, marks: Marks, *, inject: bool) -> Outcome:
        out, below = self.out, self.line.below
        total = sum(group.tokens for group in self.line.groups) + (below.tokens if below else 0)
        out.before = self.given + (below.tokens if below else 0)
        sharing = inject and self.config.enable_share_context
        if sharing:
            out.standing = self._stand(total)
        room = self._room(total) - out.standing.tokens
        if self.limit.tokens is None:
            room = max(room, total)  # the host's own list is never touched
            out.cut = Cut(tokens=total, marks=marks)
        else:
            out.cut = self._cut(room, marks, total, self.limit.tokens if sharing else 0)
        if below and not out.cut.stands:
            return out
        if out.cut.tokens > room:
            room += self._shorten_texts(out.cut.tokens - room)
        if sharing:
            self._hold(marks)
        self._choose(room, sharing=sharing)
        out.injected_tokens += self.held.tokens
        out.decisions += out.standing.decisions
        out.decisions += decisions(self.line, out.cut, out.shorter)
        out.used = self.fixed + out.cut.tokens + out.injected_tokens
        out.over_budget = self.limit.tokens is not None and out.used > self.limit.tokens
        plan(out, self.items, self.sources, self._short)
        return out

    def _hold(self, marks: Marks) -> None:
        """Take up the pins that the lane has before messages of this line; a new cut leaves none."""
        found = in_line(marks.pins, self.line.groups) if self.own and not self.out.cut.moved else {}
        if self.sources.whole:
            found.pop(self.own, None)  # what was learned since the question was asked goes in, too
        if all(pin.locale == self.config.locale for pin in found.values()):
            count = self.sources.count
            self.held.costs = {name: count(pin.before) + FRAMING for name, pin in found.items()}
            self.held.pins |= found

    def _stand(self, said: int) -> Standing:
        least = sum(group.tokens for group in self.line.groups if group.must)
        unlimited = self.limit.tokens is None
        return stand(
            self.sources.materials,
            room=None if unlimited else self._room(said),
            said=said,
            most=self._room(said) - (said if unlimited else least) - FRAMING,
            budget=self.config.budget,
            count=self.sources.count,
            render=self._section,
            frame=self._fences,
        )

    def _fences(self, contexts: Mapping[str, str]) -> int:
        """What the places where contexts go out cost beside their text."""
        texts = texts_of(contexts, self.config.placement, self.config.locale)
        return texts.quotes * (self.fence + FRAMING) + bool(texts.rules) * FRAMING

    def _section(self, name: str, found: Sequence[Material]) -> str:
        """A section's text; constraints have a form of their own (D-06), and rules are no data."""
        locale = self.config.locale
        if name not in SYSTEM:
            return section(name, found, locale)
        told = render_constraints([m.text for m in found if m.source == CONSTRAINTS], locale)
        return rules(told, [m.text for m in found if m.source != CONSTRAINTS], locale)

    def _room(self, said: int) -> int:
        """Tokens for messages and what is put in; without a limit, what may be put in is bounded."""
        if self.limit.tokens is None:
            return said + self.limit.inject
        return self.limit.tokens - self.fixed

    def _cut(self, room: int, marks: Marks, said: int, retrieved: int) -> Cut:
        """Cut where what was `said` leaves no room for what may be `retrieved` (tokens wanted)."""
        wanted = {Layer.IMMEDIATE: said, Layer.RETRIEVED: retrieved}
        reserve = shares(room, self.config.budget, wanted).get(Layer.RETRIEVED, 0)
        return choose_cut(
            self.line,
            room=room,
            low_water=self.config.prune.keep_ratio,
            reserve=reserve,
            budget=self.limit.tokens or 0,
            marks=marks,
            short=lambda item: self._short(item)[1],
            least=reserve // 2 if self.own else None,
        )

    def _short(self, item: Item) -> tuple[str, int]:
        """A tool result's short form and its tokens; its own where that is no shorter."""
        known = self.short_texts.get(id(item))
        if known is None:
            text = self.sources.text(item)
            # The results of several calls are one text here: it cannot be told whose the rest was.
            whole = text if item.more_call_ids else ""
            short = whole or short_result(text, self.sources.evidence_of(item), self.config.locale)
            saved = max(0, self._saved(item, text, short))
            known = (short if saved else text, item.tokens - saved)
            self.short_texts[id(item)] = known
        return known

    def _saved(self, item: Item, text: str, short: str) -> int:
        count, index = self.sources.count, -1 if item.index is None else item.index
        saved = count(text) - count(short) if short != text else 0
        return self.out.saved.setdefault(index, self.sources.saved.get(index, saved))

    def _task(self) -> Group | None:
        return self.line.groups[self.line.task] if self.line.task is not None else None

    def _shorten_texts(self, over: int) -> int:
        """Leave out what may go of the texts that stay; the tokens that system messages save (decision 6)."""
        out, system = self.out, self.line.system
        groups = [g for n, g in enumerate(self.line.groups) if n not in out.cut.dropped]
        kept = [*system, *(item for group in groups for item in group.items)]
        out.shorter = shorten_texts(kept, over, self.sources, self.config.locale, self._query)
        out.saved |= {index: short.saved for index, short in out.shorter.items()}
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
        recalls = sharing and (was_cut or self.sources.whole) and self._asks()
        contexts = dict(out.standing.contexts)
        if not (was_cut or facts or recalls):
            self._inject(contexts, [], out.cut.tokens + self.held.fit(room - out.cut.tokens))
            return
        kept = [p for p in range(len(line.groups)) if p not in out.cut.dropped]
        blocks = conversation_blocks(line, kept, self._cost)
        candidates: dict[str, Candidate] = {}
        left = room - out.cut.tokens - FRAMING
        if sharing and left > 0:
            left -= self._note(contexts, left)
        notes = room - out.cut.tokens - left
        left = self.held.fit(left)
        if sharing and left + self.held.tokens > 0:
            for candidate, block in self._candidates(left, facts, recalls=recalls):
                candidates[block.block_id] = candidate
                blocks.append(block)
        room -= self.held.tokens
        notes = notes if candidates or contexts else 0
        ttl = dict(self.config.prune.ttl_seconds or {}) or None
        result = self.pruner.prune(
            blocks,
            PruneBudget(max(0, room - notes), self.config.budget.tier_tokens),
            PruneRules(tuple(self.config.prune.must_keep_priorities), ttl, self.sources.now),
        )
        kept_ids = {block.block_id for block in result.kept}
        self._leave_out({p for p in kept if line.groups[p].anchor not in kept_ids})
        out.decisions += [d for d in result.decisions if d.block_id in candidates]
        chosen = [candidate for i, candidate in candidates.items() if i in kept_ids]
        self._inject(contexts, chosen, room)

    def _leave_out(self, positions: set[int]) -> None:
        """Drop groups that the pruner did not keep, and the answers that would begin the input then."""
        groups, cut = self.line.groups, self.out.cut
        gone = {p for p in positions if not groups[p].must}
        for position in gone.union(unasked(groups, cut.dropped | gone)):
            cut.dropped.add(position)
            cut.tokens -= self._cost(position)

    def _note(self, contexts: dict[str, str], left: int) -> int:
        """Say what is left out, in one line, and bring in the summary of it; return their tokens."""
        spent = 0
        gone = frozenset(
            item.n
            for position in self.out.cut.dropped
            for item in self.line.groups[position].items
            if item.n is not None
        )
        if self.line.below is not None:
            gone = gone | self.line.below.entries if gone else self.line.below.entries
        summary = self.sources.summary(gone) if gone else None
        notes = [("todo__context", self._left_out())]
        if summary is not None:
            notes.append((summary.section, self._section(summary.section, [summary])))
        for name, note in notes:
            more = {**contexts, name: "\n".join(filter(None, [contexts.get(name), note]))}
            fences = self._fences(more) - self._fences(contexts)
            cost = self.sources.count(note) + 2 + fences
            if note and spent + cost <= left:
                contexts[name] = more[name]
                spent += cost
        return spent

    def _cost(self, position: int) -> int:
        group = self.line.groups[position]
        if position not in self.out.cut.shortened:
            return group.tokens
        return sum(
            self._short(item)[1] if item.is_tool_result else item.tokens for item in group.items
        )

    def _left_out(self) -> str:
        steps, ids = steps_left_out(self.line, self.out.cut, self.sources.evidence_of)
        return left_out(steps, ids, self.config.locale) if steps else ""

    def _candidates(
        self, left: int, facts: Sequence[Material], *, recalls: bool
    ) -> list[tuple[Candidate, ContextBlock]]:
        query = self._query()
        limit, sent = self.config.prune.max_retrieved_chunks, self._sent()
        pinned = sum(len(pin.refs) for pin in self.out.pins.values())
        most = min(limit, max(FEW, left // SHORT) + pinned)
        while True:
            recalled = self.sources.recall(query, sent, most) if recalls else ()
            near = recalled if self.sources.whole else relevant(recalled)
            settled = self.sources.settle([*given(facts), *near])
            nominated = self._nominated(settled, query, sent, left)
            while near and nominated.missed and self.held.costs:
                left += self.held.release()
                nominated = self._nominated(settled, query, sent, left)
            # Others are worse, so that they are looked at only where good ones leave much room.
            if most == limit or len(near) < most or nominated.left < left // 4:
                return nominated.chosen
            most = limit

    def _query(self) -> str:
        """What is asked, without the documents that stand in it."""
        line = self.line
        items = (self._task() or line.groups[-1]).items if line.groups else line.system
        query, spans = self.sources.asked(items[0])
        return replaced(query, sorted((span.start, span.end, " ") for span in spans))

    def _nominated(
        self, found: Sequence[Candidate], query: str, sent: frozenset[int], left: int
    ) -> Nominated:
        sources = self.sources
        if self.own:
            asked = self.line.groups[self.line.task or 0].items[0].n or 0
            refs = (ref for pin in self.out.pins.values() for ref in pin.refs)
            pinned = {name for name, part in refs if not part}  # of the others more may be needed
            added = self.out.cut.stands and not sources.whole
            nearest = partial(sources.nearest, query, sent, asked) if added else None
            found = worth_adding(found, pinned, nearest)
        most, locale = self.config.prune.max_retrieved_chunks, self.config.locale
        return nominate(found, query, left=left, most=most, sources=sources, locale=locale)

    def _asks(self) -> bool:
        """Whether what relevance brings in is chosen in this call: once a question, and when the cut moves."""
        if self.own in self.out.pins:
            return False
        again = self.out.cut.moved or self.held.released or self.sources.whole
        return again or not self.own or self.line.task == len(self.line.groups) - 1

    def _sent(self) -> frozenset[int]:
        """Entries that go out whole."""
        return frozenset(
            item.n
            for position, group in enumerate(self.line.groups)
            if position not in self.out.cut.dropped
            for item in group.items
            if item.n is not None
            and not (position in self.out.cut.shortened and item.is_tool_result)
        )

    def _inject(self, contexts: dict[str, str], chosen: list[Candidate], room: int) -> None:
        """Put the sections together; facts that do not fit after all go, the worst first."""
        out = self.out
        room += out.standing.tokens
        chosen.sort(key=lambda candidate: -candidate.score)
        while True:
            pin, loose = parted(chosen, self.config.locale, stays=bool(self.own))
            contexts.pop(FACTS, None)
            if loose:
                contexts[FACTS] = knowledge(loose, self.config.locale)
            out.texts = texts_of(contexts, self.config.placement, self.config.locale)
            told = [*filter(None, out.texts), *([pin.text] if pin is not None else ())]
            text = "\n\n".join(told)
            tokens = self.sources.count(f"\n\n{text}") + len(told) * FRAMING if text else 0
            if not text or out.cut.tokens + tokens <= room:
                break
            if chosen:
                chosen.pop()
            elif contexts == out.standing.contexts:
                break  # what must stand is over the budget, and the report says so
            else:
                contexts = dict(out.standing.contexts)
        out.injected, out.injected_tokens = text, tokens
        if pin is not None:
            out.pins[self.own] = pin
        out.contexts = contexts
        out.injected_count = len(loose) + sum(len(pin.refs) for pin in out.pins.values())
        ids = [evidence_id for pin in out.pins.values() for evidence_id in pin.evidence_ids]
        ids += [snippet.evidence_id for snippet in loose if snippet.evidence_id]
        out.evidence_ids = list(dict.fromkeys(ids))
