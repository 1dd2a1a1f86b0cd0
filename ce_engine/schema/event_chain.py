"""The hash chain of a session's event log: how it is computed, and how it is verified (B-01)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ce_engine.schema.events import Deletion, Event, EventType, Verification
from ce_engine.schema.json_text import canonical_json


def payload_mac(event: Event, key: bytes) -> str:
    """MAC of an event's payload and nonce under the session's key; with either gone it tells nothing."""
    text = canonical_json([event.nonce, event.payload]).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, key=key[:64], digest_size=16, person=b"payload").hexdigest()


def link(event: Event, seq: int, previous: str, key: bytes) -> str:
    """Return the chain hash of `event` at `seq` after the hash `previous` (`""` for the first).

    `key` is the install's chain key (`schema.ids.chain_key`). The hash covers a fixed list of fields
    and the payload's MAC, so that a deletion may empty payload, tags and meta and the chain still
    verifies, and later fields of `Event` change nothing.
    """
    fields = [event.event_id, event.event_type, event.kind, event.ts, event.turn_id]
    fields += [event.tool_call_id, event.model_usage_id, event.request_id, event.payload_mac]
    text = canonical_json([previous, seq, *fields]).encode("utf-8", "surrogatepass")
    return f"c1:{hashlib.blake2b(text, key=key[:64], digest_size=20, person=b'chain').hexdigest()}"


def verify_chain(events: list[Event], head: str, key: bytes) -> int | None:
    """Return the `seq` of the first event that is missing or does not fit the chain; `None` if all do.

    `head` is the session's stored chain head: a log whose tail was cut off does not end in it, and
    then the number after the last event is returned.
    """
    previous = ""
    for position, event in enumerate(events, start=1):
        if event.seq != position or link(event, position, previous, key) != event.hash:
            return position
        previous = event.hash
    return None if previous == head else len(events) + 1


def verify_log(
    events: Sequence[Event], head: str, key: bytes, session_key: bytes | None
) -> Verification:
    """Tell what was deleted from what was tampered with.

    Args:
        events: the session's, in order of `seq`.
        head: the session's stored chain head.
        key: the install's chain key.
        session_key: the key of the payloads' MACs; `None` where there is none any more.
    """
    deletions = [event for event in events if event.event_type == EventType.DELETED]
    ends = [event.seq or 0 for event in deletions if event.payload.get("what") == "session"]
    emptied_before = max(ends, default=0)
    unchecked, wrong = (
        0,
        [] if (broken := verify_chain(list(events), head, key)) is None else [broken],
    )
    for position, event in enumerate(events, start=1):
        if event.event_type == EventType.DELETED:
            fits = payload_mac(event, key) == event.payload_mac
        elif position < emptied_before:
            fits = not (event.payload or event.nonce or event.tags or event.meta)
        elif session_key is None or not event.payload_mac:
            unchecked, fits = unchecked + 1, True
        else:
            fits = payload_mac(event, session_key) == event.payload_mac
        if not fits:
            wrong.append(position)
            break
    named = [
        Deletion(e.seq or 0, e.ts, str(e.payload.get("what")), e.payload.get("evidence_id"))
        for e in deletions
    ]
    return Verification(len(events), min(wrong, default=None), tuple(named), unchecked)
