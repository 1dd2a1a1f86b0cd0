"""What a release without MACs of content wrote, made of what this one writes."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from ce_engine.schema.events import Event
from ce_engine.schema.ids import chain_key


def _mac(fields: list[Any], key: bytes, person: bytes, size: int) -> str:
    text = json.dumps(fields, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, key=key, digest_size=size, person=person).hexdigest()


def link_as_older(
    connection: sqlite3.Connection,
    events: Sequence[Event],
    secret: bytes,
    session_key: bytes,
    short: Callable[[str], Any],
) -> None:
    """Give a file's events, which are all of one session, the links of then; `short` is how it keeps them."""
    previous, key = "", chain_key(secret)
    for e in events:
        made = _mac([e.nonce, e.payload], session_key, b"payload", 16)
        fields = [e.event_id, e.event_type, e.kind, e.ts, e.turn_id, e.tool_call_id]
        fields += [e.model_usage_id, e.request_id, made]
        previous = f"c1:{_mac([previous, e.seq, *fields], key, b'chain', 20)}"
        connection.execute(
            "UPDATE ce_events SET payload_mac = ?, hash = ? WHERE seq = ?",
            (short(made), short(previous), e.seq),
        )
    connection.execute("UPDATE ce_sessions SET chain_head = ?", (previous,))
