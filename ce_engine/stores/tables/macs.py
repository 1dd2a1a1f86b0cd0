"""MACs of the rows that a group writes, which the group's event carries: nobody without the key can forge a row (B-01).

A row's MAC is under the session's key, over the very values that the database has. An event carries one
for each row that came, changed or went since the event before; where a row was read to be changed, also
the MAC of what was read, so that nothing forged becomes genuine by being written anew. Of all that events
carry there is a running MAC in the session's row, and of that row one more, both under the chain's key.
Each of these is one keyed hash, over bytes that are written anyway.
"""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from sqlalchemy import Table

from ce_engine.stores.tables import tables


TAG_BYTES, MAC_BYTES = 8, 12
"""A tag is which row it is, without saying so to who has no key: what is in an event outlives the row."""

PUT, CHANGED, GONE, REMOVED, OLDER, FORGED = range(6)
"""What became of a row: it was written, or changed from what was read, or went, or went and was read
before. And of the session: it has rows of a release that kept no MACs; its own row was forged."""
_SIZES = {
    PUT: TAG_BYTES + MAC_BYTES,
    CHANGED: TAG_BYTES + 2 * MAC_BYTES,
    GONE: TAG_BYTES,
    REMOVED: TAG_BYTES + MAC_BYTES,
    OLDER: 0,
    FORGED: 0,
}
_OPERATIONS = 8

_MARSHAL = 2
"""The newest form in which equal values always give equal bytes."""


@dataclass(frozen=True, slots=True)
class Content:
    """The rows of one table that have MACs.

    Attributes:
        kind: its number. Files have it: none may change.
        name: what a person calls one of its rows.
        names: the columns that a MAC covers. A release may add one at the end, with `NULL` in older rows.
        key: where among them those are that say which row it is.
        ordered: whether the order of arrival is the order of the row's own number, which has no MAC.
    """

    table: Table
    kind: int
    name: str
    names: tuple[str, ...]
    key: tuple[int, ...]
    ordered: bool


def _content(kind: int, name: str, table: Table, *key: str) -> Content:
    names = tuple(column.name for column in table.c if column.name not in ("id", "session"))
    return Content(table, kind, name, names, tuple(map(names.index, key)), "id" in table.c)


_ALL = (
    _content(0, "message", tables.messages, "seq"),
    _content(1, "evidence", tables.evidence, "evidence_id"),
    _content(2, "context block", tables.blocks, "block_id"),
    _content(3, "task", tables.tasks, "task_id"),
    _content(4, "model usage", tables.model_usage, "model_usage_id"),
    _content(5, "tool call", tables.tool_calls, "tool_call_id"),
    _content(6, "turn", tables.turns, "turn_id"),
    _content(7, "cut", tables.cuts, "lane_key", "kind", "anchor_message_id"),
    _content(8, "summary", tables.summaries, "anchor_message_id"),
    _content(9, "placeholder", tables.placeholders, "label", "mac"),
)
CONTENT: Mapping[Table, Content] = {content.table: content for content in _ALL}
HEAD_NAMES = tuple(c.name for c in tables.sessions.c if c.name not in ("id", "head_mac"))
_HEAD = itemgetter(*HEAD_NAMES)

Row = Sequence[Any]
"""The values of `Content.names`, as the database has them."""
Marks = dict[bytes, bytes]
"""By a row's tag its MAC, in the rows' order."""


class RowKey:
    """Makes tags and MACs under a session's key."""

    __slots__ = ("_base",)

    def __init__(self, key: bytes) -> None:
        self._base = hashlib.blake2b(key=key, digest_size=TAG_BYTES + MAC_BYTES, person=b"row")

    def of(self, content: Content, row: Row) -> tuple[bytes, bytes]:
        """The row's tag and MAC."""
        hashed = self._base.copy()
        hashed.update(_bytes((content.kind, *(row[place] for place in content.key))))
        tag = hashed.digest()[:TAG_BYTES]
        hashed.update(_bytes(tuple(row)))
        return tag, hashed.digest()[:MAC_BYTES]

    def tag(self, content: Content, key: Row) -> bytes:
        """The tag of a row of which only the key is known."""
        hashed = self._base.copy()
        hashed.update(_bytes((content.kind, *key)))
        return hashed.digest()[:TAG_BYTES]


def _bytes(values: tuple[Any, ...]) -> bytes:
    while (
        values[-1] is None
    ):  # a column that a later release adds at the end changes no MAC of before
        values = values[:-1]
    try:
        return marshal.dumps(values, _MARSHAL)
    except ValueError:  # a word of an enumeration, which a driver takes as the text that it is
        plain = (str(value) if isinstance(value, str) else value for value in values)
        return marshal.dumps(tuple(plain), _MARSHAL)


def running(previous: bytes, event_hash: str, macs: bytes, key: bytes) -> bytes:
    """The MAC of all that events carry, up to this event."""
    data = b"".join((previous, event_hash.encode(), macs))
    return hashlib.blake2b(data, key=key, digest_size=16, person=b"content").digest()


def of_head(row: Mapping[str, Any], key: bytes) -> bytes:
    """The MAC of the session's own row."""
    data = _bytes(_HEAD(row))
    return hashlib.blake2b(data, key=key, digest_size=16, person=b"head").digest()


class Macs:
    """The MACs of one group in the making."""

    __slots__ = ("_basis", "_key", "_made")

    def __init__(self, key: bytes) -> None:
        self._key = RowKey(key)
        self._made = bytearray()
        self._basis: Marks = {}

    def of_session(self, mark: int) -> None:
        """Say `OLDER` or `FORGED` of the session."""
        self._made.append(mark)

    def was(self, content: Content, row: Row) -> None:
        """Take note of a row as it was read, which is going to be changed."""
        tag, mac = self._key.of(content, row)
        self._basis[tag] = mac

    def put(self, content: Content, rows: Sequence[Row]) -> None:
        """Rows were written, whatever was there before."""
        for row in rows:
            tag, mac = self._key.of(content, row)
            basis = self._basis.pop(tag, None) if self._basis else None
            self._add(content, PUT if basis is None else CHANGED, tag, basis or b"", mac)

    def drop(self, content: Content, key: Row) -> None:
        """A row was deleted."""
        self._add(content, GONE, self._key.tag(content, key))

    def marks(self, content: Content, rows: Sequence[Row]) -> Marks:
        """Of all these rows."""
        return dict(self._key.of(content, row) for row in rows)

    def compare(self, content: Content, before: Marks, after: Marks) -> None:
        """What was read became what is there now: say what became of each row."""
        stay = [tag for tag in before if tag in after]
        if list(after)[: len(stay)] != stay:  # in another order: all of them anew
            stay = []
        for tag, mac in before.items():
            if tag not in after or not stay:
                self._add(content, REMOVED, tag, mac)
        for tag, mac in after.items():
            if not stay or tag not in before:
                self._add(content, PUT, tag, mac)
            elif before[tag] != mac:
                self._add(content, CHANGED, tag, before[tag], mac)

    def _add(self, content: Content, operation: int, *parts: bytes) -> None:
        self._made.append(_OPERATIONS * content.kind + operation)
        self._made += b"".join(parts)

    def __bytes__(self) -> bytes:
        return bytes(self._made)


def entries(macs: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    """What an event carries: what became of a row, of which kind, its tag, and one or two MACs.

    Raises:
        ValueError: it is nothing that `Macs` made.
    """
    at = 0
    while at < len(macs):
        kind, operation = divmod(macs[at], _OPERATIONS)
        end = at + 1 + _SIZES.get(operation, len(macs))
        if end > len(macs) or kind >= len(_ALL):
            raise ValueError("these are no MACs")
        yield operation, kind, macs[at + 1 : at + 1 + TAG_BYTES], macs[at + 1 + TAG_BYTES : end]
        at = end
