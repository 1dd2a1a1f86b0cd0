"""Files that a user names to a command, and a store's own place."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ce_engine import ConfigError, StoreUrlError, create_context_engine
from ce_engine.apps.cli.reading import text_of
from ce_engine.errors import StoreUnavailableError
from ce_engine.runtime.breaker import Breaker
from ce_engine.stores import open_store


def test_a_file_that_is_no_utf_8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "规则.txt"
    path.write_bytes("规则".encode("utf-16"))
    with pytest.raises(ConfigError, match=r"规则\.txt.*UTF-8"):
        text_of(path)
    path.write_bytes("\ufeff规则".encode())
    assert text_of(path) == "规则"


def test_a_link_in_place_of_the_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    engine = create_context_engine(f"sqlite:///{tmp_path / 'link.db'}")
    with pytest.raises(StoreUrlError, match="symbolic link"):
        engine.check_possible()


def check(path: Path) -> None:
    create_context_engine(f"sqlite:///{path}").check_possible()


def test_an_empty_file_and_a_database_are_taken(tmp_path: Path) -> None:
    empty, filled = tmp_path / "empty.db", tmp_path / "filled.db"
    empty.touch()
    with closing(sqlite3.connect(filled)) as database, database:
        database.execute("CREATE TABLE recipes (name TEXT)")
        database.execute("DROP TABLE recipes")
    check(empty)
    check(filled)
    assert empty.read_bytes() == b""
    assert sorted(tmp_path.iterdir()) == [empty, filled]


def test_a_look_at_the_file_gives_no_lock_of_this_process_up(tmp_path: Path) -> None:
    path = tmp_path / "ce.db"
    other = (
        "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as mine:
        mine.execute("CREATE TABLE ce_revision (version_num TEXT)")
        mine.execute("BEGIN EXCLUSIVE")
        check(path)
        done = subprocess.run(
            [sys.executable, "-c", other, path], check=False, capture_output=True, text=True
        )
    assert "database is locked" in done.stderr


def test_a_database_of_another_program_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "菜谱 #1.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE recipes (name TEXT)")
    with pytest.raises(
        StoreUrlError, match=r"of another program \(recipes\).*name a file of its own"
    ):
        check(path)


def test_a_file_that_only_its_journal_makes_whole_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "torn.db"
    path.write_bytes(bytes(4096))  # a crash before the first page was on the disk
    with pytest.raises(StoreUrlError, match="no SQLite database"):
        check(path)
    (tmp_path / "torn.db-journal").write_bytes(b"what takes it back")
    check(path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("kind", ["unreadable", "pipe"])
def test_what_cannot_be_read_now_is_no_fault_and_holds_nothing_up(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "ce.db"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("a letter that nobody may read")
        path.chmod(0)
        if os.access(path, os.R_OK):
            pytest.skip("this user reads everything")
    check(path)


def test_the_line_of_a_store_that_is_away_tells_no_folder_of_a_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "st"
    breaker = Breaker(open_store(f"file://{root}"), 1.0)
    folder = root / "acme" / "alice-example-com" / "s"
    with caplog.at_level(logging.WARNING):
        breaker.trip(
            StoreUnavailableError(f"the store's folder {str(root)!r} is locked ({folder})")
        )
    assert str(root) in caplog.text
    assert "alice" not in caplog.text
