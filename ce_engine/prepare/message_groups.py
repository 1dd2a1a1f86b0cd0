"""The line of messages that a model call could send: host messages and stored ones, in order, and their groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from ce_engine.schema.enums import Origin


@dataclass(slots=True)
class MessageItem:
    """One message of the line.

    Attributes:
        index: position in the host's list; `None` for a stored message that would be brought in.
        n: its entry in the session's log; `None` for system messages and in helper calls.
        message_id: its id in the store, the anchor of cuts.
        tokens: with framing, calls and media.
        calls: host ids of the tool calls it asks for, `""` for one without.
        call_id: host id of the call that it answers.
        more_call_ids: those of other calls that it answers too.
    """

    origin: Origin
    tokens: int
    index: int | None = None
    n: int | None = None
    message_id: str = ""
    calls: tuple[str, ...] = ()
    call_id: str | None = None
    is_tool_result: bool = False
    error: bool = False
    protected: bool = False
    more_call_ids: tuple[str, ...] = ()

    @property
    def key(self) -> int | str:
        """What it is known by in one call: its place in the host's list, else its id."""
        return self.message_id if self.index is None else self.index


@dataclass(slots=True)
class MessageGroup:
    """Messages that go or stay together: one message, or a message with tool calls and all its results.

    `past` groups stand before the task message; `must` groups may never be left out.
    """

    items: list[MessageItem]
    complete: bool = True
    past: bool = False
    must: bool = False
    tokens: int = 0

    @property
    def anchor(self) -> str:
        return self.items[0].message_id

    @property
    def begins_turn(self) -> bool:
        return self.items[0].origin is Origin.TASK


def task_above(groups: Sequence[MessageGroup], at: int) -> int | None:
    """The task of a turn that a cut stands in the midst of: without it nobody knows what is answered.

    Providers may refuse a talk that begins with the assistant.
    """
    if at >= len(groups) or groups[at].begins_turn:
        return None
    return max((n for n in range(at) if groups[n].begins_turn), default=None)


@dataclass(frozen=True, slots=True)
class BelowCut:
    """What a standing cut leaves out of a host's list: whole past groups, which nobody looks at again.

    Attributes:
        start: index of the first message of it, behind the leading system messages.
        end: index behind the last one.
        counted_by: the counter's name.
        anchor: message id of the first group.
        groups: how many there are.
        tokens: what they cost.
        alone: what they would take, each by itself.
        places: the entries of the messages.
        entries: the same, to look one up.
        saved: by the forms that its results have.
        uses_tools: whether any of them asks for a tool.
        archive: what the archive tells of them.
    """

    start: int
    end: int
    counted_by: str
    anchor: str
    groups: int
    tokens: int
    places: Sequence[int]
    entries: frozenset[int]
    saved: int = 0
    alone: int = 0
    uses_tools: bool = False
    archive: dict[str, Any] = field(default_factory=dict)

    def joined(self, more: BelowCut) -> BelowCut:
        """Both, where the other one goes on; of that nothing is told yet."""
        return replace(
            more,
            start=self.start,
            anchor=self.anchor,
            groups=self.groups + more.groups,
            tokens=self.tokens + more.tokens,
            places=[*self.places, *more.places],
            entries=self.entries | more.entries,
            saved=self.saved + more.saved,
            alone=self.alone + more.alone,
            uses_tools=self.uses_tools or more.uses_tools,
        )


def below_cut(
    line: MessageLine,
    drop: str,
    counted_by: str,
    saved: Callable[[MessageItem], int],
    alone: Callable[[MessageItem], int],
) -> BelowCut | None:
    """What stands before a cut up to the first that stays, if it is a plain stretch of the host's list.

    It goes on where what is below the line's own ends. `saved` tells the tokens that a message's form saves, `alone`
    those that it would take by itself.
    """
    at = next((n for n, group in enumerate(line.groups) if group.anchor == drop), 0)
    task = task_above(line.groups, at)
    before = line.groups[: at if task is None else task]
    groups = list(takewhile(lambda group: group.past and not group.must, before))
    items = [item for group in groups for item in group.items]
    indexes = [item.index for item in items if item.index is not None]
    places = [item.n for item in items if item.n is not None]
    if line.orphans or not items or not len(items) == len(indexes) == len(places):
        return None
    earlier_below = line.below
    start, end = len(line.system) if earlier_below is None else earlier_below.end, indexes[-1] + 1
    if indexes != list(range(start, end)):
        return None
    below = BelowCut(
        start,
        end,
        counted_by,
        groups[0].anchor,
        len(groups),
        sum(group.tokens for group in groups),
        places,
        frozenset(places),
        sum(map(saved, items)),
        sum(map(alone, items)),
        any(item.calls for item in items),
    )
    return below if earlier_below is None else earlier_below.joined(below)


@dataclass(slots=True)
class MessageLine:
    """The line, split: leading and other system messages, the groups, the task, and what is half a pair.

    What is `below` a standing cut stands in none of them.
    """

    system: list[MessageItem] = field(default_factory=list)
    groups: list[MessageGroup] = field(default_factory=list)
    orphans: list[MessageItem] = field(default_factory=list)
    task: int | None = None
    """The group that holds the task message."""
    below: BelowCut | None = None

    @property
    def uses_tools(self) -> bool:
        """Whether a message of it asks for a tool, below the cut or above it."""
        for group in self.groups:
            for item in group.items:
                if item.calls:
                    return True
        return self.below is not None and self.below.uses_tools
