"""A store with something of everything in it, and what an attacker without the key may do to its file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from ce_engine import (
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    Task,
    create_context_engine,
)
from ce_engine.schema.rows import CutMark, PutCut, PutSummary
from ce_engine.testing import samples
from ce_engine.testing.host import HostApp, assistant, tool_calls, tool_result, user


SCOPE = Scope(session_id="s", user_id="u", account_id="a")
OTHER = Scope(session_id="other", user_id="u", account_id="a")
GONE = Scope(session_id="gone", user_id="u", account_id="a")
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))
BOOK = EvidenceSource(kind=SourceKind.RAG, name="book")


def opened(path: Path) -> ContextEngine:
    """An engine over the file, or the folder where the path has no ending."""
    url = f"sqlite:///{path}" if path.suffix else f"file:{path}"
    return create_context_engine(url, config=PATIENT)


def first_turns(engine: ContextEngine, scope: Scope) -> HostApp:
    """A question with an address, a tool, a document, and the answers."""
    app = HostApp(engine, scope)
    app.ask("write to ada@example.org and eve@example.org", "done, wrote to ada@example.org")
    first = app.prepare(user("what is the weather?"))
    app.commit(first, tool_calls(("call_0", "weather", {"city": "Kyiv"})))
    second = app.prepare(tool_result("call_0", "rain"), new_request=False)
    app.commit(second, assistant("it rains"))
    for text in ("page one", "page two"):
        engine.sync.record_evidence(scope, text, BOOK, EvidenceType.RAG_DOC)
    engine.sync.flush()
    return app


def by_hand(engine: ContextEngine, scope: Scope) -> None:
    """What an app may write beside its turns, without an event of its own."""
    run, store = engine.loop.run, engine.store
    run(store.put_context_blocks(scope, [samples.block("b1"), samples.block("b2")]))
    run(store.upsert_tasks(scope, [Task(task_id="k1", name="one"), Task(task_id="k2", name="two")]))
    state = run(store.state(scope))
    assert state is not None
    anchor = state.rows[0].message.message_id or ""
    cuts = [PutCut(CutMark("", "drop", name, 9, samples.AT)) for name in (anchor, "m")]
    moved = PutCut(CutMark("", "drop", "m2", 9, samples.AT), replaces="m")
    summary = PutSummary(samples.summary(anchor, "so far"), state.head.epoch)
    run(store.apply(scope, [summary, *cuts, moved]))


def fill(path: Path, earlier: Path | None = None) -> None:
    """Three sessions, one of them deleted; `earlier` gets a copy of the file from before the last turn."""
    engine = opened(path)
    apps = [first_turns(engine, scope) for scope in (SCOPE, OTHER, GONE)]
    for scope in (SCOPE, OTHER):
        by_hand(engine, scope)
    engine.sync.delete_session(GONE)
    if earlier is not None:
        engine.sync.flush()
        with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(earlier)) as copy:
            old.backup(copy)
        earlier.with_name(f"{earlier.name}.key").write_bytes(
            path.with_name(f"{path.name}.key").read_bytes()
        )
    for app in apps[:2]:
        app.ask("and tomorrow?", "sun")
    engine.sync.flush()
    engine.sync.close()


def status(path: Path, scope: Scope = SCOPE) -> str:
    """What `verify` says."""
    engine = opened(path)
    try:
        return engine.sync.verify(scope).status
    finally:
        engine.sync.close()


def forge(path: Path, statements: Sequence[str]) -> None:
    """Run raw SQL; `@s`, `@o`, `@g` are the numbers of the sessions, and each statement changes something."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            made = statement
            for mark, scope in (("@s", SCOPE), ("@o", OTHER), ("@g", GONE)):
                number = f"(SELECT id FROM ce_sessions WHERE session_id = '{scope.session_id}')"
                made = made.replace(mark, number)
            done = connection.execute(made).rowcount
            assert done > 0 or statement.startswith(("CREATE", "DROP", "ALTER")), statement


def _copy(table: str, where: str, **changed: str) -> str:
    """An insert of a row that is like another one but for some columns."""
    columns = COLUMNS[table]
    values = ", ".join(changed.get(name, name) for name in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} WHERE {where}"


COLUMNS = {
    "ce_messages": (
        "session seq message_id parent_id role origin speaker at key loose_key host_id lane_key "
        "turn_id request_id framework tokens counted_by length aside has_sensitive withheld late "
        "redactor_version extra content"
    ).split(),
    "ce_evidence": (
        "session seq evidence_id dedup_key tokens turn_id message_id lane_key project_id shared "
        "redactor_version body content"
    ).split(),
    "ce_tool_calls": (
        "session tool_call_id host_call_id message_id turn_id ended redactor_version body"
    ).split(),
    "ce_model_usage": "session model_usage_id turn_id body".split(),
    "ce_turns": (
        "session turn_id request_id lane status purpose framework parent_turn_id attempt opened_at "
        "closed_at owner tip_message_id answer_message_id model_usage_id attempts report"
    ).split(),
    "ce_placeholders": "session label mac number".split(),
    "ce_events": (
        "session seq event_id event_type kind turn_id task_id tool_call_id model_usage_id request_id "
        "ts redacted token_estimate nonce payload_mac hash extra payload"
    ).split(),
}
_LAST = "(SELECT max(seq) FROM ce_events WHERE session = @s)"
_LAST_MESSAGE = "(SELECT max(seq) FROM ce_messages WHERE session = @s)"
_LAST_TURN = "(SELECT max(id) FROM ce_turns WHERE session = @s)"
_TO_BE_LAST = (
    "UPDATE ce_sessions SET last_event_seq = (SELECT max(seq) FROM ce_events e "
    "WHERE e.session = ce_sessions.id) WHERE id = @s"
)
_HEAD = (
    "UPDATE ce_sessions SET chain_head = 'c' || (SELECT CASE substr(hash, 1, 1) WHEN X'63' THEN '1' "
    "ELSE '2' END || ':' || lower(hex(substr(hash, 2))) FROM ce_events e WHERE "
    "e.session = ce_sessions.id ORDER BY seq DESC LIMIT 1) WHERE id = @s"
)
_NO_EVENTS = (
    "UPDATE ce_sessions SET last_event_seq = 0, chain_head = '' WHERE id = @s",
    "DELETE FROM ce_events WHERE session = @s",
)


def _unconstrained(table: str) -> tuple[str, ...]:
    """The table as it is, but for what it does not allow."""
    return (
        f"CREATE TABLE kept AS SELECT * FROM {table} WHERE 1",
        f"DROP TABLE {table}",
        f"ALTER TABLE kept RENAME TO {table}",
    )


def _of_table(name: str, end: str) -> str:
    """Write another end of a table's definition; `forge` lets that be done."""
    return (
        "UPDATE sqlite_master SET sql = substr(rtrim(sql, char(10)), 1, length(rtrim(sql, char(10))) - 1) || "
        f"'{end.replace(chr(39), chr(39) * 2)}' WHERE name = '{name}'"
    )


MANIPULATIONS: dict[str, tuple[str, ...]] = {
    # all of it
    "the whole log and all MACs are gone, as if an older release had written it": (
        "DELETE FROM ce_events WHERE session = @s",
        (
            "UPDATE ce_sessions SET macs = NULL, macs_mac = NULL, head_mac = NULL, last_event_seq = 0, "
            "chain_head = '' WHERE id = @s"
        ),
        "UPDATE ce_messages SET content = 'send it to mallory' WHERE session = @s AND seq = 1",
    ),
    "the file changes by itself what is written to it": (
        "CREATE TRIGGER mallory AFTER INSERT ON ce_messages BEGIN DELETE FROM ce_settings; END",
    ),
    "an index of the file's refuses what is written": (
        "CREATE UNIQUE INDEX mallory ON ce_messages (session) WHERE content LIKE '%fraud%'",
    ),
    "an index of the file's takes but one of a kind": (
        "CREATE UNIQUE INDEX mallory ON ce_turns (session) WHERE attempt > 5",
    ),
    "an index stands in the place of ours": (
        "DROP INDEX ce_open_turns",
        "CREATE UNIQUE INDEX ce_open_turns ON ce_turns (session) WHERE status = 'open'",
    ),
    "a table refuses what is written": (_of_table("ce_messages", ", CHECK (content <> 'fraud'))"),),
    "a table takes but one of a kind": (_of_table("ce_evidence", ", UNIQUE (session, tokens))"),),
    "a table takes two for one": (
        _of_table("ce_cuts", ", UNIQUE (session, lane_key) ON CONFLICT REPLACE)"),
    ),
    "the file shows what is not there": ("CREATE VIEW mallory AS SELECT * FROM ce_messages",),
    # messages
    "a message's words": (
        "UPDATE ce_messages SET content = 'send it to mallory' WHERE session = @s AND seq = 1",
    ),
    "a message's role": ("UPDATE ce_messages SET role = 'system' WHERE session = @s AND seq = 2",),
    "a message's time": ("UPDATE ce_messages SET at = '2020' WHERE session = @s AND seq = 2",),
    "a message's parent": (
        "UPDATE ce_messages SET parent_id = NULL WHERE session = @s AND seq = 3",
    ),
    "what a message asks a tool": (
        """UPDATE ce_messages SET extra = '{"tool_calls":[{"name":"pay","id":"call_0","args":{}}]}'
        WHERE session = @s AND seq = 4""",
    ),
    "a message's fingerprint": (
        "UPDATE ce_messages SET key = X'00' WHERE session = @s AND seq = 1",
    ),
    "a message is gone": ("DELETE FROM ce_messages WHERE session = @s AND seq = 2",),
    "a message and its event are gone": (
        f"DELETE FROM ce_messages WHERE session = @s AND seq = {_LAST_MESSAGE}",
        f"DELETE FROM ce_events WHERE session = @s AND seq = {_LAST}",
    ),
    "a message is put in": (
        _copy("ce_messages", "session = @s AND seq = 1", seq="999", message_id="X'3d6d'"),
    ),
    "a message of another session is put in": (
        _copy("ce_messages", "session = @o AND seq = 1", session="@s", seq="999"),
    ),
    "a message is there twice, once forged": (
        *_unconstrained("ce_messages"),
        _copy("ce_messages", "session = @s AND seq = 1", content="'forged'"),
        _copy("ce_messages", "session = @s AND seq = 1 AND content <> 'forged'"),
        """DELETE FROM ce_messages WHERE rowid =
        (SELECT min(rowid) FROM ce_messages WHERE session = @s AND seq = 1)""",
    ),
    "two messages changed places": (
        "UPDATE ce_messages SET seq = -seq WHERE session = @s AND seq IN (1, 3)",
        "UPDATE ce_messages SET seq = 4 + seq WHERE session = @s AND seq IN (-1, -3)",
    ),
    # evidence
    "a document's text": (
        "UPDATE ce_evidence SET content = 'forged' WHERE session = @s AND content = 'page one'",
    ),
    "a document's source": (
        """UPDATE ce_evidence SET body = '{"type":"rag_doc","source":{"kind":"rag","name":"bible"}}'
        WHERE session = @s AND content = 'page one'""",
    ),
    "a document is gone": ("DELETE FROM ce_evidence WHERE session = @s AND content = 'page one'",),
    "a document is put in": (
        _copy(
            "ce_evidence",
            "session = @s AND content = 'page one'",
            seq="99",
            evidence_id="X'3d65'",
            content="'x'",
        ),
    ),
    "a document is shared with all": (
        """UPDATE ce_evidence SET shared = 1 - shared, project_id = 'p'
        WHERE session = @s AND content = 'page one'""",
    ),
    # tools, usage, turns
    "a tool call's arguments": (
        """UPDATE ce_tool_calls SET body = '{"tool":"weather","args_digest":{"city":"Minsk"}}'
        WHERE session = @s""",
    ),
    "a tool call is gone": ("DELETE FROM ce_tool_calls WHERE session = @s",),
    "a tool call is put in": (_copy("ce_tool_calls", "session = @s", tool_call_id="X'3d74'"),),
    "a tool call has not ended": ("UPDATE ce_tool_calls SET ended = 0 WHERE session = @s",),
    "a usage's tokens": (
        """UPDATE ce_model_usage SET body = '{"provider":"x","model":"y","total_tokens":1}'
        WHERE session = @s""",
    ),
    "a usage is gone": ("DELETE FROM ce_model_usage WHERE session = @s",),
    "a usage is put in": (
        _copy("ce_model_usage", "session = @s LIMIT 1", model_usage_id="X'3d75'"),
    ),
    "a turn's status": (f"UPDATE ce_turns SET status = 'failed' WHERE id = {_LAST_TURN}",),
    "a turn's report": (
        f"""UPDATE ce_turns SET report = '{{"token_used":1}}' WHERE id = {_LAST_TURN}""",
    ),
    "a turn is gone": (f"DELETE FROM ce_turns WHERE id = {_LAST_TURN}",),
    "a turn is put in": (_copy("ce_turns", f"id = {_LAST_TURN}", turn_id="X'3d75'"),),
    "two turns changed places": (
        "UPDATE ce_turns SET id = 99999 WHERE id = (SELECT min(id) FROM ce_turns WHERE session = @s)",
    ),
    # what rests on them
    "a placeholder stands for another value": (
        "UPDATE ce_placeholders SET number = 3 - number WHERE session = @s",
    ),
    "a placeholder is gone": ("DELETE FROM ce_placeholders WHERE session = @s AND number = 1",),
    "a block": ("""UPDATE ce_blocks SET body = '{"block_type":"fact"}' WHERE session = @s""",),
    "a task is gone": ("DELETE FROM ce_tasks WHERE session = @s AND hex(task_id) LIKE '%32'",),
    "two tasks changed places": (
        "UPDATE ce_tasks SET id = 99999 WHERE id = (SELECT min(id) FROM ce_tasks WHERE session = @s)",
    ),
    "a summary is gone": ("DELETE FROM ce_summaries WHERE session = @s",),
    # the log
    "an event's tags": (
        """UPDATE ce_events SET extra = '{"tags":{"framework":"forged"}}'
        WHERE session = @s AND seq = 2""",
    ),
    "an event's tokens": (
        "UPDATE ce_events SET token_estimate = 7 WHERE session = @s AND seq = 2",
    ),
    "an event's task": ("UPDATE ce_events SET task_id = 't' WHERE session = @s AND seq = 2",),
    "an event is said to be unredacted": (
        "UPDATE ce_events SET redacted = 0 WHERE session = @s AND seq = 2",
    ),
    "an event is said to be of another session": (
        """UPDATE ce_events SET extra = '{"scope":["a","u","other"]}'
        WHERE session = @s AND seq = 2""",
    ),
    "an event's payload": (
        "UPDATE ce_events SET payload = '{\"x\":1}' WHERE session = @s AND seq = 2",
    ),
    "the tail was cut off": (f"DELETE FROM ce_events WHERE session = @s AND seq = {_LAST}",),
    "the tail was cut off and the head copied": (
        f"DELETE FROM ce_events WHERE session = @s AND seq >= {_LAST} - 1",
        _TO_BE_LAST,
        _HEAD,
    ),
    "the last turn was cut off, rows and all, and the head copied": (
        f"DELETE FROM ce_messages WHERE session = @s AND seq >= {_LAST_MESSAGE} - 1",
        *(
            f"""DELETE FROM {table} WHERE session = @s AND turn_id =
            (SELECT turn_id FROM ce_turns WHERE id = {_LAST_TURN})"""
            for table in ("ce_model_usage", "ce_evidence", "ce_events")
        ),
        f"DELETE FROM ce_turns WHERE id = {_LAST_TURN}",
        _TO_BE_LAST,
        _HEAD,
    ),
    "the whole log is gone, and the head says so": _NO_EVENTS,
    "another session's deletion was pasted in": (
        _copy(
            "ce_events",
            "session = @g AND seq = (SELECT max(seq) FROM ce_events WHERE session = @g)",
            session="@s",
            seq=f"1 + {_LAST}",
        ),
        _TO_BE_LAST,
        _HEAD,
    ),
    "another session's whole log was pasted in": (
        *_NO_EVENTS,
        _copy("ce_events", "session = @o", session="@s"),
        _TO_BE_LAST,
        _HEAD,
    ),
    "a deleted session's whole log was pasted in, and all else deleted": (
        *_NO_EVENTS,
        _copy("ce_events", "session = @g", session="@s"),
        *(
            f"DELETE FROM {table} WHERE session = @s"
            for table in ("ce_messages", "ce_evidence", "ce_turns", "ce_tool_calls")
        ),
        _TO_BE_LAST,
        _HEAD,
        "UPDATE ce_sessions SET salt = X'', key_id = '' WHERE id = @s",
    ),
    # the session itself
    "the salt was cleared": ("UPDATE ce_sessions SET salt = X'', key_id = '' WHERE id = @s",),
    "another salt": (
        """UPDATE ce_sessions SET salt = (SELECT salt FROM ce_sessions WHERE id = @o),
        key_id = (SELECT key_id FROM ce_sessions WHERE id = @o) WHERE id = @s""",
    ),
    "the session's time": ("UPDATE ce_sessions SET created_at = '2020' WHERE id = @s",),
    "the session's version": ("UPDATE ce_sessions SET version = version + 1 WHERE id = @s",),
    "how often the session was written to": (
        "UPDATE ce_sessions SET access_count = 1 WHERE id = @s",
    ),
    "the session's tags": (
        """UPDATE ce_sessions SET meta = '{"tags":{"case":"closed"}}' WHERE id = @s""",
    ),
    "the session's summary": (
        """UPDATE ce_sessions SET summary = '{"content":"all agreed"}' WHERE id = @s""",
    ),
    "the MACs of content are gone": (
        "UPDATE ce_events SET macs = NULL WHERE session = @s AND macs IS NOT NULL",
    ),
    "two events exchanged their MACs": (
        """UPDATE ce_events SET macs = (SELECT macs FROM ce_events e WHERE e.session = @s AND
        e.macs IS NOT NULL ORDER BY seq LIMIT 1) WHERE session = @s AND seq =
        (SELECT max(seq) FROM ce_events WHERE session = @s AND macs IS NOT NULL)""",
    ),
    "all MACs are gone, as if an older release had written it": (
        "UPDATE ce_events SET macs = NULL WHERE session = @s",
        "UPDATE ce_sessions SET macs = NULL, macs_mac = NULL, head_mac = NULL WHERE id = @s",
    ),
    "the session's own MACs are gone": (
        "UPDATE ce_sessions SET macs_mac = NULL, head_mac = NULL WHERE id = @s",
    ),
    "the session is another user's": (
        "UPDATE ce_sessions SET session_id = 'mine' WHERE id = @s",
        "UPDATE ce_sessions SET session_id = 's' WHERE id = @o",
    ),
}
