"""What a copy puts into its target is what was verified, whatever somebody does to the source meanwhile (B-01)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ce_engine import ContextEngine
from ce_engine.audit.copying import copy_store
from tests.unit.audit.forged_store import SCOPE, first_turns, opened


READS = ("chain", "check_content", "whole", "checked")
GENUINE, FORGED = "it rains", "it pours"


def in_file(path: Path) -> Callable[[str], None]:
    def put(text: str) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(
                "UPDATE ce_messages SET content = ? WHERE content IN (?, ?)",
                (text, GENUINE, FORGED),
            )

    return put


def in_folder(path: Path) -> Callable[[str], None]:
    def put(text: str) -> None:
        old = (FORGED if text == GENUINE else GENUINE).encode()
        for file in [each for each in path.rglob("*") if each.is_file()]:
            if old in (data := file.read_bytes()):
                file.write_bytes(data.replace(old, text.encode()))

    return put


def flickers(engine: ContextEngine, put: Callable[[str], None], patch: pytest.MonkeyPatch) -> None:
    """Before each look at the log and at the MACs all is genuine; after it, and for any other look, it is not."""

    def between(name: str) -> Callable[..., Any]:
        read = getattr(engine.store, name)

        async def look(*args: Any) -> Any:
            put(FORGED if name == "whole" else GENUINE)
            found = await read(*args)
            put(FORGED)
            return found

        return look

    for name in READS:
        patch.setattr(engine.store, name, between(name))


@pytest.mark.req("B-01")
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_flickers_is_copied_as_it_was_verified(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = (
        (tmp_path / "ce.db", tmp_path / "copy.db")
        if kind == "file"
        else (tmp_path / "ce", tmp_path / "copy")
    )
    monkeypatch.setenv("CE_SECRET", "the secret of a test, long enough")
    engine = opened(source)
    first_turns(engine, SCOPE)
    engine.sync.close()
    engines = opened(source), opened(target)
    flickers(engines[0], (in_file if kind == "file" else in_folder)(source), monkeypatch)
    report = engines[0].loop.run(copy_store(*engines, [SCOPE.key], lambda *_: True, lambda: None))
    assert (report.copied, report.problems) == (1, [])
    document = engines[1].sync.get_session(SCOPE)
    assert document is not None
    texts = [message.content for message in document.session.messages]
    for each in engines:
        each.sync.close()
    assert GENUINE in texts
    assert FORGED not in texts
