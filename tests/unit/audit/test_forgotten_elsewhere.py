"""What another process deleted goes from this one's memory with the session's next call here (A-30)."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import sleep

import pytest

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    ContextEngineError,
    Message,
    Role,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import ce, process
from tests.unit.audit.test_forgotten_words import SCOPE, Word, holders, talk


# How much this process remembers of sessions, and what is deleted elsewhere.
WAYS = {
    ("sqlite:///{}/ce.db", 10_000_000): ("--session", SCOPE.session_id, "--user", SCOPE.user_id),
    ("file://{}/sessions", 0): ("--user", SCOPE.user_id),
}
OTHER = Scope(session_id="other", user_id="ben")


def config(view_bytes: int) -> RuntimeConfig:
    store = StoreConfig(deadline_s=30, view_bytes=view_bytes)
    budget = BudgetConfig(max_input_tokens=400, reserved_reply_tokens=0)
    return RuntimeConfig(store=store, budget=budget)


@pytest.fixture
def _whole_heap() -> Iterator[None]:
    """See what was made before the tests began, too: `conftest` freezes it."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.req("A-30")
@pytest.mark.usefixtures("_whole_heap")
@pytest.mark.timeout(600)  # it looks through the whole heap
def test_the_next_call_of_a_session_forgets_what_another_process_deleted(tmp_path: Path) -> None:
    engines = []
    for (place, view_bytes), options in WAYS.items():
        store = place.format(tmp_path)
        engines.append(engine := create_context_engine(store, config=config(view_bytes)))
        talk(engine, Word(f"case{len(engines)}"))
        HostApp(engine, OTHER).ask("Hello?", "Hi.")  # for which the first view may go
        assert engine.sync.flush()
        done = process("delete", *options, "--yes", "--store", store)
        assert done.returncode == 0, done.stderr
        assert next(holders(), ""), "nobody has it before: nothing can be seen"
        HostApp(engine, SCOPE).ask("Who are you?", "A helper.")
    gc.collect()
    assert sorted(set(holders())) == []
    for engine in engines:
        engine.sync.close()


ANN = Scope(session_id="s", user_id="ann")


def prompt(engine: ContextEngine, question: str) -> str:
    """One turn by hand; what goes out for it."""
    prepared = engine.sync.prepare_turn(ANN, [Message(role=Role.USER, content=question)])
    answered(engine, prepared.report.turn_id, "Well.")
    return "".join(str(part.content) for part in prepared.assembled_input.parts)


def answered(engine: ContextEngine, turn_id: str, answer: str) -> None:
    message = Message(role=Role.ASSISTANT, content=answer)
    engine.sync.commit_assistant_message(ANN, message, turn_id=turn_id)


@pytest.mark.req("A-30")
def test_what_is_deleted_is_used_no_more_though_the_store_is_locked(tmp_path: Path) -> None:
    """As by the deletion's own vacuum: the session cannot be begun anew, and nothing is known of it."""
    url = f"sqlite:///{tmp_path}/ce.db"
    engine = create_context_engine(url)
    prompt(engine, "The gate code is OLDWORD.")
    assert "OLDWORD" in prompt(engine, "What is the gate code?")
    asked = engine.sync.prepare_turn(ANN, [Message(role=Role.USER, content="Say it again.")])
    assert engine.sync.flush()
    done = ce("delete", "--user", "ann", "--yes", "--store", url)
    assert done.exit_code == 0, done.stderr
    with closing(sqlite3.connect(tmp_path / "ce.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert "OLDWORD" not in prompt(engine, "What is the gate code?")
        assert "OLDWORD" not in prompt(engine, "And now?")
        with suppress(ContextEngineError):  # it is not open any more
            answered(engine, asked.report.turn_id, "It is OLDWORD.")
    sleep(engine.config.store.breaker_s + 0.5)
    assert "OLDWORD" not in prompt(engine, "What do you know of the NEWWORD?")
    assert engine.sync.flush(10)
    engine.sync.close()
    again = create_context_engine(url)
    document = again.sync.get_session(ANN)
    again.sync.close()
    assert document is not None
    said = [message.content for message in document.session.messages]
    assert "What do you know of the NEWWORD?" in said
    assert not any("OLDWORD" in each for each in said)
