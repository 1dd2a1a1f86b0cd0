"""Whether a session's rows are those that its events tell of, as far as their MACs say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from ce_engine.schema.event_chain import is_older
from ce_engine.schema.events import ContentCheck, Event, EventType
from ce_engine.schema.ids import chain_keys, session_key
from ce_engine.schema.scope import Scope
from ce_engine.stores.tables import foreign, macs, reads, rows, tables
from ce_engine.stores.tables import statements as sql
from ce_engine.stores.tables.macs import CONTENT, Content, Marks
from ce_engine.stores.tables.packing import lengthen


_NAMED = 3
"""Rows that a sentence names."""
_BY_KIND = {content.kind: content for content in CONTENT.values()}


@dataclass(slots=True)
class _Log:
    """What the MACs that events carry say of the rows, put together."""

    rows: dict[int, Marks] = field(default_factory=lambda: {kind: {} for kind in _BY_KIND})
    wrong: list[str] = field(default_factory=list)
    is_older: bool = False
    """There are rows of a release that kept no MACs."""
    doubtful: set[bytes] = field(default_factory=set)
    """Rows that rest on such ones."""

    def take(self, where: str, entries: bytes, may_be_older: bool) -> None:
        """Add what one event carries."""
        for place, (operation, kind, tag, rest) in enumerate(macs.entries(entries)):
            rows, mac = self.rows[kind], rest[-macs.MAC_BYTES :]
            if operation == macs.FORGED:
                self.wrong.append(f"the session's own row was changed before {where}")
            elif operation == macs.OLDER:
                self.is_older = may_be_older and place == 0
                if not self.is_older:
                    self.wrong.append(f"the MACs were taken away before {where}")
            elif operation == macs.PUT:
                rows[tag] = mac
            elif operation == macs.GONE:
                rows.pop(tag, None)
            else:
                self._rest(where, _BY_KIND[kind], tag, rest[: macs.MAC_BYTES])
                rows.pop(tag, None) if operation == macs.REMOVED else rows.update({tag: mac})

    def _rest(self, where: str, content: Content, tag: bytes, basis: bytes) -> None:
        """What was read, and then changed or deleted, was it what was recorded?"""
        mac = self.rows[content.kind].get(tag)
        if mac is None and self.is_older:
            self.doubtful.add(tag)
        elif mac != basis:
            self.wrong.append(f"a {content.name} was changed before {where}, which goes by it")


def check(connection: Connection, scope: Scope, secret: bytes) -> ContentCheck | None:
    """Look at all rows of the session; `None` if there is none."""
    head_row = sql.HEAD.first(connection, reads.key_values(scope))
    chain = reads.chain(connection, scope)
    if head_row is None or chain is None:
        return None
    row, key = rows.session_values(head_row._asdict()), chain_keys(secret, scope.key).own
    carried = {
        n: tables.as_bytes(event_macs) or b""
        for n, event_macs in sql.EVENT_MACS.all(connection, {"this": row["id"]})
    }
    ends = [e.seq or 0 for e in chain.events if _ends(e)]
    events = chain.events[max(ends, default=0) :]
    log = _Log(is_older=row["macs_mac"] is None and row["head_mac"] is None)
    log.wrong += foreign.sentences(connection)
    if log.is_older and not all(map(is_older, events)):
        log.wrong.append("the MACs were taken away")
    trail, total = _followed(log, events, carried, key)
    if len(sql.HEAD.all(connection, reads.key_values(scope))) > 1:
        log.wrong.append("the session's own row is there twice")
    log_is_whole = total == bytes(row["macs_mac"] or b"")
    _take(log, "the last write", bytes(row["macs"] or b""), not events or is_older(events[-1]))
    if not log_is_whole:
        log.wrong.append("the MACs that the events carry are not those that were recorded")
    if row["head_mac"] != (
        None if log.is_older and row["head_mac"] is None else macs.of_head(row, key)
    ):
        log.wrong.append("the session's own row is not what was recorded")
    rows_key = macs.RowKey(session_key(secret, bytes(row["salt"]), scope))
    present = {
        content.kind: _Present(content, rows_key, connection, row["id"])
        for content in CONTENT.values()
    }
    wrong, unverified, count = _compared(log, present)
    is_bare = not (unverified or (row["head_mac"] is None and _says_anything(row)))
    if log.is_older and not is_bare and not any(map(is_older, events)):
        wrong.append("the log was taken away, and all MACs")  # older releases had a log, too
    if log.is_older and row["salt"]:
        unverified.append("the session's own row: an older release wrote it, without MACs")
    return ContentCheck(count, tuple(log.wrong + wrong), tuple(unverified), trail)


def check_row(connection: Connection, scope: Scope, secret: bytes) -> None:
    """See that a session's own row is what was recorded, before anything is refused by what it says.

    Raises:
        ValueError: somebody changed it.
    """
    row = rows.session_values(sql.HEAD.first(connection, reads.key_values(scope))._asdict())
    head_mac = macs.of_head(row, chain_keys(secret, scope.key).own)
    if row["head_mac"] not in (None, head_mac):
        raise ValueError("the session's own row is not what was recorded")


def _says_anything(row: rows.Values) -> bool:
    """Whether the session's own row has content, or tells of any."""
    names = ("summary", "meta", "last_seq", "last_evidence", "last_event_seq")
    return bool(row["salt"]) and any(row[name] for name in names)


def _ends(event: Event) -> bool:
    return event.event_type == EventType.DELETED and event.payload.get("what") == "session"


def _followed(
    log: _Log, events: Sequence[Event], carried: Mapping[int, bytes], key: bytes
) -> tuple[dict[int, str], bytes]:
    """Take what the events carry; by the number of each the MAC of all up to it, and that of all."""
    trail, total, may_be_older = {}, b"", True
    for event in events:
        seq = event.seq or 0
        if event_macs := carried.get(seq):
            total = macs.running(total, event.hash, event_macs, key)
            _take(log, f"event {seq}", event_macs, may_be_older)
        may_be_older = is_older(event)
        trail[seq] = total.hex()
    return trail, total


def _take(log: _Log, where: str, event_macs: bytes, may_be_older: bool) -> None:
    try:
        log.take(where, event_macs, may_be_older)
    except ValueError:
        log.wrong.append(f"{where} carries no MACs, but something else")


class _Present:
    """The rows of one kind that are there: by tag their MACs, and what to call them."""

    def __init__(
        self, content: Content, key: macs.RowKey, connection: Connection, session_number: int
    ) -> None:
        self.content = content
        self.marks: Marks = {}
        self.twice: list[bytes] = []
        self._names: dict[bytes, str] = {}
        for row in sql.ALL_ROWS[content.table].all(connection, {"this": session_number}):
            tag, mac = key.of(content, row)
            if tag in self.marks:
                self.twice.append(tag)
            self.marks[tag] = mac
            self._names[tag] = _name(row[content.key[0]]) if len(content.key) == 1 else ""

    def sentence(self, noun: str, tags: Sequence[bytes]) -> str:
        """Say of these rows what became of them; what is gone has no name any more."""
        names = [name for tag in tags if (name := self._names.get(tag, ""))]
        some = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        count = f"{len(tags)} {self.content.name}{'s' * (len(tags) > 1 and self.content.kind != 1)}"
        return f"{count} {noun}{f': {some}' if some else ''}"


def _name(key: Any) -> str:
    return lengthen(key) if isinstance(key, bytes) else str(key)


def _compared(log: _Log, present: Mapping[int, _Present]) -> tuple[list[str], list[str], int]:
    """What is wrong, what cannot be said, and how many rows are what they should be."""
    wrong: list[str] = []
    older: Counter[str] = Counter()
    count = 0
    for kind, there in present.items():
        expected = log.rows[kind]
        unknown = [tag for tag in there.marks if tag not in expected]
        changed = [tag for tag, mac in expected.items() if there.marks.get(tag, mac) != mac]
        doubtful = [tag for tag in expected if tag in log.doubtful]
        count += len(there.marks) - len(unknown) - len(changed) - len(doubtful)
        if log.is_older:
            older[there.content.name] += len(unknown) + len(doubtful)
            unknown = []
        tags_by_problem = {
            "changed since recorded": changed,
            "deleted without a deletion": [tag for tag in expected if tag not in there.marks],
            "that no event tells of": unknown,
            "stored twice": there.twice,
        }
        wrong += [
            there.sentence(problem, tags) for problem, tags in tags_by_problem.items() if tags
        ]
        wrong += _order(there, expected)
    names = ", ".join(f"{n} {name}" for name, n in older.items() if n)
    unverified = [f"content ({names}): an older release wrote it, without MACs"] if names else []
    return wrong, unverified, count


def _order(there: _Present, expected: Marks) -> Iterator[str]:
    if not there.content.ordered:
        return
    both = [tag for tag in there.marks if tag in expected]
    if both != [tag for tag in expected if tag in there.marks]:
        yield f"the order of the {there.content.name}s is not that of their arrival"
