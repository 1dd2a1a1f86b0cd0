"""No call waits while another session is read (D-13)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine as Database

from ce_engine import Message, Role, RuntimeConfig, Scope, StoreConfig, create_context_engine


PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=60))


@contextmanager
def slow_reads(reading: threading.Event, go_on: threading.Event) -> Iterator[None]:
    """A disk on which the messages of a session take as long to read as the test wants."""

    def before(_: Any, __: Any, statement: str, *___: object) -> None:
        if statement.startswith("SELECT") and "FROM ce_messages" in statement:
            reading.set()
            assert go_on.wait(60)

    event.listen(Database, "before_cursor_execute", before)
    try:
        yield
    finally:
        go_on.set()
        event.remove(Database, "before_cursor_execute", before)


def ask(engine: Any, session: str) -> None:
    scope = Scope(session_id=session)
    engine.sync.prepare_turn(scope, Message(role=Role.USER, content="订单在哪里?"))
    answer = Message(role=Role.ASSISTANT, content="明天到。")
    assert engine.sync.commit_assistant_message(scope, answer).success


@pytest.mark.req("D-13", "A-15")
def test_a_session_that_is_known_goes_on_while_others_are_read(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    cold = [f"cold {n}" for n in range(8)]
    first = create_context_engine(url, config=PATIENT)
    for session in cold:
        ask(first, session)
    first.sync.close()

    engine = create_context_engine(url, config=PATIENT)
    ask(engine, "warm")
    reading, go_on = threading.Event(), threading.Event()
    with ThreadPoolExecutor(len(cold)) as pool, slow_reads(reading, go_on):
        waiting = [pool.submit(ask, engine, session) for session in cold]
        assert reading.wait(30)
        for _ in range(3):
            ask(engine, "warm")
        assert not any(each.done() for each in waiting)
        go_on.set()
        for each in waiting:
            each.result(60)
    turns = {session: len(engine.sync.list_turns(session)) for session in ("warm", *cold)}
    assert turns == {"warm": 4, **dict.fromkeys(cold, 2)}
    engine.sync.close()
