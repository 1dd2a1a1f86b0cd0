"""Whatever is recorded and deleted, a log verifies; whatever is changed in it, it does not (B-01)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ce_engine.schema.event_chain import payload_mac, verify_log
from ce_engine.schema.events import Event
from ce_engine.schema.ids import Fingerprinter, chain_keys
from ce_engine.schema.rows import (
    AppendEvents,
    DeleteEvidence,
    DeleteSession,
    EventChain,
    PutEvidence,
)
from ce_engine.stores.documents.memory import MemoryStore
from ce_engine.testing import samples
from ce_engine.testing.samples import SCOPE
from ce_engine.testing.store_deletion import deletion


STEPS = st.lists(st.sampled_from(["event", "event", "evidence", "session"]), max_size=12)
CHANGES = {
    "payload": {"forged": 1},
    "nonce": "forged",
    "kind": "hitl",
    "ts": "2020",
    "event_type": "Error",
    "payload_mac": "00",
    "hash": "c1:00",
    "request_id": "forged",
}


def key_of(store: MemoryStore, chain: EventChain) -> bytes | None:
    return (
        None if chain.head.is_deleted else Fingerprinter(store.secret, chain.head.salt, SCOPE).key
    )


async def record(store: MemoryStore, name: str) -> None:
    state = await store.state(SCOPE)
    if state is None:
        await store.apply(SCOPE, [PutEvidence(samples.evidence_row("e"))])
        state = await store.state(SCOPE)
        assert state is not None
    event = samples.event(name)
    event.payload_mac = payload_mac(event, Fingerprinter(store.secret, state.head.salt, SCOPE).key)
    await store.apply(SCOPE, [AppendEvents([event])])


async def played(store: MemoryStore, steps: list[str]) -> tuple[EventChain, int]:
    """The log after these steps, and how many deletions there were."""
    await record(store, "first")
    deletions = 0
    for n, step in enumerate(steps):
        there = await store.get_evidence(SCOPE, "e")
        if step == "event" or there is None:
            await record(store, f"v{n}")
        elif step == "session":
            await store.apply(SCOPE, [DeleteSession(deletion(store, f"d{n}"))])
            deletions += 1
        else:
            event = deletion(store, f"d{n}", what="evidence", evidence_id="e")
            done = await store.apply(SCOPE, [DeleteEvidence("e", event)])
            deletions += bool(done.removed)
    chain = await store.chain(SCOPE)
    assert chain is not None
    return chain, deletions


@pytest.mark.req("B-01", "A-30")
@given(STEPS, st.integers(0), st.sampled_from(sorted(CHANGES)))
def test_only_what_was_changed_is_called_tampered(steps: list[str], at: int, name: str) -> None:
    store = MemoryStore()
    chain, deletions = asyncio.run(played(store, steps))
    key, own = chain_keys(store.secret, SCOPE.key), key_of(store, chain)
    found = verify_log(chain.events, chain.head.chain_head, key, own)
    assert (found.tampered_seq, len(found.deleted), found.unchecked) == (None, deletions, 0)
    position = at % len(chain.events)
    changed: Any = {name: CHANGES[name]}
    forged: list[Event] = list(chain.events)
    forged[position] = forged[position].model_copy(update=changed)
    assert verify_log(forged, chain.head.chain_head, key, own).tampered_seq is not None
    without = chain.events[:position] + chain.events[position + 1 :]
    missing = verify_log(without, chain.head.chain_head, key, own).tampered_seq
    # Without a deletion's event nothing excuses the emptied ones before it.
    excused = chain.events[position].event_type == "deleted"
    assert missing is not None
    assert missing <= position + 1 if excused else missing == position + 1
