"""The smallest engine around reconcile: it prepares, commits, fails and restarts, beside a cold twin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from ce_engine.prepare.reconcile.reconcile import (
    IncomingMessage,
    ReconcileFlags,
    Reconciliation,
    place_answer,
    reconcile,
    settle,
)
from ce_engine.schema.message_forest import Entry, MessageForest


LISTS = 4
"""Recent lists whose objects are recognised."""


@dataclass(frozen=True, slots=True, eq=False)
class Obj:
    """A message object of the host: all that the engine sees of it."""

    role: str
    text: str
    calls: tuple[tuple[str, str], ...] = ()
    """(host id, arguments) of each tool call."""
    call_id: str | None = None
    author: str | None = None
    origin: str = ""
    host_id: bytes | None = None


@dataclass(slots=True)
class Turn:
    """A call that waits for its answer; everything in positions of the log."""

    tip: int | None
    positions: list[int | None]
    new: list[int]
    brought: list[list[int]]
    ambiguous: list[str]
    since: int
    agent: str = ""
    lane_key: str = ""


def digest(*parts: object) -> bytes:
    return blake2b(repr(parts).encode(), digest_size=16).digest()


def key(obj: Obj) -> bytes:
    return digest(obj.text, [arguments for _, arguments in obj.calls])


def loose_key(obj: Obj) -> bytes:
    text = re.sub(r"<think>.*?</think>|\[\d+\]|\s", "", obj.text)
    return digest("loose", text, [arguments for _, arguments in obj.calls])


def incoming(obj: Obj) -> IncomingMessage:
    return IncomingMessage(
        key=key(obj),
        role=obj.role,
        author=obj.author,
        origin=obj.origin,
        calls=tuple(call for call, _ in obj.calls),
        call_id=obj.call_id,
        host_id=obj.host_id,
        loose_key=loose_key(obj) if obj.role == "assistant" else None,
    )


class Recorder:
    """One process of an app, with its memory of calls and lists, on a log that others may share."""

    def __init__(self, log: MessageForest) -> None:
        self.log = log
        self.in_flight: list[int] = []
        self.failed: set[int] = set()
        self._lists: list[tuple[list[Obj], list[int | None]]] = []

    def restart(self) -> None:
        """Forget what only memory holds."""
        self.in_flight, self.failed, self._lists = [], set(), []

    def prepare(
        self,
        objs: Sequence[Obj],
        *,
        agent: str = "",
        lane_key: str = "",
        flags: ReconcileFlags | None = None,
    ) -> Turn:
        since = len(self.log)
        flags = flags or ReconcileFlags(frozenset(self.in_flight), frozenset(self.failed))
        found = self.warm(objs, agent, lane_key, flags)
        cold = self.cold(objs, agent, lane_key, flags)
        assert_same(found, cold)
        added: list[int] = []
        for new in found.new:
            entry = self._entry(objs[new.index], settle(new.parent, added), agent, lane_key)
            entry.aside, entry.replaces = new.aside, new.replaces
            entry.variant_of = new.variant_of
            added.append(self.log.add(entry))
        positions = [settle(place, added) for place in found.positions]
        tip = settle(found.tip, added)
        self._lists = [*self._lists[1 - LISTS :], (list(objs), positions)]
        if tip is not None:
            self.failed.discard(tip)
            self.in_flight.append(tip)
        brought = list(found.bring)
        return Turn(tip, positions, added, brought, found.ambiguous, since, agent, lane_key)

    def warm(
        self, objs: Sequence[Obj], agent: str, lane_key: str, flags: ReconcileFlags
    ) -> Reconciliation:
        return reconcile(
            self.log,
            [incoming(obj) for obj in objs],
            agent=agent,
            lane_key=lane_key,
            prefix=self._known(objs),
            flags=flags,
        )

    def cold(
        self, objs: Sequence[Obj], agent: str, lane_key: str, flags: ReconcileFlags
    ) -> Reconciliation:
        """What a process finds that has just read the log and knows none of the objects."""
        log = MessageForest()
        for entry in self.log.entries:
            log.add(entry)
        messages = [incoming(obj) for obj in objs]
        return reconcile(log, messages, agent=agent, lane_key=lane_key, flags=flags)

    def _known(self, objs: Sequence[Obj]) -> list[int | None]:
        """Positions of the longest leading part whose objects an earlier list had."""
        best: list[int | None] = []
        for old, positions in self._lists:
            same = 0
            for mine, theirs in zip(objs, old, strict=False):
                if mine is not theirs:
                    break
                same += 1
            if same > len(best):
                best = positions[:same]
        return best

    def _entry(self, obj: Obj, parent: int | None, agent: str, lane_key: str) -> Entry:
        m = incoming(obj)
        return Entry(
            message_id=f"m{len(self.log)}",
            key=m.key,
            role=m.role,
            parent=parent,
            speaker=m.author or (agent if m.role == "assistant" else None) or None,
            calls=m.calls,
            call_id=m.call_id,
            host_id=m.host_id,
            loose_key=m.loose_key,
            lane_key=lane_key,
        )

    def commit(self, turn: Turn, answer: Obj) -> int:
        """Store the answer of a turn, unless the host's list brought it meanwhile."""
        self._close(turn)
        place = place_answer(
            self.log, turn.tip, incoming(answer), agent=turn.agent, since=turn.since
        )
        if place.n is not None:
            return place.n
        entry = self._entry(answer, turn.tip, turn.agent, turn.lane_key)
        entry.variant_of = place.variant_of
        return self.log.add(entry)

    def fail(self, turn: Turn) -> None:
        self._close(turn)
        if turn.tip is not None:
            self.failed.add(turn.tip)

    def _close(self, turn: Turn) -> None:
        if turn.tip in self.in_flight:
            self.in_flight.remove(turn.tip)

    def record_result(self, call: int, result: Obj, lane_key: str = "") -> int:
        """Store a tool result when the tool ends, before the host sends it."""
        return self.log.add(self._entry(result, call, "", lane_key))


def assert_same(warm: Reconciliation, cold: Reconciliation) -> None:
    """Property 6: caches change the cost and never the answer."""
    for name in ("new", "positions", "tip", "lane", "ambiguous"):
        mine, theirs = getattr(warm, name), getattr(cold, name)
        assert mine == theirs, f"6: warm {name} {mine}, cold {theirs}"
    assert list(warm.bring) == list(cold.bring), "6: a cold process brings in something else"
