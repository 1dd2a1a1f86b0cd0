"""Where originals are kept, no redacted row is without its own, whenever the process is killed (A-19, A-30)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    ContextEngine,
    Message,
    RedactionConfig,
    Role,
    RuntimeConfig,
    Scope,
    Store,
    StoreConfig,
    create_context_engine,
    open_store,
)
from tests.hosts.cli_host import ce


pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

FORK = get_context("fork")
SCOPE = Scope(session_id="s", user_id="u")
TURNS = 3
WRITES = 6
"""As many groups of each store as are tried: a turn hands over two that have something to redact."""


def url_of(folder: Path, kind: str, name: str) -> str:
    place = folder / name / "store.db"
    place.parent.mkdir(exist_ok=True)
    return f"sqlite:///{place}" if kind == "sqlite" else place.as_uri()


def config(folder: Path, kind: str) -> RuntimeConfig:
    return RuntimeConfig(
        store=StoreConfig(deadline_s=30),
        redaction=RedactionConfig(
            mode="dual_store", audit=True, originals_url=url_of(folder, kind, "originals")
        ),
    )


def deadly(store: Store, at: int, after: bool) -> Store:
    """The store, which kills this process with the so many-th group, before or after it is written."""
    apply, count = store.apply, 0

    async def dying(*args: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        mine = count
        if mine == at and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = await apply(*args, **more)
        if mine == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    store.apply = dying  # type: ignore[method-assign]
    return store


async def ask(engine: ContextEngine, n: int) -> None:
    question = Message(role=Role.USER, content=f"Write to asks{n}@example.com")
    found = await engine.prepare_turn(SCOPE, question)
    said = Message(role=Role.ASSISTANT, content=f"Written to says{n}@example.com")
    await engine.commit_assistant_message(SCOPE, said, turn_id=found.report.turn_id)


def ask_and_wait(engine: ContextEngine, n: int) -> None:
    question = Message(role=Role.USER, content=f"Write to asks{n}@example.com")
    found = engine.sync.prepare_turn(SCOPE, question)
    said = Message(role=Role.ASSISTANT, content=f"Written to says{n}@example.com")
    engine.sync.commit_assistant_message(SCOPE, said, turn_id=found.report.turn_id)


def talk(folder: Path, kind: str, way: str, victim: str, at: int, after: bool, end: int) -> None:
    """What the process does until it is killed; each turn that was acknowledged is a byte on the pipe."""
    first = open_store(url_of(folder, kind, "main"))
    second = open_store(url_of(folder, kind, "originals"))
    stores = {"main": first, "originals": second}
    deadly(stores[victim], at, after)
    engine = create_context_engine(first, config=config(folder, kind), originals=second)
    for n in range(TURNS):
        if way == "sync":
            ask_and_wait(engine, n)
        else:
            asyncio.run(ask(engine, n))
        os.write(end, b".")
    engine.sync.close()
    os._exit(0)


def killed(folder: Path, *how: Any) -> int:
    """Let a process be killed; give how many turns it was told to be stored."""
    reading, writing = os.pipe()
    process = FORK.Process(target=talk, args=(folder, *how, writing))
    process.start()
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        acknowledged = len(told.read())
    process.join()
    return acknowledged


def mails(texts: Sequence[str]) -> set[str]:
    return {text.rpartition(" ")[2] for text in texts}


@pytest.mark.req("A-19", "A-30")
@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_no_kill_leaves_a_redacted_row_without_its_original(
    kind: str, way: str, tmp_path: Path
) -> None:
    redacted = acknowledged = 0
    for victim in ("main", "originals"):
        for at in range(1, WRITES + 1):
            for after in (False, True):
                folder = tmp_path / f"{victim}-{at}-{after}"
                folder.mkdir()
                turns = killed(folder, kind, way, victim, at, after)
                engine = create_context_engine(
                    url_of(folder, kind, "main"), config=config(folder, kind)
                )
                document = engine.loop.run(engine.store.get_session(SCOPE))
                rows = document.session.messages if document else []
                found = [
                    engine.sync.original(SCOPE, row.message_id or "", actor="judge").content
                    for row in rows
                ]
                where = f"{victim}, group {at}, {'after' if after else 'before'}"
                assert {"EMAIL" in row.content for row in rows} <= {True}
                told = {f"{who}{n}@example.com" for n in range(turns) for who in ("asks", "says")}
                assert told <= mails(found), where
                engine.sync.close()
                urls = ("--store", url_of(folder, kind, "main"))
                more = ("--originals", url_of(folder, kind, "originals"))
                if rows:
                    done = ce("verify", "s", "--user", "u", *urls, *more)
                    assert done.exit_code == 0, (where, done.output)
                    assert "no original" not in done.stdout
                redacted += len(rows)
                acknowledged += turns
    assert redacted > 40
    assert acknowledged > 12
