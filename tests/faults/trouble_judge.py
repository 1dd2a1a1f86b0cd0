"""Compares what a store holds after its trouble with what was said in the meantime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ce_engine import ContextEngine, Scope, Store, TurnStatus


@dataclass
class Outcome:
    """Counts for the reader, and what failed."""

    counts: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def check(self, holds: object, what: str) -> None:
        self.counts["compared"] += 1
        if not holds:
            self.failed.append(what)

    def add(self, other: Outcome, name: str) -> None:
        self.counts += other.counts
        self.failed += [f"{name}: {what}" for what in other.failed]


def judge(
    engine: ContextEngine, store: Store, logs: Mapping[str, Sequence[str]], *, whole: bool = True
) -> Outcome:
    """Hold each session's log against what was said in it; without `whole`, gaps must account for the rest."""
    outcome = Outcome()
    for name, log in logs.items():
        outcome.add(_session(engine, store, name, log, whole=whole), name)
    return outcome


def _session(
    engine: ContextEngine, store: Store, name: str, log: Sequence[str], *, whole: bool
) -> Outcome:
    outcome, scope = Outcome(), Scope(session_id=name)
    state = engine.loop.run(store.state(scope))
    rows = state.rows if state is not None else []
    texts = [row.message.content for row in rows]
    events = engine.loop.run(store.list_events(scope))
    gaps = [event.payload for event in events if "groups" in event.payload]
    lost = sum(gap["messages"] for gap in gaps)
    if whole:
        outcome.check(texts == list(log), f"stored {texts}, said {list(log)}")
        outcome.check(not gaps, f"gaps are named: {gaps}")
    else:
        left = iter(log)
        outcome.check(all(text in left for text in texts), f"another order, or doubled: {texts}")
        missing = len(log) - len(texts)
        outcome.check(missing == lost, f"{missing} messages are missing, {lost} are named")
        outcome.check(all(g["from"] <= g["to"] and g["from"] for g in gaps), f"times of {gaps}")
    ids = [event.event_id for event in events]
    outcome.check(len(ids) == len(set(ids)), "an event is there twice")
    if events or not whole:
        found = engine.sync.verify(scope) if events else None
        found = found and replace(found, uncounted=())  # of a write that a fault broke off
        outcome.check(found is None or found.status == "intact", f"the chain: {found}")
    turns = engine.loop.run(store.list_turns(scope)) if state is not None else []
    open_turns = [turn.turn_id for turn in turns if turn.status is TurnStatus.OPEN]
    outcome.check(not (whole and open_turns), f"open turns: {open_turns}")
    outcome.check(not whole or 2 * len(turns) == len(log), f"{len(turns)} turns, {len(log)} said")
    outcome.counts["messages stored"] += len(texts)
    outcome.counts["of them marked late"] += sum(row.late for row in rows)
    outcome.counts["messages lost and named"] += lost
    outcome.counts["gaps named"] += len(gaps)
    return outcome
