"""Where the line of one call is cut, by its policy, and what of the lane's pins stands in it (decisions 6 and 8)."""

from __future__ import annotations

from collections.abc import Sequence

from ce_engine.config import RuntimeConfig
from ce_engine.prepare.choose.anchored_context import HeldPins, Pins, in_line
from ce_engine.prepare.choose.budget import shares
from ce_engine.prepare.choose.candidates import (
    ALWAYS,
    FEW,
    MESSAGE,
    SHORT,
    cost_of,
    cost_together,
    relevant,
)
from ce_engine.prepare.choose.cut import Cut, CutMarks, Depth, choose_cut
from ce_engine.prepare.choose.groups import Groups
from ce_engine.prepare.choose.policy import CHAT, TOOLS, policy
from ce_engine.prepare.choose.tail import MESSAGES, tail
from ce_engine.prepare.compose.sections import FRAMING
from ce_engine.prepare.message_groups import MessageLine
from ce_engine.prepare.sources import Candidate
from ce_engine.schema.enums import Layer


FREED = 0.1
"""Share of the room that a cut which gives way to what a question needs frees at least."""


LEAST = 0.7
"""Share of what may be brought back that is, however large the newest step of an agent is."""


USED = 0.6
"""Of the results that are gone, the share that calls took arguments from where all comes back that may."""

UNUSED = 0.4
"""Share of it that comes back where no call took anything from any."""

PRIOR = 4
"""So many results more count as used, for of a few nothing can be told."""


class Cutter:
    """Cuts a line, and holds the pins of its lane.

    Args:
        line: the line.
        own: the message that a pin of this call stands before, by its id; `""` for none.
        budget: what everything may cost, tokens; 0 without a limit.
        config: the run's configuration.
        groups: the line's, with short forms of tool results.
        held_pins: takes up the pins.
        was_cut: whether the line was cut in an earlier call.
    """

    def __init__(
        self,
        line: MessageLine,
        own: str,
        budget: int,
        config: RuntimeConfig,
        groups: Groups,
        held_pins: HeldPins,
        *,
        was_cut: bool,
    ) -> None:
        self.line = line
        self.own = own
        self.budget = budget
        self.config = config
        self.groups = groups
        self.sources = groups.sources
        self.held = held_pins
        self.was_cut = was_cut
        self.policy = policy(stays=bool(own), uses_tools=line.uses_tools)
        self.goes_on = False
        """Whether a cut goes on where the one before ended."""
        self.pinned: set[str] = set()
        """Groups that stay for what stands before them, by their anchors."""
        below = line.below.tokens if line.below else 0
        self.said = sum(group.tokens for group in line.groups) + below

    def hold(self, pins: Pins, *, own_stays: bool = False) -> None:
        """Take up those of a lane's pins that stand before messages of this line; its own, too, where it stays."""
        line_pins = in_line(pins, self.line.groups) if self.own else {}
        if self.sources.learns and not own_stays:
            line_pins.pop(
                self.own, None
            )  # what was learned since the question was asked goes in, too
        if self.config.prune.exclude_sensitivity:
            hidden = self.sources.is_hidden
            line_pins = {
                n: pin for n, pin in line_pins.items() if not any(hidden(r) for r, _ in pin.refs)
            }
        if all(pin.locale == self.config.locale for pin in line_pins.values()):
            count = self.sources.count
            self.held.costs = {
                name: count(pin.before) + pin.live + FRAMING for name, pin in line_pins.items()
            }
            self.held.pins |= line_pins

    def cut_around_pins(self, room: int, marks: CutMarks) -> Cut:
        """Cut so that what stands where an earlier cut put it stays there, while that leaves room enough."""
        # Behind a cut a step of an agent has no room for more: what its question has would be lost for nothing.
        is_cut = self._stands(marks) and bool(marks.drop or self.line.below)
        self.hold(marks.pins, own_stays=is_cut and not self.sources.has_news)
        if self._all_go(room, marks):
            return self._with_all(marks)
        least = [group.must for group in self.line.groups]
        self._keep_pinned()
        cut = self._cut_beside_pins(room, marks)
        if not cut.moved:
            return cut
        if on := self._go_on(cut, room, marks):
            return on
        self.pinned.clear()
        while self.held.costs:  # what is brought back is chosen anew, with what goes now
            self.held.release()
        for group, must in zip(self.line.groups, least, strict=True):
            group.must = must
        return self._cut_beside_pins(room, CutMarks())

    def _all_go(self, room: int, marks: CutMarks) -> bool:
        """Whether nothing is cut.

        Results that take their forms in this call end the prefix anyway: where these alone leave little room, a cut
        soon would end it again. A cut that stands stays, though all in its forms had room.
        """
        if not self.sources.compacts:
            return self.said + self.held.tokens <= room
        if self._stands(marks):
            return not (marks.drop or self.line.below) and self.said + self.held.tokens <= room
        return self.said + self.held.tokens <= room * (1 - self.policy.lossless)

    def _stands(self, marks: CutMarks) -> bool:
        return 0 < self.budget < marks.budget * 1.25

    def _with_all(self, marks: CutMarks) -> Cut:
        """A cut that leaves nothing out; where results take their forms with it, it is remembered."""
        groups = self.line.groups
        tokens = sum(group.tokens for group in groups)
        if not self.sources.compacts or self._stands(marks):
            return Cut(tokens=tokens, marks=marks)
        first = CutMarks(shorten=groups[0].anchor, budget=self.budget)
        return Cut(tokens=tokens, marks=first, moved=True)

    def _keep_pinned(self) -> None:
        for group in self.line.groups:
            if group.anchor in self.held.costs and not group.must:
                group.must = True
                self.pinned.add(group.anchor)

    def _go_on(self, cut: Cut, room: int, marks: CutMarks) -> Cut | None:
        """The `cut` that was made behind the one that stands, if it leaves room enough.

        What stands before earlier questions stays as it was sent; what goes now comes back before this one.
        """
        own = self.own if self.own in self.held.costs else ""
        stays = self._stands(marks) and self.held.costs.keys() != {own} and bool(self.held.costs)
        self.goes_on = stays and self._leaves_free(cut, room)
        if not self.goes_on:
            return None
        self.held.drop(own)  # it is made anew, with what goes now
        return cut

    def _leaves_free(self, cut: Cut, room: int) -> bool:
        return cut.tokens + self.held.tokens <= room * (1 - self.policy.free)

    def _cut_beside_pins(self, room: int, marks: CutMarks) -> Cut:
        return choose_cut(
            self.line,
            room=room - self.held.tokens - FRAMING,
            depth=Depth(
                self.policy.low_water,
                newest=tail(self.line.groups, room),
                always=self.sources.compacts,
            ),
            reserve=0,
            budget=self.budget,
            marks=marks,
            short=lambda item: item.tokens,
        )

    def cut(self, room: int, marks: CutMarks, retrieved: int, spare: int = 0) -> Cut:
        """Cut where what was said leaves no room for what may be `retrieved` (tokens wanted).

        A new cut leaves the newest messages, and so many more as there are `spare` tokens.
        """
        needs = {Layer.IMMEDIATE: self.said, Layer.RETRIEVED: retrieved}
        reserve = shares(room, self.config.budget, needs).get(Layer.RETRIEVED, 0)
        talk = tail(self.line.groups, room) + spare if retrieved else None
        return choose_cut(
            self.line,
            room=room,
            depth=Depth(self.config.prune.keep_ratio, talk),
            reserve=reserve,
            budget=self.budget,
            marks=marks,
            short=lambda item: self.groups.short(item)[1],
            least=reserve // 2 if self.own else None,
        )

    @property
    def moves_alone(self) -> bool:
        """Whether a new cut follows from what is above the standing one: the newest messages are there, and no pins hold it."""
        newest = [group for group in self.line.groups if group.past]
        return self.policy is not TOOLS and len(newest) >= MESSAGES

    def spare(self, cut: Cut, query: str, room: int) -> int:
        """Tokens for more of the newest messages: where relevance would bring little back, and not all of the room."""
        most = min(self.config.prune.max_retrieved_chunks, max(FEW, room // SHORT))
        candidates = relevant(self.sources.recall(query, self.groups.whole_entries(), most))
        cost = sum(cost_of(candidate, self.sources, self.config.locale) for candidate in candidates)
        return max(0, min(room - cost, int(room * self.policy.low_water)) - cut.tokens)

    def refill(self, cut: Cut, room: int, hits: Sequence[Candidate]) -> int:
        """Tokens that may come back for a question that does not go back: filled up, a new cut would not last.

        The best few messages have room all the same, and what is no message: nobody else has a copy of it. A line that
        is cut for the first time may be all that is ever asked.
        """
        is_talk = all(candidate.id.startswith(MESSAGE) for candidate in hits)
        if self.policy is not CHAT or not cut.moved or not is_talk or not self.was_cut:
            return room
        least = cost_together(hits[:ALWAYS], self.sources, self.config.locale)
        return max(int(room * self.policy.low_water) - cut.tokens, least)

    def affordable(
        self,
        cut: Cut,
        hits: Sequence[Candidate],
        left: int,
        matches: Sequence[Candidate],
        *,
        goes_back: bool,
    ) -> int:
        """Of the tokens that are `left`, those that earlier messages may take: what is saved, less what a new cut costs.

        `matches` may come back all the same, and the best few; these in debt as long as a tenth of the
        room stays free, for else the next turn ends the prefix, and fewer where the question goes on. What is no
        message has no bound: nobody else has a copy of it.
        """
        credit, is_talk = self.credit, all(candidate.id.startswith(MESSAGE) for candidate in hits)
        if credit is None or not is_talk:
            return left
        credit -= cut.tokens + self.held.tokens if cut.moved else 0
        in_debt = (
            self.policy.nearest_in_debt
            if goes_back or cut.moved
            else self.policy.nearest_behind_cut
        )
        few = self.policy.nearest if credit > 0 else in_debt
        least = cost_together(hits[:few], self.sources, self.config.locale)
        if self.in_debt:
            least = min(least, left - int(self.budget * FREED))
        if matches:
            least = max(least, cost_together(matches, self.sources, self.config.locale))
        return min(left, max(credit, least))

    def can_move(self, cut: Cut) -> bool:
        """Whether so much is saved that what stands behind a place in the prefix may be sent anew."""
        return self.credit is None or self.credit >= cut.tokens + self.held.tokens

    @property
    def credit(self) -> int | None:
        """What the session has saved, where that bounds what comes back: in a talk."""
        return self.sources.credit if self.policy is CHAT else None

    @property
    def in_debt(self) -> bool:
        """Whether a talk has cost more by now than without us."""
        return self.credit is not None and self.credit < 0

    def may_move(self, cut: Cut, room: int) -> bool:
        """Whether a cut gives way to what a question needs: a talk's; tools' results are a prefix that costs more.

        It goes deep and stays for some turns: where it frees little, it stands.
        """
        groups = self.line.groups
        kept_groups = [group for n, group in enumerate(groups) if n not in cut.dropped]
        talk = sum(group.tokens for group in kept_groups if group.past)
        freed = talk - tail(groups, room)
        has_tools = any(len(group.items) > 1 for group in kept_groups)
        is_talk = self.policy.makes_room and not has_tools
        return bool(self.own) and cut.stands and is_talk and freed > room * FREED

    def has_saved(self, room: int) -> bool:
        """Whether an agent's calls have saved so much that its questions may cost what a new cut does."""
        return room > 0 and (self.sources.credit or 0) >= room * self.policy.saved

    def frees_much(self, cut: Cut, room: int) -> bool:
        """Whether a cut that stands would free half of the room if it moved."""
        freed = cut.tokens + self.held.tokens - tail(self.line.groups, room)
        return cut.stands and freed > room / 2

    def is_full(self, cut: Cut, room: int) -> bool:
        """Whether a cut that stands leaves less than a question of an agent has of the room."""
        return cut.stands and cut.tokens + self.held.tokens > room * (1 - self.policy.share)

    def returns(self, cut: Cut, room: int, *, begins: bool) -> int:
        """Tokens that may come back of what is cut: for agents so few that another cut does not follow soon.

        A question that `begins` a turn has a share of the room all the same.
        """
        if self.policy is not TOOLS:
            return room
        back = self._returned(cut, room) if cut.moved else 0.0
        if self.goes_on:
            back = room * (1 - self.policy.free) - cut.tokens
        return max(int(back) - self.held.tokens, int(room * self.policy.share) if begins else 0)

    def worth(self, results: Sequence[Candidate], left: int, room: int, *, begins: bool) -> int:
        """Of the tokens that are `left`, those that results are worth, by how many of them calls took arguments from.

        An agent that never looks at its results again would pay for them in vain.
        """
        used = PRIOR + sum(result.score > 0 for result in results)
        share = used / (PRIOR + len(results)) / USED
        least = int(room * self.policy.share) if begins else 0
        return min(left, max(least, int(left * max(UNUSED, share))))

    def _returned(self, cut: Cut, room: int) -> float:
        """Tokens that come back where a cut begins anew: as few as leave room for another step like the newest."""
        step = next((g.tokens for g in reversed(self.line.groups) if len(g.items) > 1), 0)
        most = room * self.policy.most
        return max(most * LEAST, min(most, room - cut.tokens - step))
