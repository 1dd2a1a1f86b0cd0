"""The store is locked, full, read-only, deleted or hung: the app answers as before (decision 10)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_openai import ChatOpenAI
from sqlalchemy import event
from sqlalchemy.engine import Engine

from ce_engine import MemoryStore, Scope, Store, open_store
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import Write
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire


Fault = Callable[[Path], AbstractContextManager[None]]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    yield
    holder.execute("ROLLBACK")
    holder.close()


@contextmanager
def full(path: Path) -> Iterator[None]:
    """No page more than the file has: SQLite itself answers that the disk is full."""

    def limit(cursor: Any, *_: object) -> None:
        cursor.execute("PRAGMA max_page_count = 1")

    def before(_: Any, cursor: Any, *__: object) -> None:
        limit(cursor)

    event.listen(Engine, "before_cursor_execute", before)
    yield
    event.remove(Engine, "before_cursor_execute", before)


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    files = [path.parent, *path.parent.iterdir()]
    modes = {file: file.stat().st_mode for file in files}
    for file in files:
        file.chmod(0o555 if file.is_dir() else 0o444)
    root = os.geteuid() == 0  # permissions do not bind root
    if root:
        os.seteuid(65534)
    yield
    if root:
        os.seteuid(0)
    for file, mode in modes.items():
        if file.exists():
            file.chmod(mode)


@contextmanager
def deleted(path: Path) -> Iterator[None]:
    for file in path.parent.iterdir():
        file.unlink()
    yield


FAULTS: list[Fault] = [locked, full, read_only, deleted]


class Hanging(MemoryStore):
    """A store that never answers."""

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        await asyncio.Event().wait()
        raise AssertionError

    async def version(self, scope: Scope) -> tuple[int, int] | None:
        await asyncio.Event().wait()
        raise AssertionError


def talk(model: ChatOpenAI, said: list[BaseMessage], questions: Sequence[str]) -> list[str]:
    """Some turns of a chat that resends its history."""
    for question in questions:
        said.append(HumanMessage(question))
        answer = model.invoke(said)
        assert isinstance(answer, AIMessage)
        said.append(AIMessage(answer.text))
    return [message.text for message in said]


def run(
    store: Store | str | None, trouble: Callable[[], AbstractContextManager[None]] | None
) -> Any:
    """One turn, then three in trouble; the answers, the bodies, and the installation."""
    with Wire() as wire:
        model = ChatOpenAI(model="gpt-4", base_url=wire.base_url, api_key="none", max_retries=0)  # type: ignore[arg-type]  # a plain key is taken
        with ExitStack() as stack:
            installed = None
            if store is not None:
                installed = stack.enter_context(install_ce(model, store=store, session_id="s"))
            said: list[BaseMessage] = []
            talk(model, said, ["one?"])
            if installed is not None:
                installed.flush()
            if trouble is not None:
                stack.enter_context(trouble())
            texts = talk(model, said, ["two?", "three?", "four?"])
            report = installed.last_report("s") if installed is not None else None
        assert wire.refusals == []
        return texts, [sent.raw for sent in wire.requests], report


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can come to."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture(scope="module")
def plain() -> Any:
    return run(None, None)


@pytest.mark.req("A-25", "D-09")
@pytest.mark.production_guard
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_app_answers_as_before(fault: Fault, folder: Path, plain: Any) -> None:
    path = folder / "ce.db"
    texts, bodies, report = run(open_store(f"sqlite:///{path}"), lambda: fault(path))
    assert texts == plain[0]
    assert bodies == plain[1]
    assert report is not None


@pytest.mark.req("A-25", "D-09")
@pytest.mark.production_guard
def test_a_store_that_hangs_holds_nobody_up(plain: Any) -> None:
    texts, bodies, report = run(Hanging(), None)
    assert texts == plain[0]
    assert bodies == plain[1]
    assert report.degradations == ["CONTEXT_STORE_UNAVAILABLE"]
