"""The hash chain of a session's event log: how it is computed, and how it is verified (B-01)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ce_engine.schema.events import ContentCheck, Deletion, Event, EventType, Verification
from ce_engine.schema.ids import ChainKeys
from ce_engine.schema.json_text import canonical_json


_OLDER = "c1:"
"""Links of older releases: they do not cover the whole envelope, nor say of which session they are."""
_NEWER = "c2:"


def payload_mac(event: Event, key: bytes) -> str:
    """MAC of what a deletion erases of an event: payload, tags, meta, nonce; with these gone it tells nothing."""
    owner = [event.account_id, event.user_id, event.session_id]
    return _mac([event.nonce, event.payload, event.tags, event.meta, owner], key, b"payload-2")


def _older_payload_mac(event: Event, key: bytes) -> str:
    return _mac([event.nonce, event.payload], key, b"payload")


def _mac(fields: list[object], key: bytes, person: bytes, size: int = 16) -> str:
    text = canonical_json(fields).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, key=key[:64], digest_size=size, person=person).hexdigest()


def link(event: Event, seq: int, previous: str, key: bytes) -> str:
    """Return the chain hash of `event` at `seq` after the hash `previous` (`""` for the first).

    `key` is the chain's own (`ChainKeys.own`). The hash covers a fixed list of fields and the payload's
    MAC, so that a deletion may empty payload, tags and meta and the chain still verifies, and later
    fields of `Event` change nothing.
    """
    fields = [event.event_id, event.event_type, event.kind, event.ts, event.turn_id, event.task_id]
    fields += [event.tool_call_id, event.model_usage_id, event.request_id, event.payload_mac]
    more = [event.redacted, event.token_estimate]
    return _NEWER + _mac([previous, seq, *fields, *more], key, b"chain-2", 20)


def _older_link(event: Event, seq: int, previous: str, key: bytes) -> str:
    fields = [event.event_id, event.event_type, event.kind, event.ts, event.turn_id]
    fields += [event.tool_call_id, event.model_usage_id, event.request_id, event.payload_mac]
    return _OLDER + _mac([previous, seq, *fields], key, b"chain", 20)


def is_older(event: Event) -> bool:
    """Whether a release wrote it that kept no MACs of content."""
    return event.hash.startswith(_OLDER)


def verify_chain(events: Sequence[Event], head: str, keys: ChainKeys) -> int | None:
    """Return the `seq` of the first event that is missing or does not fit the chain; `None` if all do.

    `head` is the session's stored chain head: a log whose tail was cut off does not end in it, and
    then the number after the last event is returned.
    """
    previous = ""
    for position, event in enumerate(events, start=1):
        if event.seq != position or not _fits(event, previous, keys):
            return position
        previous = event.hash
    return None if previous == head else len(events) + 1


def _fits(event: Event, previous: str, keys: ChainKeys) -> bool:
    seq = event.seq or 0
    if is_older(event):  # a release that knows the newer ones writes none after them
        older = _older_link(event, seq, previous, keys.install)
        return older == event.hash and not previous.startswith(_NEWER)
    return link(event, seq, previous, keys.own) == event.hash


def is_under(events: Sequence[Event], keys: ChainKeys) -> bool:
    """Whether any event was recorded under these keys, whatever became of the others."""
    hashes = ["", *(event.hash for event in events)]
    return any(_fits(e, previous, keys) for e, previous in zip(events, hashes, strict=False))


def verify_log(
    events: Sequence[Event],
    head: str,
    keys: ChainKeys,
    session_key: bytes | None,
    content: ContentCheck | None = None,
) -> Verification:
    """Tell what was deleted from what was tampered with.

    Args:
        events: the session's, in order of `seq`.
        head: the session's stored chain head.
        keys: of the chain.
        session_key: the key of the payloads' MACs; `None` where there is none any more.
        content: what the store found of the content; `None` if only the log is asked about.
    """
    content = content or ContentCheck()
    deletions = [event for event in events if event.event_type == EventType.DELETED]
    ends = [event.seq or 0 for event in deletions if event.payload.get("what") == "session"]
    broken = verify_chain(events, head, keys)
    last = max(ends, default=0)
    emptied = _emptied(deletions)
    payloads = [
        _payload_fits(event, keys, session_key, (event.seq or 0) < last, event.seq in emptied)
        for event in events
    ]
    wrong = [n for n, fits in enumerate(payloads, start=1) if fits is False]
    if broken is not None:
        wrong.append(broken)
    older = sum(is_older(event) for event in events[last:])
    unverified = list(content.unverified)
    if older:
        unverified.append(
            f"tags and counts of {older} events: an older release wrote them, without MACs"
        )
    named_deletions = [
        Deletion(e.seq or 0, e.ts, str(e.payload.get("what")), e.payload.get("evidence_id"))
        for e in deletions
    ]
    return Verification(
        len(events),
        min(wrong, default=None),
        tuple(named_deletions),
        payloads.count(None),
        content.rows,
        content.wrong,
        tuple(unverified),
        uncounted=content.uncounted,
    )


def _emptied(deletions: Sequence[Event]) -> set[int]:
    """The numbers of the events that went with deleted evidence; a deletion names earlier ones only."""
    pairs = ((event.seq or 0, event.payload.get("events", ())) for event in deletions)
    return {n for seq, events in pairs for n in events if isinstance(n, int) and n < seq}


def _payload_fits(
    event: Event, keys: ChainKeys, session_key: bytes | None, went: bool, may_be_empty: bool
) -> bool | None:
    """Whether the payload is what was recorded, or was deleted as the log says; `None` if nobody can say."""
    older, key = is_older(event), session_key
    is_empty = not (event.payload or event.nonce or event.tags or event.meta)
    if event.event_type == EventType.DELETED:
        key = keys.install if older else keys.own
    elif went or (may_be_empty and is_empty):
        return is_empty
    if key is None or not event.payload_mac:
        return None
    mac = (_older_payload_mac if older else payload_mac)(event, key)
    return mac == event.payload_mac
