"""The tables. Rows of a session hang on its row's number; ids of equal name are unique in a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    TypeDecorator,
    UniqueConstraint,
    literal_column,
)
from sqlalchemy import Text as PlainText

from ce_engine.stores import sealing
from ce_engine.stores.codec import escape, from_json, to_json, unescape
from ce_engine.stores.tables.packing import lengthen, pack, shorten, unpack


class StoredForm(TypeDecorator[Any]):
    """What is kept in another form than it has here; nothing is `NULL` there and `None` here."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        del dialect
        return None if value is None else self.write(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """What reads a value of the driver's; not by way of SQLAlchemy's own, which takes longer."""
        read, plain = self.read, self.impl_instance.result_processor(dialect, coltype)

        def found(value: Any) -> Any:
            if value is None:
                return None
            return read(value if plain is None or value.__class__ is bytes else plain(value))

        return found


class Bytes(LargeBinary):
    """Bytes as they are; what is done with a text that somebody wrote there, its reader says.

    SQLite keeps a number there, too, of which `bytes` would make as many zeros.
    """

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        del dialect, coltype
        return lambda value: value if isinstance(value, str) else as_bytes(value)


def as_bytes(value: Any) -> bytes | None:
    """What the driver gives of such a column.

    Raises:
        TypeError: somebody put something else there.
    """
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    raise TypeError(f"a column of bytes has a {type(value).__name__} in it")


class Text(StoredForm):
    """Any Python text, NUL and half surrogate pairs included."""

    cache_ok = True
    impl, write, read = PlainText, staticmethod(escape), staticmethod(unescape)


class Short(StoredForm):
    """Any text; ids, hashes and times in fewer bytes."""

    cache_ok = True
    impl, write, read = Bytes, staticmethod(shorten), staticmethod(lengthen)


class Json(StoredForm):
    """Plain data as compact JSON; what is empty is kept as NULL and comes back as `None`."""

    cache_ok = True
    impl, read = PlainText, staticmethod(from_json)
    write = staticmethod(lambda value: to_json(value) if value else None)


class Packed(StoredForm):
    """Plain data in few bytes; what is empty is kept as NULL and comes back as `None`."""

    cache_ok = True
    impl, read = Bytes, staticmethod(unpack)
    write = staticmethod(lambda value: pack(value) if value else None)


class Sealed(StoredForm):
    """Content: in the form of another type, and sealed where the store has a key (19 B.9)."""

    cache_ok = True
    form: type[StoredForm]
    kind: type

    def __init__(self, field: str) -> None:
        super().__init__()
        self.field = field
        write, read, seal, unseal = self.form.write, self.form.read, self.seal, self.unseal
        self.write = lambda value: None if (plain := write(value)) is None else seal(field, plain)
        self.read = lambda value: read(
            unseal(field, value) if isinstance(value, self.kind) else value
        )


class SealedText(Sealed):
    """Any text."""

    cache_ok = True
    impl, kind = PlainText, str
    form: type[StoredForm] = Text
    seal, unseal = staticmethod(sealing.seal_text), staticmethod(sealing.unseal_text)


class SealedJson(SealedText):
    """Plain data as JSON."""

    cache_ok = True
    form = Json


class SealedPacked(Sealed):
    """Plain data in few bytes."""

    cache_ok = True
    impl, form, kind = Bytes, Packed, bytes
    seal, unseal = staticmethod(sealing.seal), staticmethod(sealing.unseal)


def raw(column: Column[Any], value: Any) -> Any:
    """A value as the database has it."""
    return (
        value
        if value is None or not isinstance(column.type, StoredForm)
        else column.type.write(value)
    )


metadata = MetaData()

RowNumber = Integer().with_variant(BigInteger(), "postgresql")
"""A sequence also counts what was not inserted in the end; SQLite has one kind of number."""


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _maybe(name: str) -> Column[str | None]:
    return Column(name, Text)


def _short(name: str) -> Column[str]:
    return Column(name, Short, nullable=False)


def _maybe_short(name: str) -> Column[str | None]:
    return Column(name, Short)


def _number(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False)


def _session() -> Column[int]:
    return Column("session", ForeignKey("ce_sessions.id", ondelete="CASCADE"), nullable=False)


def _items(table: str, name: str, *more: Column[Any]) -> Table:
    """A table of a session's things with an id, in order of first arrival, their fields as JSON."""
    return Table(
        table,
        metadata,
        Column("id", RowNumber, primary_key=True),
        _session(),
        _short(name),
        *more,
        Column("body", SealedPacked(f"{table}.body"), nullable=False),
        UniqueConstraint("session", name),
    )


sessions = Table(
    "ce_sessions",
    metadata,
    Column("id", RowNumber, primary_key=True),
    _text("account_id"),
    _text("user_id"),
    _text("session_id"),
    _number("version"),
    _number("epoch"),
    _number("last_seq"),
    _number("last_evidence"),
    _number("last_event_seq"),
    _text("chain_head"),
    Column("salt", Bytes, nullable=False),
    _text("key_id"),
    _flag("ephemeral"),
    _text("project_id"),
    _text("created_at"),
    _text("updated_at"),
    _text("last_accessed_at"),
    _number("access_count"),
    Column("frameworks", Json),
    Column("summary", SealedJson("ce_sessions.summary")),
    Column("meta", SealedJson("ce_sessions.meta")),
    Column("macs", Bytes),
    Column("macs_mac", Bytes),
    Column("head_mac", Bytes),
    UniqueConstraint("account_id", "user_id", "session_id"),
)
"""`macs` are of rows that no event tells of yet, `macs_mac` is of all that events carry (`NULL`: an older
release made the session, and nobody has written to it since), `head_mac` of this row; see `macs.py`."""

messages = Table(
    "ce_messages",
    metadata,
    _session(),
    _number("seq"),
    _maybe_short("message_id"),
    _maybe_short("parent_id"),
    _short("role"),
    _short("origin"),
    _maybe("speaker"),
    _maybe_short("at"),
    Column("key", Bytes, nullable=False),
    Column("loose_key", Bytes, nullable=False),
    Column("host_id", Bytes),
    _text("lane_key"),
    _maybe_short("turn_id"),
    _short("request_id"),
    _short("framework"),
    _number("tokens"),
    _short("counted_by"),
    _number("length"),
    _flag("aside"),
    _flag("has_sensitive"),
    _flag("withheld"),
    _flag("late"),
    _short("redactor_version"),
    Column("extra", SealedPacked("ce_messages.extra")),
    Column("content", SealedText("ce_messages.content"), nullable=False),
    PrimaryKeyConstraint("session", "seq"),
    UniqueConstraint("session", "message_id"),
)

evidence = Table(
    "ce_evidence",
    metadata,
    _session(),
    _number("seq"),
    _short("evidence_id"),
    Column("dedup_key", Bytes, nullable=False),
    _number("tokens"),
    _maybe_short("turn_id"),
    _maybe_short("message_id"),
    _text("lane_key"),
    _text("project_id"),
    _flag("shared"),
    _short("redactor_version"),
    Column("body", SealedPacked("ce_evidence.body"), nullable=False),
    Column("content", SealedText("ce_evidence.content"), nullable=False),
    PrimaryKeyConstraint("session", "seq"),
    UniqueConstraint("session", "evidence_id"),
)

blocks = _items("ce_blocks", "block_id")
tasks = _items("ce_tasks", "task_id")
model_usage = _items("ce_model_usage", "model_usage_id", _maybe_short("turn_id"))
tool_calls = _items(
    "ce_tool_calls",
    "tool_call_id",
    _maybe("host_call_id"),
    _maybe_short("message_id"),
    _maybe_short("turn_id"),
    _flag("ended"),
    _short("redactor_version"),
)

turns = Table(
    "ce_turns",
    metadata,
    Column("id", RowNumber, primary_key=True),
    _session(),
    _short("turn_id"),
    _short("request_id"),
    _text("lane"),
    _text("status"),
    _short("purpose"),
    _short("framework"),
    _maybe_short("parent_turn_id"),
    _number("attempt"),
    _short("opened_at"),
    _short("closed_at"),
    _text("owner"),
    _maybe_short("tip_message_id"),
    _maybe_short("answer_message_id"),
    _maybe_short("model_usage_id"),
    Column("attempts", SealedPacked("ce_turns.attempts")),
    Column("report", SealedPacked("ce_turns.report")),
    UniqueConstraint("session", "turn_id"),
)
OPEN_TURN: ColumnElement[bool] = literal_column("status = 'open'")
# To say the same of PostgreSQL here would import its dialect into every process.
Index("ce_open_turns", turns.c.session, sqlite_where=OPEN_TURN)

cuts = Table(
    "ce_cuts",
    metadata,
    Column("id", RowNumber, primary_key=True),
    _session(),
    _text("lane_key"),
    _text("kind"),
    _text("anchor_message_id"),
    _number("budget"),
    _text("made_at"),
    UniqueConstraint("session", "lane_key", "kind", "anchor_message_id"),
)

summaries = _items("ce_summaries", "anchor_message_id")

events = Table(
    "ce_events",
    metadata,
    _session(),
    _number("seq"),
    _maybe_short("event_id"),
    _short("event_type"),
    _short("kind"),
    _maybe_short("turn_id"),
    _maybe_short("task_id"),
    _maybe_short("tool_call_id"),
    _maybe_short("model_usage_id"),
    _short("request_id"),
    _short("ts"),
    _flag("redacted"),
    _number("token_estimate"),
    _short("nonce"),
    _short("payload_mac"),
    _short("hash"),
    Column("extra", SealedPacked("ce_events.extra")),
    Column("payload", SealedPacked("ce_events.payload")),
    Column("macs", Bytes),
    PrimaryKeyConstraint("session", "seq"),
    UniqueConstraint("session", "event_id"),
    sqlite_with_rowid=False,
)
"""`macs` are of the rows that were written with the event, or since the last one; see `macs.py`."""

placeholders = Table(
    "ce_placeholders",
    metadata,
    Column("id", RowNumber, primary_key=True),
    _session(),
    _text("label"),
    Column("mac", Bytes, nullable=False),
    _number("number"),
    UniqueConstraint("session", "label", "mac"),
)

settings = Table(
    "ce_settings",
    metadata,
    _text("account_id"),
    _text("user_id"),
    _text("project_id"),
    _text("name"),
    _number("version"),
    Column("value", SealedText("ce_settings.value")),
    Column("macs", Bytes),
    PrimaryKeyConstraint("account_id", "user_id", "project_id", "name"),
)
"""What owners set, beside all sessions; a value is JSON, `NULL` if it was deleted. `macs` is the row's MAC and
that of all rows of its owner and project, `NULL` if an older release wrote it; see `setting_macs.py`."""

_Revision = String(32).with_variant(PlainText(), "postgresql")
revisions = Table("ce_revision", metadata, Column("version_num", _Revision, primary_key=True))
"""Alembic's version table. PostgreSQL has no operator of its own for two `VARCHAR`, and would take anybody's."""
