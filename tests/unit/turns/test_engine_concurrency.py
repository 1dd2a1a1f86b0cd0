"""Sessions are serialised, callers of all kinds may share one, and nothing is torn (A-15, decision 1)."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    Answer,
    ContextEngine,
    MemoryStore,
    Message,
    ModelCall,
    PutResult,
    Role,
    RuntimeConfig,
    Scope,
    StoreConfig,
    StoreUnavailableError,
    SyncCallError,
    TurnStatus,
    create_context_engine,
)
from ce_engine.runtime.locks import KeyedLocks
from ce_engine.schema.rows import SessionState, Write
from ce_engine.schema.settings import Versions
from ce_engine.stores.tables import SqlStore
from ce_engine.testing.host import HostApp, assistant, user
from tests.hosts.store_host import FORK


PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))  # a busy machine is no fault here


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


def stored(engine: ContextEngine, scope: Scope) -> list[str]:
    engine.sync.flush()
    found = engine.loop.run(engine.store.get_session(scope))
    return [m.content for m in found.session.messages] if found else []


@pytest.mark.req("A-15")
def test_sync_threads_and_two_event_loops_share_one_session(engine: ContextEngine) -> None:
    scope = Scope(session_id="shared")

    async def turn(text: str) -> None:
        call = ModelCall(scope=scope, messages=[user(text)], request_id=text)
        prepared = await engine.prepare(call)
        await engine.commit(
            prepared.turn, Answer(Message(role=Role.ASSISTANT, content=f"re {text}"))
        )

    async def many(prefix: str) -> None:
        await asyncio.gather(*(turn(f"{prefix}{n}") for n in range(10)))

    threads = [threading.Thread(target=asyncio.run, args=(many(p),)) for p in ("a", "b")]
    threads.append(
        threading.Thread(
            target=lambda: [HostApp(engine, scope).ask(f"c{n}", f"re c{n}") for n in range(10)]
        )
    )
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    texts = stored(engine, scope)
    names = [f"{p}{n}" for p in "abc" for n in range(10)]
    assert sorted(texts) == sorted([*names, *(f"re {name}" for name in names)])


def test_engine_sync_works_under_a_running_loop(engine: ContextEngine) -> None:
    async def notebook() -> None:
        HostApp(engine, Scope(session_id="n")).ask("one?", "1")

    asyncio.run(notebook())
    assert stored(engine, Scope(session_id="n")) == ["one?", "1"]


def test_engine_sync_from_its_own_thread_says_so_at_once(engine: ContextEngine) -> None:
    async def wrong() -> None:
        engine.sync.flush()

    with pytest.raises(SyncCallError, match="async methods"):
        engine.loop.run(wrong())


def test_an_event_handler_that_fails_or_is_slow_harms_nothing(engine: ContextEngine) -> None:
    heard: list[str] = []

    async def slow(event: object) -> None:
        await asyncio.sleep(0.01)
        heard.append(getattr(event, "event_type", ""))

    def broken(event: object) -> None:
        raise ValueError(event)

    engine.bus.on_all(broken)
    engine.bus.on("MessageAppended", slow)
    HostApp(engine, Scope(session_id="e")).ask("one?", "1")
    engine.sync.flush()
    deadline = threading.Event()
    for _ in range(100):
        if len(heard) == 2:
            break
        deadline.wait(0.02)
    assert heard == ["MessageAppended", "MessageAppended"]


def test_a_cancelled_wait_for_the_lock_leaves_it_usable() -> None:
    locks = KeyedLocks()

    async def main() -> list[str]:
        order: list[str] = []

        async def worker(name: str, hold: float) -> None:
            async with locks.hold("k"):
                order.append(name)
                await asyncio.sleep(hold)

        first = asyncio.create_task(worker("first", 0.05))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(worker("second", 0))
        third = asyncio.create_task(worker("third", 0))
        await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.gather(first, third)
        async with locks.hold("k"):
            order.append("last")
        return order

    assert asyncio.run(main()) == ["first", "third", "last"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_works_on_its_own(tmp_path: Path) -> None:
    engine = create_context_engine(f"sqlite:///{tmp_path / 'ce.db'}", config=PATIENT)
    engine.sync.check()
    HostApp(engine, Scope(session_id="parent")).ask("one?", "1")
    engine.sync.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            HostApp(engine, Scope(session_id="child")).ask("two?", "2")
            code = 0 if engine.sync.flush(5) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    HostApp(engine, Scope(session_id="parent2")).ask("three?", "3")
    assert stored(engine, Scope(session_id="child")) == ["two?", "2"]
    assert stored(engine, Scope(session_id="parent2")) == ["three?", "3"]
    engine.sync.close()


class Apart(SqlStore):
    """A process's way to the file, that can be cut off."""

    cut_off = False

    async def apply(self, scope: Scope, writes: Sequence[Write], **more: Any) -> PutResult:
        self._look()
        return await super().apply(scope, writes, **more)

    async def version(self, scope: Scope) -> Versions:
        self._look()
        return await super().version(scope)

    async def state(self, scope: Scope, **more: Any) -> SessionState | None:
        self._look()
        return await super().state(scope, **more)

    def _look(self) -> None:
        if self.cut_off:
            raise StoreUnavailableError("cut off")


@pytest.mark.req("A-15", "A-25")
def test_a_session_that_others_made_and_replaced_meanwhile_loses_nothing(tmp_path: Path) -> None:
    """It is not taken for one that was deleted: what waited for the store is stored, and goes on."""
    url, scope = f"sqlite:///{tmp_path / 'ce.db'}", Scope(session_id="s")
    soon = RuntimeConfig(store=StoreConfig(breaker_s=0.01, deadline_s=20))
    mine, other = Apart(url, lock_timeout_s=20), create_context_engine(url, config=soon)
    engine = create_context_engine(mine, config=soon)
    mine.cut_off = True
    app = HostApp(engine, scope)
    app.ask("one?", "1")
    pending = app.prepare(user("two?"))
    HostApp(other, scope).ask("other?", "yes")
    other.loop.run(other.store.patch_session(scope, {"summary": None}))  # another epoch
    mine.cut_off = False
    assert engine.sync.flush(20)
    HostApp(engine, scope).prepare(user("beside?"), lane_key="beside")  # sees the session as it is
    app.commit(pending, assistant("2"))
    assert pending.turn.status is TurnStatus.COMMITTED
    expected = ["one?", "1", "two?", "2", "other?", "yes", "beside?"]
    assert sorted(stored(engine, scope)) == sorted(expected)
    engine.sync.close()
    other.sync.close()


class Slow(SqlStore):
    """Something happens right after it was read."""

    after: Callable[[], None] | None = None

    async def state(self, scope: Scope, **more: Any) -> SessionState | None:
        found = await super().state(scope, **more)
        if self.after is not None:
            await asyncio.to_thread(self.after)
        return found


def _answer_and_end(url: str, prepared: Any, go_on: Any) -> None:
    engine = create_context_engine(SqlStore(url, lock_timeout_s=20), config=PATIENT)
    app = HostApp(engine, Scope(session_id="s"))
    pending = app.prepare(user("one?"))
    engine.sync.flush(20)
    prepared.set()
    go_on.wait(60)
    app.commit(pending, assistant("1"))
    os._exit(0)


@pytest.mark.req("A-15")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_commits_and_ends_right_now_was_not_killed(tmp_path: Path) -> None:
    """Its turn was seen open, and then it was gone: that does not make the turn an abandoned one."""
    url, scope = f"sqlite:///{tmp_path / 'ce.db'}", Scope(session_id="s")
    prepared, go_on = FORK.Event(), FORK.Event()
    process = FORK.Process(target=_answer_and_end, args=(url, prepared, go_on))
    process.start()
    assert prepared.wait(60)
    store = Slow(url, lock_timeout_s=20)
    engine = create_context_engine(store, config=PATIENT)

    def ends() -> None:
        go_on.set()
        process.join(60)

    store.after = ends
    HostApp(engine, scope).ask("two?", "2")
    engine.sync.flush(20)
    assert process.exitcode == 0
    assert sorted(stored(engine, scope)) == ["1", "2", "one?", "two?"]
    turns = engine.loop.run(store.list_turns(scope))
    assert [turn.status for turn in turns] == [TurnStatus.COMMITTED] * 2
    engine.sync.close()
