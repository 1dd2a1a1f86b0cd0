"""Where a lane is cut when it is over the budget: once, deep, and the same cut until it is exceeded again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from ce_engine.prepare.choose.anchored_context import Pins
from ce_engine.prepare.message_groups import (
    BelowCut,
    MessageGroup,
    MessageItem,
    MessageLine,
    task_above,
)


Shortened = Callable[[MessageItem], int]
"""Tokens of a tool result in its short form; its own tokens where there is nothing to gain."""


@dataclass(frozen=True, slots=True)
class CutMarks:
    """The lane's standing cut, as anchors' message ids, made for `budget` tokens.

    What is `below` it, where that is known, is not among the items of the line. `pins` stay until it moves.
    """

    drop: str | None = None
    shorten: str | None = None
    budget: int = 0
    below: BelowCut | None = None
    pins: Pins = field(default_factory=dict)


@dataclass(slots=True)
class Cut:
    """What of the line goes out.

    `dropped` and `shortened` are positions of groups; `tokens` is what the kept groups cost.
    `marks` is the cut to remember, `moved` whether it is a new one, `stands` whether it is the lane's.
    """

    dropped: set[int] = field(default_factory=set)
    shortened: set[int] = field(default_factory=set)
    tokens: int = 0
    marks: CutMarks = field(default_factory=CutMarks)
    moved: bool = False
    stands: bool = False


@dataclass(frozen=True, slots=True)
class Depth:
    """How deep a new cut goes: to `low_water` of what may stay; older talk to `tail` tokens, where that is less.

    Where a turn begins, the `newest` messages stay within so many tokens. It is made `always`, or where there is no
    room for all.
    """

    low_water: float
    tail: int | None = None
    newest: int = 0
    always: bool = False


def choose_cut(
    line: MessageLine,
    *,
    room: int,
    depth: Depth,
    reserve: int,
    budget: int,
    marks: CutMarks,
    short: Shortened,
    least: int | None = None,
) -> Cut:
    """Choose what is left out (decisions 6 and 8).

    With room for all, nothing is, but where a cut is `always`. Else `reserve` tokens are kept for what relevance brings in
    again; a standing cut that still fits is kept; a new one goes down to the `depth`: past
    conversation first, then tool results of the current turn are shortened, oldest first,
    then whole groups of it go, oldest first. What must stay is never touched. With what is below
    a cut, nothing is chosen where a new one might leave less out: all groups are needed then.
    """
    groups, below = line.groups, line.below
    total = sum(group.tokens for group in groups)
    if total + (below.tokens if below else 0) <= room and not depth.always:
        return Cut(tokens=total, marks=marks)
    state = _State(groups, short, total)
    must = sum(group.tokens for group in groups if group.must)
    ceiling = max(min(room, must), room - reserve)
    limit = ceiling if least is None else max(ceiling, room - least)
    target = int(ceiling * depth.low_water)
    goes_on = marks.budget and budget < marks.budget * 1.25
    if goes_on:
        state.replay(marks)
        if (below or state.dropped or state.shortened) and state.tokens <= limit:
            shortened = state.shortened - state.dropped
            return Cut(state.dropped, shortened, state.tokens, marks, stands=True)
    stays_below = (goes_on and marks.drop) or _goes_above(line, total, target, depth.tail)
    if below and not stays_below:
        return Cut(tokens=total, marks=marks)
    state.deepen(line, target, ceiling, depth)
    dropped_positions = {*state.dropped, -1} if below else state.dropped
    new_marks = CutMarks(
        drop=_anchor_after(groups, dropped_positions),
        shorten=_anchor_after(groups, state.shortened),
        budget=budget,
    )
    return Cut(state.dropped, state.shortened - state.dropped, state.tokens, new_marks, moved=True)


def _goes_above(line: MessageLine, total: int, target: int, tail: int | None) -> bool:
    """Whether a new cut leaves out all that is below the line's, by what is above it (`total` tokens)."""
    past = [group for group in line.groups if group.past]
    if total > target or tail is None or line.below is None:
        return total > target
    past_tokens = sum(group.tokens for group in past)
    return past_tokens > tail and past[0].begins_turn and not line.below.uses_tools


class _State:
    """Groups as they are dropped and shortened, with what the rest costs."""

    def __init__(self, groups: Sequence[MessageGroup], short: Shortened, total: int) -> None:
        self.groups = groups
        self.short = short
        self.tokens = total
        self.dropped: set[int] = set()
        self.shortened: set[int] = set()

    def cost(self, position: int) -> int:
        group = self.groups[position]
        if position not in self.shortened:
            return group.tokens
        return sum(self.short(item) if item.is_tool_result else item.tokens for item in group.items)

    def drop(self, position: int) -> None:
        if position not in self.dropped and not self.groups[position].must:
            self.tokens -= self.cost(position)
            self.dropped.add(position)

    def shorten(self, position: int) -> None:
        group = self.groups[position]
        if group.must or len(group.items) < 2 or position in self.shortened | self.dropped:
            return
        before = self.cost(position)
        self.shortened.add(position)
        gained = before - self.cost(position)
        if gained <= 0:
            self.shortened.discard(position)
        self.tokens -= max(0, gained)

    def replay(self, marks: CutMarks) -> None:
        """Apply a standing cut; an anchor that is gone voids it."""
        anchors = {group.anchor: position for position, group in enumerate(self.groups)}
        drop = anchors.get(marks.drop, 0) if marks.drop else 0
        shorten = anchors.get(marks.shorten, 0) if marks.shorten else 0
        task = task_above(self.groups, drop)
        for position in range(drop):
            if position != task:
                self.drop(position)
        for position in range(shorten):
            self.shorten(position)

    def deepen(self, line: MessageLine, target: int, ceiling: int, depth: Depth) -> None:
        past = [p for p, group in enumerate(self.groups) if group.past]
        older = past[: len(past) - self._newest(past, depth.newest)]
        task = task_above(self.groups, past[len(older)]) if len(older) < len(past) else None
        self._drop_past(older, target, task)
        if depth.tail is not None:
            self._drop_talk([p for p in past if p not in self.dropped], depth.tail)
        current = range(line.task + 1 if line.task is not None else len(past), len(self.groups))
        for position in current:
            if self.tokens <= target:
                return
            self.shorten(position)
        for position in current:
            if self.tokens <= target:
                return
            self.drop(position)
        if self.tokens > ceiling:  # nothing was before the task, or its place is not known
            for position in range(len(self.groups)):
                self.drop(position)

    def _newest(self, past: Sequence[int], tokens: int) -> int:
        """How many groups before the task fit into so many tokens, where nothing follows it."""
        costs = accumulate(self.cost(position) for position in reversed(past))
        follows = bool(past) and past[-1] + 2 < len(self.groups)
        return 0 if follows else sum(cost <= tokens for cost in costs)

    def _drop_past(self, past: Sequence[int], target: int, task: int | None) -> None:
        """Let groups go to the first turn with which the rest fits; not the `task` of what stays behind them."""
        for position in past:
            if self.tokens <= target and self.groups[position].begins_turn:
                return
            if position != task:
                self.drop(position)

    def _drop_talk(self, past: Sequence[int], tail: int) -> None:
        """Let older turns go down to `tail` tokens, not the newest, nor one that used tools and what follows.

        Results of tools are asked for again in the next turns.
        """
        turns = [at for at in past if self.groups[at].begins_turn]
        past_tokens = sum(self.cost(at) for at in past)
        for turn, following in pairwise(turns):
            positions = range(turn, following)
            if past_tokens <= tail or any(len(self.groups[at].items) > 1 for at in positions):
                return
            for position in positions:
                past_tokens -= self.cost(position)
                self.drop(position)


def _anchor_after(groups: Sequence[MessageGroup], positions: set[int]) -> str | None:
    """The first group behind the last one that is gone."""
    if not positions:
        return None
    last = max(positions)
    return groups[last + 1].anchor if last + 1 < len(groups) else None
