"""What is read: functions of a connection, each in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel
from sqlalchemy import BindParameter, Connection, Table, and_, bindparam, func, literal, or_, select

from ce_engine.schema.document import (
    ContextBlock,
    Evidence,
    Meta,
    ModelUsage,
    Session,
    SessionDocument,
    Summary,
    Task,
    TaskState,
    TodoList,
    ToolState,
)
from ce_engine.schema.report import BlockFilter, EvidenceFilter
from ce_engine.schema.rows import (
    EventChain,
    EvidenceRow,
    MessageRow,
    SessionInfo,
    SessionState,
    SummaryRow,
    ToolCallRow,
    TurnRow,
)
from ce_engine.schema.scope import Scope, check_project
from ce_engine.schema.settings import Versions
from ce_engine.schema.stored_report import readable
from ce_engine.stores import row_rules
from ce_engine.stores.tables import rows, tables
from ce_engine.stores.tables.compiled_statements import Query


M = TypeVar("M", bound=BaseModel)

_s, _m, _e, _t = tables.sessions, tables.messages, tables.evidence, tables.turns
_THIS: BindParameter[int] = bindparam("this")
"""The number of the session's row."""


def of_key(table: Table = _s) -> Any:
    """The condition that binds a read to (account, user, session), exactly (B-03)."""
    return and_(
        table.c.account_id == bindparam("account_id"),
        table.c.user_id == bindparam("user_id"),
        table.c.session_id == bindparam("session_id"),
    )


def key_values(scope: Scope) -> dict[str, str]:
    """The values of `of_key`."""
    account_id, user_id, session_id = scope.key
    return {"account_id": account_id, "user_id": user_id, "session_id": session_id}


_IS_THERE = _s.c.salt != literal(b"")
"""The session was not deleted: its events are all that is left of one that was."""
_NUMBER = select(_s.c.id, _s.c.project_id, _IS_THERE).where(of_key())
_SETTINGS = (
    select(func.coalesce(func.sum(tables.settings.c.version.bitwise_and(rows.MOST)), 0))
    .where(*(tables.settings.c[n] == bindparam(n) for n in ("account_id", "user_id", "project_id")))
    .scalar_subquery()
)
_ONE = select(literal(1).label("one")).subquery()
_VERSION = Query(
    select(_s.c.version, _s.c.epoch, _SETTINGS.label("settings")).select_from(
        _ONE.outerjoin(_s, and_(of_key(), _IS_THERE))
    )
)
"""Also answers where there is no session: its owner may have settings."""
_ANY_HEAD = select(_s.c.id, *rows.HEAD).where(of_key())
_HEAD = _ANY_HEAD.where(_IS_THERE)
_SESSION = select(
    _s.c.id, _s.c.project_id, _s.c.created_at, _s.c.updated_at, _s.c.summary, _s.c.meta
).where(of_key(), _IS_THERE)
_MESSAGES = (
    select(*rows.MESSAGE)
    .where(_m.c.session == _THIS, _m.c.seq > bindparam("after"))
    .order_by(_m.c.seq)
)
_WITH_MESSAGE = _e.outerjoin(
    _m, and_(_m.c.session == _e.c.session, _m.c.message_id == _e.c.message_id)
)
_ANY_EVIDENCE = (
    select(*rows.EVIDENCE, _m.c.content).select_from(_WITH_MESSAGE).where(_e.c.session == _THIS)
)
_EVIDENCE = _ANY_EVIDENCE.where(_e.c.seq > bindparam("after")).order_by(_e.c.seq)
_EVIDENCE_BY_ID = _ANY_EVIDENCE.where(
    _e.c.evidence_id.in_(bindparam("ids", expanding=True))
).order_by(_e.c.seq)
_CUTS = select(*rows.CUT).where(tables.cuts.c.session == _THIS).order_by(tables.cuts.c.id)
_TURNS = select(*rows.TURN).where(_t.c.session == _THIS).order_by(_t.c.id)
_OPEN_TURNS = _TURNS.where(tables.OPEN_TURN)
_NEWEST_TURN = select(*rows.TURN).where(
    _t.c.id == select(func.max(_t.c.id)).where(_t.c.session == _THIS).scalar_subquery()
)
_PLACEHOLDERS = (
    select(*rows.PLACEHOLDER)
    .where(tables.placeholders.c.session == _THIS)
    .order_by(tables.placeholders.c.id)
)
_EVENTS = select(*rows.EVENT).where(tables.events.c.session == _THIS).order_by(tables.events.c.seq)
_CALLS = (
    select(*rows.CALL).where(tables.tool_calls.c.session == _THIS).order_by(tables.tool_calls.c.id)
)
_ITEMS = {
    table: select(table.c[name], table.c.body).where(table.c.session == _THIS).order_by(table.c.id)
    for table, name in (
        (tables.blocks, "block_id"),
        (tables.tasks, "task_id"),
        (tables.model_usage, "model_usage_id"),
        (tables.summaries, "anchor_message_id"),
    )
}


def number(connection: Connection, scope: Scope) -> int | None:
    """The number of the session's row; with `None` the queries below find nothing.

    Raises:
        ScopeViolationError: the session belongs to another project (D-10).
    """
    row = connection.execute(_NUMBER, key_values(scope)).first()
    if row is None or not row[2]:
        return None
    check_project(scope, row[1])
    number: int = row[0]
    return number


def version(connection: Connection, scope: Scope) -> Versions:
    """What moved, of the session and its owner's settings."""
    values = {**key_values(scope), "project_id": scope.project_id}
    row = _VERSION.first(connection, values)
    assert row is not None
    return Versions(row.version or 0, row.epoch or 0, row.settings)


def state(
    connection: Connection, scope: Scope, after_seq: int, after_evidence: int
) -> SessionState | None:
    """The head, what is newer, and what is open."""
    head_row = connection.execute(_HEAD, key_values(scope)).first()
    if head_row is None:
        return None
    session_number, *head = head_row
    newest = connection.execute(_NEWEST_TURN, {"this": session_number}).first()
    return SessionState(
        head=rows.head(head),
        rows=messages(connection, session_number, after_seq),
        newest_turn=rows.turn_row(newest) if newest is not None else None,
        cuts=[rows.cut_mark(row) for row in connection.execute(_CUTS, {"this": session_number})],
        summaries=summaries(connection, session_number),
        open_turns=[
            rows.turn_row(r) for r in connection.execute(_OPEN_TURNS, {"this": session_number})
        ],
        evidence=evidence(connection, session_number, after_evidence),
        placeholders=[
            rows.placeholder(r) for r in connection.execute(_PLACEHOLDERS, {"this": session_number})
        ],
    )


def messages(
    connection: Connection, session_number: int | None, after: int = 0
) -> list[MessageRow]:
    """Rows after the number `after`, in order."""
    result = connection.execute(_MESSAGES, {"this": session_number, "after": after})
    return [rows.message_row(row) for row in result]


def evidence(
    connection: Connection, session_number: int | None, after: int = 0
) -> list[EvidenceRow]:
    """Rows after the number `after`, in order."""
    result = connection.execute(_EVIDENCE, {"this": session_number, "after": after})
    return [rows.evidence_row(row) for row in result]


def _items(
    connection: Connection, session_number: int | None, table: Table, kind: type[M]
) -> list[M]:
    select_ = _ITEMS[table]
    name = select_.selected_columns.keys()[0]
    return [
        rows.item(kind, name, row) for row in connection.execute(select_, {"this": session_number})
    ]


def list_tasks(connection: Connection, scope: Scope) -> list[Task]:
    """In order of arrival."""
    return tasks(connection, number(connection, scope))


def tasks(connection: Connection, session_number: int | None) -> list[Task]:
    """In order of arrival."""
    return _items(connection, session_number, tables.tasks, Task)


def usages(connection: Connection, session_number: int | None) -> list[ModelUsage]:
    """In order of arrival."""
    return _items(connection, session_number, tables.model_usage, ModelUsage)


def calls(connection: Connection, session_number: int | None) -> list[ToolCallRow]:
    """In order of arrival."""
    return [rows.call_row(row) for row in connection.execute(_CALLS, {"this": session_number})]


def summaries(connection: Connection, session_number: int | None) -> list[SummaryRow]:
    """In order of arrival."""
    result = connection.execute(_ITEMS[tables.summaries], {"this": session_number})
    return [rows.summary_row(row) for row in result]


def session(connection: Connection, scope: Scope) -> SessionDocument | None:
    """The whole document."""
    session_row = connection.execute(_SESSION, key_values(scope)).first()
    if session_row is None:
        return None
    session_number, project_id, created_at, updated_at, summary, meta = session_row
    check_project(scope, project_id)
    body = Session(
        session_id=scope.session_id,
        messages=[row.message for row in messages(connection, session_number)],
        summary=row_rules.newest_summary(
            summaries(connection, session_number),
            Summary.model_validate(summary) if summary else None,
        ),
        task_state=TaskState(todo_list=TodoList(tasks=tasks(connection, session_number))),
        tool_state=ToolState(tool_calls=[row.call for row in calls(connection, session_number)]),
        model_usage=usages(connection, session_number),
    )
    times = {"created_at": created_at, "updated_at": updated_at}
    return SessionDocument(
        session=body,
        evidences={
            row.evidence.evidence_id: row.evidence for row in evidence(connection, session_number)
        },
        context_blocks=blocks(connection, session_number),
        meta=Meta.model_validate({**(meta or {}), **times}),
    )


def _count(table: Table) -> Any:
    return (
        select(func.count()).select_from(table).where(table.c.session == _s.c.id).scalar_subquery()
    )


_CHOSEN = (
    select(_s.c.id)
    .where(
        _IS_THERE,
        _s.c.account_id == bindparam("account_id"),
        _s.c.updated_at >= bindparam("since"),
        or_(bindparam("all_users"), _s.c.user_id == bindparam("user_id")),
        or_(bindparam("all_kinds"), ~_s.c.ephemeral),
    )
    .order_by(_s.c.updated_at.desc(), _s.c.id.desc())
    .limit(bindparam("most"))
)
"""Chosen first, so that nothing is counted of a session that is left out."""

_SESSIONS = Query(
    select(
        _s.c.session_id,
        _s.c.user_id,
        _s.c.account_id,
        _s.c.frameworks,
        _count(_m).label("messages"),
        _count(tables.tool_calls).label("calls"),
        _count(_e).label("evidences"),
        _count(_t).label("turns"),
        _s.c.ephemeral,
        _s.c.created_at,
        _s.c.updated_at,
    )
    .where(_s.c.id.in_(_CHOSEN))
    .order_by(_s.c.updated_at.desc(), _s.c.id.desc())
)

_ALL = 2**62
"""More sessions than there are."""


def list_sessions(
    connection: Connection,
    account_id: str,
    user_id: str | None,
    ephemeral: bool,
    since: str,
    limit: int | None,
) -> list[SessionInfo]:
    """The account's sessions, newest first; of all users if `user_id` is `None`."""
    values = {
        "account_id": account_id,
        "user_id": user_id or "",
        "all_users": user_id is None,
        "all_kinds": ephemeral,
        "since": since,
        "most": _ALL if limit is None else limit,
    }
    entries = [rows.session_info(row) for row in _SESSIONS.all(connection, values)]
    return [info for info in entries if info is not None]


_KEYS = Query(select(_s.c.id, _s.c.account_id, _s.c.user_id, _s.c.session_id))


def keys(connection: Connection) -> list[tuple[str, str, str]]:
    """Of all sessions, deleted ones too, but for those whose names are none."""
    all_names = [rows.names(names) for _, *names in _KEYS.all(connection, {})]
    return sorted((names[0], names[1], names[2]) for names in all_names if names is not None)


def nameless(connection: Connection) -> list[str]:
    """Sessions that are in no list, and that no name finds: a sentence each."""
    return [
        f"the session in row {number} of the table {_s.name} has a name that is none"
        for number, *names in _KEYS.all(connection, {})
        if rows.names(names) is None
    ]


def list_evidences(
    connection: Connection, scope: Scope, filter: EvidenceFilter | None
) -> list[Evidence]:
    """In order of arrival."""
    session_number = number(connection, scope)
    return row_rules.chosen_evidence(
        (row.evidence for row in evidence(connection, session_number)), filter
    )


def chunks(ids: Sequence[str], size: int = 500) -> Iterator[Sequence[str]]:
    """The ids in parts: databases bound the number of parameters."""
    return (ids[start : start + size] for start in range(0, len(ids), size))


def evidence_rows(connection: Connection, scope: Scope, ids: Sequence[str]) -> list[EvidenceRow]:
    """In order of arrival."""
    return evidence_by_id(connection, number(connection, scope), ids)


def evidence_by_id(
    connection: Connection, session_number: int | None, ids: Sequence[str]
) -> list[EvidenceRow]:
    """In order of arrival."""
    matches: list[EvidenceRow] = []
    for part in chunks(list(dict.fromkeys(ids))):
        values = {"this": session_number, "ids": part}
        matches += [rows.evidence_row(row) for row in connection.execute(_EVIDENCE_BY_ID, values)]
    return sorted(matches, key=lambda row: row.seq)


def list_blocks(
    connection: Connection, scope: Scope, filter: BlockFilter | None
) -> list[ContextBlock]:
    """In order of arrival."""
    return row_rules.chosen_blocks(blocks(connection, number(connection, scope)), filter)


def blocks(connection: Connection, session_number: int | None) -> list[ContextBlock]:
    """In order of arrival."""
    return _items(connection, session_number, tables.blocks, ContextBlock)


def list_turns(connection: Connection, scope: Scope) -> list[TurnRow]:
    """In order of opening; a report that is none is told as one."""
    return [readable(row) for row in turns(connection, number(connection, scope))]


def turns(connection: Connection, session_number: int | None) -> list[TurnRow]:
    """In order of opening."""
    return [rows.turn_row(row) for row in connection.execute(_TURNS, {"this": session_number})]


def chain(connection: Connection, scope: Scope) -> EventChain | None:
    """The events in order of `seq`, and the head, of a deleted session too."""
    head_row = connection.execute(_ANY_HEAD, key_values(scope)).first()
    if head_row is None:
        return None
    session_number, *head = head_row
    events = connection.execute(_EVENTS, {"this": session_number})
    return EventChain(rows.head(head), [rows.event_of(scope, row) for row in events])
