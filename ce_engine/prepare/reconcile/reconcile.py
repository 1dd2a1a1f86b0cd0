"""Reconcile: what of a host's list is already stored, where each message sits, what may be brought in."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import cast

from ce_engine.prepare.reconcile.align import Alignment, Novelty, ReconcileFlags
from ce_engine.prepare.reconcile.earlier_lanes import EarlierLanes
from ce_engine.prepare.reconcile.match import (
    CANDIDATES,
    NEW,
    Ambiguity,
    IncomingMessage,
    ListReader,
    Matcher,
)
from ce_engine.prepare.reconcile.newest_turn import NewestTurn
from ce_engine.prepare.reconcile.tool_result_links import ToolResultLinks
from ce_engine.schema.enums import Origin
from ce_engine.schema.message_forest import MessageForest


__all__ = [
    "Ambiguity",
    "AnswerPlace",
    "IncomingMessage",
    "NewEntry",
    "ReconcileFlags",
    "Reconciliation",
    "place_answer",
    "reconcile",
    "settle",
    "settled_places",
]

NO_FLAGS = ReconcileFlags()
ON_PATH = Novelty()


@dataclass(slots=True)
class NewEntry:
    """A message that is to be stored.

    `parent` is a place: an entry (0 or more), `~k` for the `k`-th new message, `None` for a root.

    Attributes:
        index: its index in the host's list.
        aside: it stands among older messages, on no path.
        replaces: the entry that the host edited into it.
        variant_of: the recorded answer in whose place it stands.
    """

    index: int
    parent: int | None
    aside: bool = False
    replaces: int | None = None
    variant_of: int | None = None


@dataclass(slots=True)
class Reconciliation:
    """Where the messages of a host's list sit.

    A *place* is an entry of the log (0 or more), `~k` for `new[k]`, or `None` for nothing.

    Attributes:
        positions: the place of each message of the list; `None` for system messages.
        new: what is to be stored, in the host's order; a parent comes before its children.
        tip: the place that the answer hangs on; `None` where the list has no message but the system's.
        lane: the place of the first message of the tip's lane.
        bring: earlier lanes that may be brought in, newest first, each in order; walked on demand.
        ambiguous: codes of the rules that were applied where content decides nothing.
        line: the indexes of the messages that are neither instructions nor results.
    """

    positions: list[int | None]
    new: list[NewEntry] = field(default_factory=list)
    tip: int | None = None
    lane: int | None = None
    bring: Iterable[list[int]] = ()
    ambiguous: list[str] = field(default_factory=list)
    line: list[int] = field(default_factory=list)


def settle(place: int | None, added: Sequence[int]) -> int | None:
    """The entry at `place`, where `added[k]` is the entry that `new[k]` became."""
    return place if place is None or place >= 0 else added[~place]


def settled_places(reconciliation: Reconciliation, added: Sequence[int]) -> list[int | None]:
    """Where all messages sit; before the first new one there is nothing to settle."""
    first = reconciliation.new[0].index if reconciliation.new else len(reconciliation.positions)
    return [
        *reconciliation.positions[:first],
        *(settle(n, added) for n in reconciliation.positions[first:]),
    ]


def reconcile(
    log: MessageForest,
    incoming: Sequence[IncomingMessage],
    *,
    agent: str = "",
    lane_key: str = "",
    prefix: Sequence[int | None] = (),
    line: Sequence[int] = (),
    flags: ReconcileFlags = NO_FLAGS,
    same_answer: Callable[[int, int], bool] | None = None,
) -> Reconciliation:
    """Say of every host message whether it is stored, and where it sits (decision 4).

    Args:
        log: what is known of the session.
        incoming: the host's list.
        agent: who makes the call, where the framework names agents.
        lane_key: the framework's own name of the line of conversation.
        prefix: positions of the leading messages, system messages included, where the caller knows
            them from an earlier result: the same objects with the same content. They are compared
            with the log and change the cost, never the answer.
        line: the indexes of those of them that are neither instructions nor results, as an earlier
            result has them.
        flags: what is known beside content and order.
        same_answer: `(n, i)` -> whether answer `i` of the list is recorded answer `n` as the host
            rewrote it; asked where neither fingerprint decides.
    """
    start = len(prefix) if line else 0
    matcher = Matcher(log, incoming, ListReader(agent, lane_key, same_answer), start, line)
    begins = matcher.at[: bisect_left(matcher.at, len(prefix))]
    places = cast("list[int]", [*map(prefix.__getitem__, begins)])  # instructions alone have none
    alignment = Alignment(matcher, places, new_conversation=flags.new_conversation)
    NewestTurn(alignment, flags)
    reconciliation = _Assembly(alignment, prefix).found
    reconciliation.line = matcher.at
    reconciliation.lane = _lane(log, reconciliation)
    if not flags.new_conversation:
        _bring_in(matcher, flags, reconciliation)
    return reconciliation


class _Assembly:
    """Goes through the list once in the host's order, so that the log's order is the host's."""

    def __init__(self, alignment: Alignment, known_places: Sequence[int | None]) -> None:
        self.matcher = matcher = alignment.matcher
        self.novelties = alignment.novelties
        self.j = alignment.from_known
        start = matcher.at[self.j - 1] + 1 if self.j else 0
        self.found = Reconciliation(list(known_places[:start]), ambiguous=matcher.ambiguous)
        self.own = self.found.positions[-1] if start else None
        self.results = ToolResultLinks(matcher.log, self.found.positions)
        for i in range(start, len(matcher.incoming)):
            self.found.positions.append(self._place(i))

    def _place(self, i: int) -> int | None:
        role = self.matcher.incoming[i].role
        if role == "system":
            return None
        return self._result(i) if role == "tool" else self._message(i)

    def _message(self, i: int) -> int:
        place = self.matcher.places[self.j]
        if place == NEW:
            place = self._add(i, self.own, self.novelties[self.j])
        self.j += 1
        self.own = self.found.tip = place
        return place

    def _result(self, i: int) -> int:
        incoming, own = self.matcher.incoming, self.own
        calls = incoming[self.matcher.at[self.j - 1]].calls if self.j else ()
        if own is not None and own < 0 and calls:
            return self._add(i, own)
        stored_call = own if calls and own is not None else None
        n, call = self.results.match(incoming[i], stored_call, calls, self._below())
        if call is not None and call != own:
            self.found.tip = call  # an orphan at the end: the turn goes on from its call
        return n if n != NEW else self._add(i, call, Novelty(aside=call is None))

    def _below(self) -> int | None:
        """The next message of the line that is stored."""
        places = self.matcher.places
        return next((places[j] for j in range(self.j, len(places)) if places[j] != NEW), None)

    def _add(self, i: int, parent: int | None, novelty: Novelty = ON_PATH) -> int:
        new = NewEntry(i, parent, novelty.aside, novelty.replaces, novelty.variant_of)
        self.found.new.append(new)
        return ~(len(self.found.new) - 1)


def _lane(log: MessageForest, reconciliation: Reconciliation) -> int | None:
    """The place where the tip's lane starts."""
    place = reconciliation.tip
    while place is not None and place < 0:
        parent = reconciliation.new[~place].parent
        if parent is None:
            return place
        place = parent
    return None if place is None else log.root(place)


def _bring_in(matcher: Matcher, flags: ReconcileFlags, reconciliation: Reconciliation) -> None:
    """Offer earlier lanes if the host sends nothing of what was said before its newest message."""
    log, line = matcher.log, matcher.line
    task = next((j for j in range(len(line) - 1, -1, -1) if _is_task(line[j])), None)
    if task is None or _sends_history(matcher, reconciliation, task):
        return
    own = matcher.places[task]
    lanes = EarlierLanes(
        log,
        before=len(log) if own == NEW else log.root(own),
        lane_key=matcher.reader.lane_key,
        without=frozenset(map(log.root, flags.in_flight)),
    )
    newest = next(lanes.roots(), None)
    if newest is None:
        return
    reconciliation.bring = lanes
    if had_history(log, newest):
        reconciliation.ambiguous.append(Ambiguity.RESET)


def _is_task(m: IncomingMessage) -> bool:
    return m.origin == Origin.TASK if m.origin else m.role == "user"


def _sends_history(matcher: Matcher, reconciliation: Reconciliation, task: int) -> bool:
    """Whether the list holds anything that was said before its task message, or an answer or a summary."""
    places, parents = matcher.places, matcher.log.parents
    if places[task] != NEW and parents[places[task]] >= 0:
        return True  # a turn that goes on: its history was sent with its first call
    for j in range(task + 1, len(places)):
        follows = places[j] == NEW or parents[places[j]] == places[j - 1]
        if not matcher.line[j].calls or not follows:
            return True  # not this turn's tool calls: the task of this turn was cut away
    before = islice(reconciliation.positions, matcher.at[task])
    if any(n is not None and n >= 0 for n in before):
        return True
    line = islice(matcher.line, task)
    return any(m.role == "assistant" or m.origin == Origin.HOST_SUMMARY for m in line)


def had_history(log: MessageForest, root: int) -> bool:
    """Whether the host once sent this lane's earlier turns: a second question stands in it."""
    n = log.leaf(root)
    while n is not None and n != root:
        if log.entries[n].role == "user":
            return True
        n = log.parents[n]
    return False


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """Where an answer belongs: it is entry `n` already, or a variant of `variant_of`, or simply new."""

    n: int | None = None
    variant_of: int | None = None


def place_answer(
    log: MessageForest,
    tip: int | None,
    answer: IncomingMessage,
    *,
    agent: str = "",
    since: int = 0,
    same_answer: Callable[[int], bool] | None = None,
) -> AnswerPlace:
    """Say whether the answer to `tip` is stored already (the host's list may bring it first).

    Args:
        log: what is known of the session.
        tip: the entry that the answer hangs on.
        answer: the answer, as it would come in a host's list.
        agent: who gave it, where the framework names agents.
        since: the length of the log when the call was prepared. What stood there before is the
            answer of an earlier attempt: an equal one is a variant, too.
        same_answer: `n` -> whether the answer is entry `n`, rewritten or cut short.
    """
    if tip is None:
        return AnswerPlace()
    whole = None if same_answer is None else lambda n, _: same_answer(n)
    matcher = Matcher(log, [answer], ListReader(agent, same_answer=whole))
    there = [n for n in islice(log.children(tip), CANDIDATES) if _is_answer(matcher, n)]
    late = [n for n in there if n >= since and log.entries[n].calls == answer.calls]
    equal = [n for n in late if log.entries[n].key == answer.key]
    rewritten = [] if equal or answer.calls else [n for n in late if matcher.rewritten(n, 0)]
    for n in (*equal, *rewritten):
        return AnswerPlace(n=n)
    return AnswerPlace(variant_of=there[0] if there else None)


def _is_answer(matcher: Matcher, n: int) -> bool:
    entry = matcher.log.entries[n]
    return entry.role == "assistant" and not entry.aside and matcher.compatible(n, matcher.line[0])
