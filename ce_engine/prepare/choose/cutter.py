"""Where the line of one call is cut, by its policy, and what of the lane's pins stands in it (decisions 6 and 8)."""

from __future__ import annotations

from collections.abc import Sequence

from ce_engine.config import RuntimeConfig
from ce_engine.prepare.choose.anchored_context import HeldPins, Pins, in_line
from ce_engine.prepare.choose.budget import shares
from ce_engine.prepare.choose.candidates import ALWAYS, FEW, MESSAGE, SHORT, cost_of, relevant
from ce_engine.prepare.choose.cut import Cut, CutMarks, Depth, choose_cut
from ce_engine.prepare.choose.groups import Groups
from ce_engine.prepare.choose.policy import CHAT, TOOLS, policy
from ce_engine.prepare.choose.tail import tail
from ce_engine.prepare.compose.render import knowledge
from ce_engine.prepare.compose.sections import FRAMING
from ce_engine.prepare.message_groups import MessageLine
from ce_engine.prepare.sources import Candidate
from ce_engine.schema.enums import Layer
from ce_engine.text.quote import quote


FREED = 0.1
"""Share of the room that a cut which gives way to what a question needs frees at least."""


class Cutter:
    """Cuts a line, and holds the pins of its lane.

    Args:
        line: the line.
        own: the message that a pin of this call stands before, by its id; `""` for none.
        budget: what everything may cost, tokens; 0 without a limit.
        config: the run's configuration.
        groups: the line's, with short forms of tool results.
        held: takes up the pins.
    """

    def __init__(
        self,
        line: MessageLine,
        own: str,
        budget: int,
        config: RuntimeConfig,
        groups: Groups,
        held: HeldPins,
    ) -> None:
        self.line = line
        self.own = own
        self.budget = budget
        self.config = config
        self.groups = groups
        self.sources = groups.sources
        self.held = held
        self.policy = policy(stays=bool(own), uses_tools=line.uses_tools)
        below = line.below.tokens if line.below else 0
        self.said = sum(group.tokens for group in line.groups) + below

    def hold(self, pins: Pins) -> None:
        """Take up those of a lane's pins that stand before messages of this line."""
        found = in_line(pins, self.line.groups) if self.own else {}
        if self.sources.learns:
            found.pop(self.own, None)  # what was learned since the question was asked goes in, too
        if self.config.prune.exclude_sensitivity:
            hidden = self.sources.is_hidden
            found = {n: pin for n, pin in found.items() if not any(hidden(r) for r, _ in pin.refs)}
        if all(pin.locale == self.config.locale for pin in found.values()):
            count = self.sources.count
            self.held.costs = {name: count(pin.before) + FRAMING for name, pin in found.items()}
            self.held.pins |= found

    def cut_around_pins(self, room: int, marks: CutMarks, *, begins: bool) -> Cut:
        """Cut so that what stands before earlier questions stays, with them, while it leaves room enough.

        With room for all, nothing is cut. Else a question that `begins` a turn needs some for what is to
        be brought back for it.
        """
        spare = int(room * self.policy.asked) if begins else 0
        groups = self.line.groups
        self.hold(marks.pins)
        if self.said + self.held.tokens <= room:
            return Cut(tokens=sum(group.tokens for group in groups), marks=marks)
        least = [group.must for group in groups]
        for group in groups:
            group.must |= group.anchor in self.held.costs
        cut = self._cut_beside_pins(room - spare, marks)
        if not cut.moved:
            return cut
        self.held.drop(self.own)  # it is made anew, with what goes now
        must = sum(group.tokens for group in groups if group.must)
        if self.held.tokens > min(room * self.policy.most, room - must - FRAMING):
            while self.held.costs:
                self.held.release()
            for group, must_stay in zip(groups, least, strict=True):
                group.must = must_stay
        return self._cut_beside_pins(room - spare, CutMarks())

    def _cut_beside_pins(self, room: int, marks: CutMarks) -> Cut:
        return choose_cut(
            self.line,
            room=room - self.held.tokens - FRAMING,
            depth=Depth(self.policy.low_water),
            reserve=0,
            budget=self.budget,
            marks=marks,
            short=lambda item: item.tokens,
        )

    def cut(self, room: int, marks: CutMarks, retrieved: int, spare: int = 0) -> Cut:
        """Cut where what was said leaves no room for what may be `retrieved` (tokens wanted).

        A new cut leaves the newest messages, and so many more as there are `spare` tokens.
        """
        wanted = {Layer.IMMEDIATE: self.said, Layer.RETRIEVED: retrieved}
        reserve = shares(room, self.config.budget, wanted).get(Layer.RETRIEVED, 0)
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

    def spare(self, cut: Cut, query: str, room: int) -> int:
        """Tokens for more of the newest messages: where relevance would bring little back, and not all of the room."""
        most = min(self.config.prune.max_retrieved_chunks, max(FEW, room // SHORT))
        found = relevant(self.sources.recall(query, self.groups.sent(), most))
        wanted = sum(cost_of(each, self.sources, self.config.locale) for each in found)
        return max(0, min(room - wanted, int(room * self.policy.low_water)) - cut.tokens)

    def low_water(self, cut: Cut, room: int, found: Sequence[Candidate]) -> int:
        """Tokens that may come back for a question that does not go back: filled up, a new cut would not last.

        The best few messages have room all the same, and what is no message: nobody else has a copy of it.
        """
        is_talk = all(candidate.id.startswith(MESSAGE) for candidate in found)
        if self.policy is not CHAT or not cut.moved or not is_talk:
            return room
        locale, best = self.config.locale, [candidate.snippet for candidate in found[:ALWAYS]]
        least = self.sources.count(quote(knowledge(best, locale), locale)) + 2 * FRAMING
        return max(int(room * self.policy.low_water) - cut.tokens, least)

    def may_move(self, cut: Cut, room: int) -> bool:
        """Whether a cut gives way to what a question needs: a talk's; tools' results are a prefix that costs more.

        It goes deep and stays for some turns: where it frees little, it stands.
        """
        groups = self.line.groups
        kept = [group for n, group in enumerate(groups) if n not in cut.dropped]
        talk = sum(group.tokens for group in kept if group.past)
        freed = talk - tail(groups, room)
        has_tools = any(len(group.items) > 1 for group in kept)
        is_talk = self.policy.makes_room and not has_tools
        return bool(self.own) and cut.stands and is_talk and freed > room * FREED

    def returns(self, cut: Cut, room: int, *, begins: bool) -> int:
        """Tokens that may come back of what a cut frees: for agents so few that it is cheaper after some calls.

        A question that `begins` a turn has a share of the room all the same.
        """
        if self.policy is not TOOLS:
            return room
        back = min((self.said - cut.tokens) * self.policy.results, room * self.policy.most)
        return max(int(back) - self.held.tokens, int(room * self.policy.asked) if begins else 0)
