"""Reads the store that a killed process left, and compares it with what that process said."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

from ce_engine import Scope, create_context_engine
from tests.faults import fault_stores
from tests.faults.crash_child import CONFIG
from tests.faults.fault_stores import url_at
from tests.faults.ledger import MESSAGE, Found, Ledger, compare


Line = list[str]


def note(lines: Iterable[Line], into: dict[str, Ledger]) -> set[str]:
    """Note what a writer said; the sessions that it was in."""
    touched = set()
    for what, kind, session, *texts in lines:
        if what not in ("try", "ack"):
            continue
        touched.add(session)
        ledger = into.setdefault(session, Ledger())
        if what == "try":
            ledger.try_to(kind, *texts)
        else:
            ledger.ack("the writer", MESSAGE if kind == "turn" else kind, *texts)
    return touched


def url_of(folder: Path, kind: str) -> str:
    """The URL of the store in a folder, or that the folder stands for."""
    return (folder / "kept").as_uri() if kind == "file" else url_at(folder / "ce", kind)


def copied(folder: Path, kind: str = "sqlite") -> Path:
    """A copy of the store as the killed process left it: the next process recovers the files itself."""
    copy = folder.with_name("copy")
    fault_stores.copy(folder / "ce", copy / "ce", kind)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    return copy


def judge(folder: Path, kind: str, known: Mapping[str, Ledger], sessions: Iterable[str]) -> Found:
    """Compare what is stored of the sessions with what their writers said."""
    found = Found(where="the file")
    engine = create_context_engine(url_of(folder, kind), config=CONFIG)
    try:
        for session in sorted(sessions):
            compare(engine, Scope(session_id=session), known[session], found)
    finally:
        engine.sync.close()
    if kind == "sqlite":
        with closing(sqlite3.connect(folder / "ce.db")) as connection:
            whole = connection.execute("PRAGMA integrity_check").fetchall()
        found.expect(whole == [("ok",)], "the file is damaged", whole)
    return found
