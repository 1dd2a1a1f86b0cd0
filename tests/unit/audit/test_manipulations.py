"""Whoever changes a store's file without the key is found out; whoever uses it rightly is not accused (B-01)."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    Answer,
    ConfigError,
    ContextEngine,
    ContextEngineError,
    Message,
    ModelUsage,
    Retrieval,
    RetrievedDoc,
    Role,
    Task,
    ToolRun,
    TurnStatus,
    Usage,
)
from ce_engine.schema.document import EvidenceLinks
from ce_engine.schema.rows import (
    AppendToolCalls,
    LinkEvidence,
    Placeholder,
    PutPlaceholders,
    PutTurn,
    ToolCallRow,
)
from ce_engine.stores.tables import tables
from ce_engine.testing.host import HostApp, assistant, user
from tests.unit.audit.forged_store import (
    GONE,
    MANIPULATIONS,
    OTHER,
    SCOPE,
    by_hand,
    fill,
    first_turns,
    forge,
    opened,
    status,
)


ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, and what its file was before the last turn."""
    folder = tmp_path_factory.mktemp("filled")
    fill(folder / "ce.db", folder / "earlier.db")
    return folder


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    for name in ("ce.db", "ce.db.key"):
        shutil.copy(filled / name, tmp_path / name)
    return tmp_path / "ce.db"


@pytest.mark.req("B-01")
def test_an_untouched_file_is_intact(path: Path) -> None:
    found = [status(path, scope) for scope in (SCOPE, OTHER, GONE)]
    assert found == ["intact", "intact", "deleted"]


@pytest.mark.req("B-01")
@pytest.mark.parametrize("what", MANIPULATIONS)
def test_a_manipulation_is_reported(path: Path, what: str) -> None:
    forge(path, MANIPULATIONS[what])
    assert status(path) == "tampered"


def _other(value: Any, *, far: bool) -> Any:
    if isinstance(value, int):
        return 1 - value if value in (0, 1) and not far else value + 1000
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:] if value else b"x"
    return f"{value or ''}x"


OURS = sorted(set(tables.metadata.tables) - {"ce_settings", "ce_revision"})


@pytest.mark.req("B-01")
@pytest.mark.parametrize("table", OURS)
def test_no_column_of_any_row_can_be_changed_unnoticed(path: Path, table: str) -> None:
    """One value after the other; the numbers of rows are of no account but for their order."""
    whose = "id" if table == "ce_sessions" else "session"
    key = "seq" if "seq" in tables.metadata.tables[table].c else "id"
    names = [c.name for c in tables.metadata.tables[table].c if c.name not in ("id", "session")]
    unnoticed = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        at = f"WHERE {whose} = (SELECT id FROM ce_sessions WHERE session_id = 's')"
        found = connection.execute(f"SELECT {key} FROM {table} {at}").fetchall()
        for name, number in product(names, {found[0][0], found[-1][0]}):
            where = f"{at} AND {key} = {number}" if whose == "session" else at
            [value] = connection.execute(f"SELECT {name} FROM {table} {where}").fetchone()
            change = f"UPDATE {table} SET {name} = ? {where}"
            connection.execute(change, [_other(value, far=name == key)])
            if not _is_reported(path):
                unnoticed.append((name, number))
            where = where.replace(f"{key} = {number}", f"{key} = {number + 1000 * (name == key)}")
            back = f"UPDATE {table} SET {name} = ? {where}"
            connection.execute(back.replace("= 's'", f"= {_now(name)}"), [value])
        assert unnoticed == []
        assert status(path) == "intact"


def _now(name: str) -> str:
    return "'sx'" if name == "session_id" else "'s'"


def _is_reported(path: Path) -> bool:
    try:
        return status(path) == "tampered"
    except ContextEngineError:  # nothing to be had of it, which is said
        return True


# What an app and its operator rightly do


def _twice(engine: ContextEngine, app: HostApp) -> None:
    """The same request once more, as after a lost answer."""
    prepared = app.prepare(user("again?"), request_id="r")
    app.commit(prepared, assistant("yes"))
    app.commit(prepared, assistant("yes"))


def _late_usage(engine: ContextEngine, app: HostApp) -> None:
    prepared = app.prepare(user("how much?"))
    app.commit(prepared, assistant("much"))
    engine.sync.flush()
    engine.sync.commit(
        prepared.turn, Answer(Message(role=Role.ASSISTANT, content="much")), usage=Usage(7, 3, 10)
    )


def _by_document(engine: ContextEngine, app: HostApp) -> None:
    """A correction: the document is read, changed and put back whole, and patched."""
    run, store = engine.loop.run, engine.store
    document = run(store.get_session(SCOPE))
    assert document is not None
    assert document.meta is not None
    document.session.messages[0].content = "corrected"
    document.meta.locale = "uk"
    run(store.put_session(SCOPE, document))
    run(store.patch_session(SCOPE, {"messages": document.session.messages[:3]}))


def _same_evidence(engine: ContextEngine, app: HostApp) -> None:
    """A document that is retrieved again is linked, not kept twice."""
    for n in range(3):
        app.prepare(user(f"look {n}"))
        hit = Retrieval("kb", "Oslo", [RetrievedDoc(text="Cold.")], run_id=f"run-{n}")
        engine.post_retrieval(SCOPE, hit, request_id=f"request-{app.requests}")
    engine.sync.flush()


def _deleted_evidence(engine: ContextEngine, app: HostApp) -> None:
    document = engine.loop.run(engine.store.get_session(SCOPE))
    assert document is not None
    for name in list(document.evidences)[:3]:
        engine.sync.delete_evidence(SCOPE, name)


def _deleted_session(engine: ContextEngine, app: HostApp) -> None:
    engine.sync.delete_session(SCOPE)
    HostApp(engine, SCOPE).ask("hello again?", "hello")


def _deleted_user(engine: ContextEngine, app: HostApp) -> None:
    engine.sync.delete_user_data(SCOPE.account_id, SCOPE.user_id)
    by_hand_again = HostApp(engine, SCOPE)
    by_hand_again.ask("hello again?", "hello")


def _tool_runs(engine: ContextEngine, app: HostApp) -> None:
    """A call that is known when it begins, and again when it ends."""
    app.prepare(user("weather?"))
    run = ToolRun(run_id="r", name="weather", args={"city": "Oslo"}, result="3 degrees")
    engine.post_tool_run(SCOPE, run, request_id=f"request-{app.requests}")
    engine.sync.flush()
    engine.post_tool_run(SCOPE, run, request_id=f"request-{app.requests}")


def _left_open(engine: ContextEngine, app: HostApp) -> None:
    app.prepare(user("and then?"))
    engine.sync.flush()
    turns = engine.loop.run(engine.store.list_turns(SCOPE))
    gone = replace(turns[-1], status=TurnStatus.ABANDONED, closed_at="2027")
    engine.loop.run(engine.store.apply(SCOPE, [PutTurn(gone)]))


def _tasks_and_blocks(engine: ContextEngine, app: HostApp) -> None:
    for n in range(3):
        by_hand(engine, SCOPE)
        tasks = [Task(task_id="k1", name=f"one {n}"), Task(task_id=f"k{n + 3}", name="more")]
        engine.loop.run(engine.store.upsert_tasks(SCOPE, tasks))


def _words_twice(engine: ContextEngine, app: HostApp) -> None:
    """Values that were redacted before, among new ones."""
    app.ask("eve@example.org, max@example.org, ada@example.org", "all wrote")
    run, store = engine.loop.run, engine.store
    state = run(store.state(SCOPE))
    assert state is not None
    known, new = state.placeholders, Placeholder("EMAIL", b"a new one", 9)
    run(store.apply(SCOPE, [PutPlaceholders([known[0], new, known[1]])]))
    usages = [ModelUsage(model_usage_id=f"u{n}", provider="p", model="m") for n in (1, 2, 1, 3)]
    run(store.append_model_usage(SCOPE, usages[:3]))
    run(store.append_model_usage(SCOPE, usages))


HISTORIES = {
    "a request is repeated": _twice,
    "usage comes late": _late_usage,
    "a document is corrected, tagged and cut": _by_document,
    "the same is found again": _same_evidence,
    "a tool runs": _tool_runs,
    "a turn is left open": _left_open,
    "tasks and blocks change": _tasks_and_blocks,
    "words come twice": _words_twice,
    "evidence is deleted": _deleted_evidence,
    "the session is deleted, and begins anew": _deleted_session,
    "the user is deleted, and comes back": _deleted_user,
}


@pytest.mark.req("B-01")
@pytest.mark.parametrize("kind", ["ce.db", "sessions"])
@pytest.mark.parametrize("what", HISTORIES)
def test_who_uses_it_rightly_is_not_accused(tmp_path: Path, kind: str, what: str) -> None:
    engine = opened(tmp_path / kind)
    app = first_turns(engine, SCOPE)
    by_hand(engine, SCOPE)
    HISTORIES[what](engine, app)
    engine.sync.flush()
    again = opened(tmp_path / kind)
    later = HostApp(again, SCOPE)
    later.ask("a question to end with?", "an answer")
    again.sync.flush()
    found = again.sync.verify(SCOPE)
    assert (found.tampered_seq, found.wrong, found.unverified) == (None, (), ())
    assert found.status == ("deleted" if "deleted" in what else "intact")
    assert found.rows > 0
    again.sync.close()
    engine.sync.close()


@pytest.mark.req("B-01")
def test_several_processes_write_one_log(tmp_path: Path) -> None:
    path = tmp_path / "ce.db"
    code = (
        "import sys; from pathlib import Path; from tests.unit.audit.forged_store import *\n"
        "engine = opened(Path(sys.argv[1])); app = HostApp(engine, SCOPE)\n"
        "for n in range(5): app.ask(f'{sys.argv[2]} {n}?', f'{n}')\n"
        "engine.sync.flush(); engine.sync.close()"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(n)], cwd=ROOT)
        for n in range(3)
    ]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert status(path) == "intact"


# What was forged stays so, whatever is written after it


REWRITTEN = {
    "a tool call that ends later": (
        """UPDATE ce_tool_calls SET body = '{"tool":"forged","provider":{"kind":"builtin"}}' WHERE session = @s""",
    ),
    "a turn that another process closes": (
        "UPDATE ce_turns SET request_id = 'forged' WHERE session = @s AND status = 'open'",
    ),
    "a document that is found again": (
        """UPDATE ce_evidence SET body = '{"type":"rag_doc","source":{"kind":"rag","name":"f"}}'
        WHERE session = @s AND content = 'page one'""",
    ),
    "a message of a document that is put back": (
        "UPDATE ce_messages SET content = 'forged' WHERE session = @s AND seq = 1",
    ),
    "the session's row": ("UPDATE ce_sessions SET epoch = 0, last_seq = 50 WHERE id = @s",),
}


@pytest.mark.req("B-01")
def test_a_log_that_was_taken_away_is_missed_when_there_is_a_new_one(path: Path) -> None:
    taken = [each for name, each in MANIPULATIONS.items() if name.startswith("the whole log")]
    forge(path, taken[0])
    engine = opened(path)
    HostApp(engine, SCOPE).ask("more?", "more")
    engine.sync.close()
    assert status(path) == "tampered"


PLANTED_SUMMARY = (
    """{"content":"The customer agreed to pay 10,000 dollars.","message_index_range":"""
    """{"from_index":0,"to_index":0},"updated_at":"2026-01-01T00:00:00.000Z"}"""
)
ROWS = ("events", "messages", "evidence", "blocks", "tasks", "model_usage", "tool_calls")
ALL_ROWS = (*ROWS, "turns", "cuts", "summaries", "placeholders")
STRIPPED_ROW = (
    *(f"DELETE FROM ce_{table} WHERE session = @s" for table in ALL_ROWS),
    """UPDATE ce_sessions SET macs = NULL, macs_mac = NULL, head_mac = NULL, last_seq = 0, last_evidence = 0,
    last_event_seq = 0, chain_head = '', summary = NULL, meta = NULL WHERE id = @s""",
)


@pytest.mark.req("B-01")
@pytest.mark.parametrize("after", [False, True], ids=["at-once", "after-more-was-written"])
@pytest.mark.parametrize("column", ["summary", "meta", ""])
def test_a_sessions_row_without_macs_is_never_intact(path: Path, column: str, after: bool) -> None:
    """All else was taken away, so that nothing is left that could be wrong."""
    planted = {"summary": PLANTED_SUMMARY, "meta": '{"locale":"xx"}'}
    more = (
        [f"UPDATE ce_sessions SET {column} = '{planted[column]}' WHERE id = @s"] if column else []
    )
    forge(path, (*STRIPPED_ROW, *more))
    if after:
        engine = opened(path)
        HostApp(engine, SCOPE).ask("more?", "more")
        engine.sync.close()
    assert status(path) == ("tampered" if column and not after else "unverified")


@pytest.mark.req("B-01")
@pytest.mark.parametrize("what", REWRITTEN)
def test_what_was_forged_does_not_become_genuine_by_being_written_anew(
    tmp_path: Path, what: str
) -> None:
    path = tmp_path / "ce.db"
    engine = opened(path)
    app = first_turns(engine, SCOPE)
    app.prepare(user("left open"))
    engine.sync.flush()
    forge(path, REWRITTEN[what])
    run, store = engine.loop.run, engine.store
    document, state = run(store.get_session(SCOPE)), run(store.state(SCOPE))
    assert document is not None
    assert state is not None
    call = ToolCallRow(document.session.tool_state.tool_calls[0], ended=True)
    pages = [row for row in state.evidence if row.evidence.content == "page one"]
    link = LinkEvidence(pages[0].evidence.evidence_id, EvidenceLinks(tool_call_id="c"))
    turn = replace(state.open_turns[0], status=TurnStatus.ABANDONED)
    run(store.apply(SCOPE, [AppendToolCalls([call]), link, PutTurn(turn)]))
    document = run(store.get_session(SCOPE))
    assert document is not None
    run(store.put_session(SCOPE, document))
    run(store.append_messages(SCOPE, [Message(role=Role.USER, content="x")]))
    engine.sync.close()
    assert status(path) == "tampered"


# An older state that was put back whole, and the owner of the key


@pytest.mark.req("B-01")
def test_an_older_file_that_was_put_back_is_found_by_an_anchor(
    filled: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ce.db"
    for name in ("ce.db", "ce.db.key"):
        shutil.copy(filled / name, tmp_path / name)
    engine = opened(path)
    anchors = "\n".join(engine.sync.verify(scope).anchor for scope in (SCOPE, OTHER, GONE))
    assert engine.sync.verify(SCOPE, anchors=anchors).status == "intact"
    engine.sync.close()
    shutil.copy(filled / "earlier.db", path)
    engine = opened(path)
    assert engine.sync.verify(SCOPE).status == "intact"  # as far as the file alone can tell
    found = engine.sync.verify(SCOPE, anchors=anchors)
    assert found.status == "tampered"
    assert "an older state was put back" in found.wrong[0]
    assert engine.sync.verify(GONE, anchors=anchors).status == "deleted"
    engine.sync.close()


@pytest.mark.req("B-01")
@pytest.mark.parametrize("what", ["a message", "an event"])
def test_the_owner_of_the_key_cannot_change_what_an_anchor_tells_of(
    tmp_path: Path, what: str
) -> None:
    def made(folder: str, answer: str, tag: str) -> tuple[Path, str]:
        """The same session with another answer, and the same key."""
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "ce.db.key").write_text("ab" * 32 + "\n", "ascii")
        engine = opened(tmp_path / folder / "ce.db")
        app = HostApp(engine, SCOPE, framework=tag)
        app.ask("who signed?", answer)
        app.ask("sure?", "yes")
        anchor = engine.sync.verify(SCOPE).anchor
        engine.sync.close()
        return tmp_path / folder / "ce.db", anchor

    _, anchor = made("true", "Ada", "by-hand")
    forged, _ = made("forged", *(("Eve", "by-hand") if what == "a message" else ("Ada", "other")))
    engine = opened(forged)
    assert engine.sync.verify(SCOPE).status == "intact"
    assert engine.sync.verify(SCOPE, anchors=anchor).status == "tampered"
    engine.sync.close()


@pytest.mark.req("B-01")
def test_anchors_name_nobody_and_other_sessions_anchors_do_no_harm(path: Path) -> None:
    engine = opened(path)
    mine, others = (engine.sync.verify(scope).anchor for scope in (SCOPE, OTHER))
    assert engine.sync.verify(SCOPE, anchors=f"# kept\n\n{others}\n{mine}\n").status == "intact"
    assert not {SCOPE.session_id, SCOPE.user_id}.intersection(mine.replace("=", " ").split())
    with pytest.raises(ConfigError, match="line 2 of the anchors is none"):
        engine.sync.verify(SCOPE, anchors=f"{mine}\n{mine[:-9]}")
    engine.sync.close()


# Files in a folder


LAST = re.compile(r',\s*"mac": ?"[0-9a-f]{32}"(?=\n?\}$)', re.MULTILINE)


def _without_log(text: str) -> str:
    if not text:  # the journal's lines are in the page
        return text
    page = json.loads(text)
    del page["mac"]
    page["head"] |= {"last_event_seq": 0, "chain_head": ""}
    page |= {"format": 1, "events": []}
    return json.dumps(page, ensure_ascii=False).replace("it rains", "it shines")


def _with_a_block(text: str) -> str:
    """Nothing but what an attacker has put there."""
    if not text:
        return text
    page = json.loads(text)
    kept = {name: page[name] for name in ("session", "key", "made_at") if name in page}
    del page["mac"]
    for name in ("messages", "evidence", "calls", "usages", "turns", "tasks", "placeholders"):
        page.pop(name, None)
    page["head"] |= {"last_seq": 0, "last_event_seq": 0, "chain_head": ""}
    block = {"block_id": "b", "block_type": "memory", "priority": "high", "content": "Likes tea."}
    return json.dumps(page | kept | {"format": 1, "events": [], "blocks": [block]})


FILES: dict[str, Callable[[str], str]] = {
    "a message's words": lambda text: text.replace("it rains", "it shines"),
    "a document's text": lambda text: text.replace("page one", "page zero"),
    "a space": lambda text: text.replace('"tags":', '"tags": '),
    "a number": lambda text: text.replace('"total_tokens":15', '"total_tokens":16'),
    "an event's tag": lambda text: text.replace('{"framework":"by-hand"}', '{"framework":"x"}'),
    "the MACs are gone": lambda text: LAST.sub("", text),
    "the MACs are gone, and the format is older": lambda text: LAST.sub("", text).replace(
        '"format": 2', '"format": 1'
    ),
    "the whole log and the MACs are gone, and the format is older": _without_log,
    "all is gone, and a block planted": _with_a_block,
}


@pytest.mark.req("B-01")
@pytest.mark.parametrize("after", [False, True], ids=["at-once", "after-more-was-written"])
@pytest.mark.parametrize("what", FILES)
def test_a_forged_file_is_reported(tmp_path: Path, what: str, after: bool) -> None:
    folder = tmp_path / "sessions"
    engine = opened(folder)
    first_turns(engine, SCOPE)
    engine.sync.close()
    assert status(folder) == "intact"
    before = [path.read_text("utf-8") for path in _session_files(folder)]
    for path in _session_files(folder):
        path.write_text(FILES[what](path.read_text("utf-8")), "utf-8")
    assert [path.read_text("utf-8") for path in _session_files(folder)] != before
    if after:
        engine = opened(folder)
        HostApp(engine, SCOPE).ask("more?", "more")
        engine.sync.close()
    assert status(folder) == "tampered"


@pytest.mark.req("B-01")
def test_a_line_that_is_gone_or_from_elsewhere_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    engine = opened(folder)
    apps = [HostApp(engine, scope) for scope in (SCOPE, OTHER)]
    for app in apps:
        for n in range(3):
            app.ask(f"{n}?", "yes")
    engine.sync.flush()
    mine, others = sorted(folder.rglob("journal.jsonl"))
    lines = mine.read_text("utf-8").splitlines(keepends=True)
    assert len(lines) > 3
    mine.write_text("".join(lines).replace("yes", "no!", 1), "utf-8")
    assert "tampered" in {status(folder), status(folder, OTHER)}
    mine.write_text("".join(lines), "utf-8")
    assert {status(folder), status(folder, OTHER)} == {"intact"}
    mine.write_text(others.read_text("utf-8"), "utf-8")
    assert "tampered" in {status(folder), status(folder, OTHER)}
    engine.sync.close()


def _session_files(folder: Path) -> list[Path]:
    return [*folder.rglob("session.json"), *folder.rglob("journal.jsonl")]
