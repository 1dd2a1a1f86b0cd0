"""The statements of every write, built once; SQLAlchemy compiles each once more for its dialect."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BindParameter, Table, bindparam, delete, exists, func, or_, select, update
from sqlalchemy.dialects.sqlite import Insert as Upsert
from sqlalchemy.dialects.sqlite import insert as upsert

from ce_engine.schema.enums import TurnStatus
from ce_engine.schema.events import EventType
from ce_engine.stores.tables import reads, rows, tables
from ce_engine.stores.tables.compiled_statements import Command, Query, inserting
from ce_engine.stores.tables.macs import CONTENT


_THIS: BindParameter[int] = bindparam("this")
_s = tables.sessions
MOVING = ("version", "epoch", "last_seq", "last_evidence", "last_event_seq", "chain_head")
HEAD = Query(select(*_s.c).where(reads.of_key()))
HEAD_TO_MOVE = Query(select(*_s.c).where(reads.of_key()).with_for_update())
"""Nobody else moves it until the transaction ends; where one writes at a time, the same as `HEAD`."""
UPDATE_HEAD = Command(
    update(_s)
    .where(_s.c.id == _THIS)
    .values(
        {
            name: bindparam(name)
            for name in (
                *MOVING,
                *("frameworks", "updated_at", "last_accessed_at", "access_count"),
                *("macs", "macs_mac", "head_mac"),
            )
        }
    ),
    is_exact=True,
)
ONE_ROW = {
    table: Query(
        select(*(table.c[name] for name in content.names))
        .where(
            table.c.session == _THIS,
            *(
                table.c[content.names[place]] == bindparam(content.names[place])
                for place in content.key
            ),
        )
        .with_for_update()
    )
    for table, content in CONTENT.items()
}
"""A row that is going to be changed: what is read of it stays so until it is, whoever else may write to it."""
_ALL_ROWS = {
    table: select(*(table.c[name] for name in content.names))
    .where(table.c.session == _THIS)
    .order_by(table.c.id if content.ordered else table.c.seq)
    for table, content in CONTENT.items()
}
ALL_ROWS = {table: Query(statement) for table, statement in _ALL_ROWS.items()}
"""Rows as the database has them, for their MACs."""
ROWS_TO_CHANGE = {table: Query(all_.with_for_update()) for table, all_ in _ALL_ROWS.items()}
"""The same, where any of them may be changed: none of somebody else's change comes between."""
EVENT_NUMBERS = Query(select(tables.events.c.seq).where(tables.events.c.session == _THIS))
EVENT_MACS = Query(
    select(tables.events.c.seq, tables.events.c.macs)
    .where(tables.events.c.session == _THIS, tables.events.c.macs.is_not(None))
    .order_by(tables.events.c.seq)
)


def _select_ids(table: Table, name: str) -> Any:
    column = table.c[name]
    ids: BindParameter[Any] = bindparam("ids", expanding=True)
    return select(column).where(table.c.session == _THIS, column.in_(ids))


def _put(table: Table, *key: str, statement: Upsert | None = None, where: Any = None) -> Command:
    """Insert, or replace all but the key and the number that gives the order, where that may be."""
    statement = upsert(table) if statement is None else statement
    others = {
        column.name: statement.excluded[column.name]
        for column in table.c
        if column.name not in {"id", "session", *key}
    }
    index = ["session", *key]
    statement = statement.on_conflict_do_update(index_elements=index, set_=others, where=where)
    return inserting(table, statement, is_exact=where is None)


def _put_once(table: Table) -> Command:
    return inserting(table, upsert(table).on_conflict_do_nothing(), is_exact=False)


NEW_SESSION = inserting(_s)
_BEGUN = ("salt", "key_id", "ephemeral", "project_id", "created_at")
BEGIN_ANEW = Command(
    update(_s)
    .where(_s.c.id == _THIS)
    .values({name: bindparam(name) for name in _BEGUN} | {"summary": None, "meta": None}),
    is_exact=True,
)
END_SESSION = Command(
    update(_s)
    .where(_s.c.id == _THIS)
    .values(salt=b"", key_id="", ephemeral=False, summary=None, meta=None),
    is_exact=True,
)
KNOWN_MESSAGES = _select_ids(tables.messages, "message_id")
NEW_MESSAGES = inserting(tables.messages)
NEW_EVIDENCE = _put_once(tables.evidence)
LINKED_EVIDENCE = Command(
    update(tables.evidence)
    .where(
        tables.evidence.c.session == _THIS,
        tables.evidence.c.evidence_id == bindparam("evidence_id"),
    )
    .values({name: bindparam(name) for name in ("body", "content", "message_id")}),
    is_exact=True,
)
EMPTY_EVIDENCE = Command(
    update(tables.evidence)
    .where(tables.evidence.c.session == _THIS, tables.evidence.c.evidence_id == bindparam("one"))
    .values(body=bindparam("body"), content=""),
    is_exact=True,
)
EMPTY_MESSAGE = Command(
    update(tables.messages)
    .where(tables.messages.c.session == _THIS, tables.messages.c.message_id == bindparam("one"))
    .values(content="", withheld=True, extra=bindparam("extra"))
)
TEXT_OF_MESSAGE = Command(
    update(tables.messages)
    .where(tables.messages.c.session == _THIS, tables.messages.c.seq == bindparam("number"))
    .values({name: bindparam(name) for name in ("content", "withheld", "extra")}),
    is_exact=True,
)
BODY_OF_USAGE = Command(
    update(tables.model_usage)
    .where(
        tables.model_usage.c.session == _THIS,
        tables.model_usage.c.model_usage_id == bindparam("one"),
    )
    .values(body=bindparam("body")),
    is_exact=True,
)
REPORT_OF_TURN = Command(
    update(tables.turns)
    .where(tables.turns.c.session == _THIS, tables.turns.c.turn_id == bindparam("one"))
    .values({name: bindparam(name) for name in ("attempts", "report")}),
    is_exact=True,
)
EXTRA_OF_MESSAGE = select(tables.messages.c.extra).where(
    tables.messages.c.session == _THIS, tables.messages.c.message_id == bindparam("one")
)
PUT_BLOCKS = _put(tables.blocks, "block_id")
PUT_TASKS = _put(tables.tasks, "task_id")
NEW_USAGE = _put_once(tables.model_usage)
KNOWN_CALLS = select(*rows.CALL).where(
    tables.tool_calls.c.session == _THIS,
    tables.tool_calls.c.tool_call_id.in_(bindparam("ids", expanding=True)),
)
PUT_CALLS = _put(tables.tool_calls, "tool_call_id")
_turn = upsert(tables.turns)
_STILL_OPEN = or_(
    _turn.excluded.status != TurnStatus.ABANDONED, tables.turns.c.status == TurnStatus.OPEN
)
PUT_TURN = _put(tables.turns, "turn_id", statement=_turn, where=_STILL_OPEN)
PUT_CUT = _put(tables.cuts, "lane_key", "kind", "anchor_message_id")
DROP_CUT = Command(
    delete(tables.cuts).where(
        tables.cuts.c.session == _THIS,
        *(tables.cuts.c[n] == bindparam(n) for n in ("lane_key", "kind", "anchor_message_id")),
    )
)
PUT_SUMMARY = _put(tables.summaries, "anchor_message_id")
DROP_SUMMARY = Command(
    delete(tables.summaries).where(
        tables.summaries.c.session == _THIS,
        tables.summaries.c.anchor_message_id == bindparam("anchor_message_id"),
    )
)
KNOWN_EVENTS = _select_ids(tables.events, "event_id")
NEW_EVENTS = inserting(tables.events)
EMPTY_EVENTS = Command(
    update(tables.events)
    .where(tables.events.c.session == _THIS, tables.events.c.event_type != EventType.DELETED.value)
    .values(payload=None, extra=None, nonce="")
)
EMPTY_EVENT = Command(
    update(tables.events)
    .where(tables.events.c.session == _THIS, tables.events.c.seq == bindparam("number"))
    .values(payload=None, extra=None, nonce="")
)
EMPTY_MACS = Command(
    update(tables.events).where(tables.events.c.session == _THIS).values(macs=None)
)
NEW_PLACEHOLDERS = _put_once(tables.placeholders)


CLEAR = {
    table: Command(delete(table).where(table.c.session == _THIS))
    for table in (
        tables.messages,
        tables.evidence,
        tables.blocks,
        tables.tasks,
        tables.model_usage,
        tables.tool_calls,
        tables.turns,
        tables.cuts,
        tables.summaries,
        tables.placeholders,
    )
}
HAS_ROWS = Query(
    select(or_(*(exists().where(table.c.session == _THIS) for table in CLEAR)).label("has_rows"))
)
"""Of the tables that are cleared where a session begins."""
KNOWN_USAGE = select(tables.model_usage.c.model_usage_id, tables.model_usage.c.turn_id).where(
    tables.model_usage.c.session == _THIS
)
ALL_CALLS = select(*rows.CALL).where(tables.tool_calls.c.session == _THIS)
SET_SUMMARY = Command(
    update(_s).where(_s.c.id == _THIS).values(summary=bindparam("summary")), is_exact=True
)
SET_META = Command(
    update(_s)
    .where(_s.c.id == _THIS)
    .values(
        meta=bindparam("meta"),
        created_at=func.coalesce(bindparam("created_at", type_=tables.Text), _s.c.created_at),
    ),
    is_exact=True,
)
