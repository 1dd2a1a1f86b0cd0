"""Who may write to a store's files may spoil what is in them, and neither stops nor misleads who reads."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ce_engine import (
    ContextEngine,
    ContextEngineError,
    EncryptionKeyError,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.stores.tables import packing
from ce_engine.testing.host import HostApp
from tests.hosts.file_host import PLACES
from tests.hosts.store_urls import KINDS, store_url


SCOPE = Scope(session_id="s", user_id="anna")
OTHER = Scope(session_id="s", user_id="ben")
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=10))
DEEP = "[" * 100_000
SEALED = b"\xff\xffCE\x01\x04abcd"
"""The head of what a key `abcd` sealed, which nobody has."""
READS = 9
"""More than a store has threads that read."""


def fill(url: str) -> None:
    engine = create_context_engine(url, config=PATIENT)
    for scope in (SCOPE, OTHER):
        host = HostApp(engine, scope)
        host.ask("What is it?", "A lamp.")
        host.ask("And that?", "A chair.")
        engine.sync.constraints.create(scope, "Be brief.")
    engine.sync.close()


def doors(engine: ContextEngine, scope: Scope) -> Iterator[Callable[[], object]]:
    sync = engine.sync
    yield lambda: sync.get_session(scope)
    yield lambda: sync.list_evidences(scope)
    yield lambda: sync.verify(scope)
    yield lambda: sync.trace(scope, "x")
    yield lambda: sync.constraints.list(scope)
    yield lambda: sync.list_sessions(user_id=None)
    yield lambda: sync.export_user_data("", scope.user_id)


def check(url: str) -> None:
    """Each door answers, or names what is wrong; calls go on, another user's too."""
    engine = create_context_engine(url, config=PATIENT)
    for door in doors(engine, SCOPE):
        with suppress(ContextEngineError):
            door()
    HostApp(engine, SCOPE).ask("Go on?", "Yes.")
    HostApp(engine, OTHER).ask("Go on?", "Yes.")
    engine.sync.flush()
    document = engine.sync.get_session(OTHER)
    assert document is not None
    assert document.session.messages[-1].content == "Yes."
    engine.sync.close()


@pytest.mark.parametrize("what", PLACES)
@pytest.mark.parametrize("text", [DEEP, '{"head":' + "9" * 6000 + "}", "", "null", "[]", '"x"'])
def test_a_file_with_anything_in_it_is_damaged_and_no_more(
    what: str, text: str, tmp_path: Path
) -> None:
    root = tmp_path / "sessions"
    fill(f"file:{root}")
    PLACES[what](root).write_text(text + "\n", encoding="utf-8")
    check(f"file:{root}")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ce_messages SET extra = ? WHERE session = 1",
        "UPDATE ce_settings SET value = ? WHERE user_id = 'anna'",
        "UPDATE ce_turns SET report = ? WHERE session = 1",
    ],
)
def test_a_column_that_is_nested_too_deep_is_damaged_and_no_more(
    change: str, tmp_path: Path
) -> None:
    path = tmp_path / "ce.db"
    fill(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(change, (DEEP,))
    check(f"sqlite:///{path}")


def test_a_session_that_could_not_be_read_is_deleted_to_its_last_byte(tmp_path: Path) -> None:
    """The read that failed keeps no hold of the file: the purge writes that anew."""
    path = tmp_path / "ce.db"
    fill(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE ce_messages SET extra = ? WHERE session = 1", (DEEP,))
    engine = create_context_engine(f"sqlite:///{path}", config=PATIENT)
    for door in doors(engine, SCOPE):
        with suppress(ContextEngineError):
            door()
    assert engine.sync.delete_user_data("", "anna").sessions == 1
    engine.sync.close()


def test_a_row_that_says_it_is_sealed_costs_another_user_nothing(tmp_path: Path) -> None:
    """Who still has the error has no query with it, by which SQLite goes on reading the file as it was."""
    path = tmp_path / "ce.db"
    fill(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as database, database:
        oldest = "id = (SELECT min(id) FROM ce_turns WHERE session = 1)"
        database.execute(f"UPDATE ce_turns SET report = ? WHERE {oldest}", (SEALED,))
    engine = create_context_engine(f"sqlite:///{path}", config=PATIENT)
    errors = [turns_refused(engine) for _ in range(READS)]
    HostApp(engine, OTHER).ask("Go on?", "Yes.")
    assert engine.sync.flush()
    found = [engine.sync.get_session(OTHER) for _ in range(READS)]
    engine.sync.close()
    assert {type(error) for error in errors} == {EncryptionKeyError}
    assert {each.session.messages[-1].content for each in found if each is not None} == {"Yes."}


def turns_refused(engine: ContextEngine) -> BaseException:
    with pytest.raises(EncryptionKeyError) as said:
        engine.sync.list_turns(SCOPE)
    return said.value


def test_a_setting_that_was_spoilt_is_deleted_with_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "ce.db"
    fill(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE ce_settings SET value = ? WHERE user_id = 'anna'", (DEEP,))
    engine = create_context_engine(f"sqlite:///{path}", config=PATIENT)
    assert {e.status for e in engine.sync.verify_settings("", "anna")} == {"tampered"}
    assert engine.sync.delete_user_data("", "anna").settings == 1
    assert {e.status for e in engine.sync.verify_settings("", "anna")} == {"intact"}
    engine.sync.close()


def test_a_column_that_inflates_without_end_is_not_inflated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packing, "MOST_BYTES", 100_000)
    assert packing.unpack(packing.pack("a" * 90_000)) == "a" * 90_000
    deflate = zlib.compressobj(9, zlib.DEFLATED, -12)
    bomb = b"\0\0" + deflate.compress(b'"' + b"a" * 10_000_000 + b'"') + deflate.flush()
    with pytest.raises(ValueError, match="more than"):
        packing.unpack(bomb)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "memory"])
@pytest.mark.parametrize("key", ["", "k" * 40])
@pytest.mark.parametrize(
    "mark", ["\x02seal:AAAA", "\x02seal://9DRQEIZGVhZGJlZWZ4eHh4", "\x02json:{"]
)
def test_a_name_that_looks_sealed_is_a_name(
    mark: str, key: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such words, of whoever, make no session unreadable."""
    if key:
        monkeypatch.setenv("CE_ENCRYPTION_KEY", key)
    with store_url(kind, tmp_path, monkeypatch) as url:
        engine = create_context_engine(url, config=PATIENT)
        scope = Scope(session_id=f"s{mark}", user_id=mark, project_id=mark, agent_id=mark)
        HostApp(engine, scope, framework=mark).ask(mark, mark, tags={"a": mark})
        assert engine.sync.flush()
        engine.sync.close()
        engine = create_context_engine(url, config=PATIENT)
        document = engine.sync.get_session(scope)
        assert document is not None
        assert [message.content for message in document.session.messages] == [mark, mark]
        assert engine.sync.verify(scope).status == "intact"
        (found,) = engine.sync.list_sessions(user_id=mark)
        assert found.frameworks == [mark]
        engine.sync.close()
