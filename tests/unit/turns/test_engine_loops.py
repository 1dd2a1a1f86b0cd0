"""Nobody waits for ever, and the host's own blocking is no fault of the store."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    Answer,
    ContextEngine,
    ContextEngineError,
    MemoryStore,
    ModelCall,
    Prepared,
    RuntimeConfig,
    Scope,
    StoreConfig,
    StoreUnavailableError,
    create_context_engine,
    open_store,
)
from ce_engine.schema.settings import Versions
from ce_engine.testing.faults import SwitchStore
from ce_engine.testing.host import HostApp, assistant, user


SCOPE = Scope(session_id="s")


def texts(engine: ContextEngine) -> list[str]:
    found = engine.loop.run(engine.store.get_session(SCOPE))
    return [m.content for m in found.session.messages] if found else []


class Async(MemoryStore):
    """Answers on the next turn of the loop, as every real store does."""

    async def version(self, scope: Scope) -> Versions:
        await asyncio.sleep(0.01)
        return await super().version(scope)


def test_a_sync_call_under_a_loop_whose_async_call_holds_the_session_does_not_hang() -> None:
    engine = create_context_engine(Async(), config=RuntimeConfig(store=StoreConfig(deadline_s=0.2)))
    HostApp(engine, SCOPE).ask("zero?", "0")
    done = threading.Event()

    async def host() -> None:
        call = ModelCall(scope=SCOPE, messages=[user("one?")], request_id="a")
        first = asyncio.create_task(engine.prepare(call))
        await asyncio.sleep(0)  # it holds the lock and waits for the store
        # a sync tool inside the same async app: model.invoke(...)
        engine.sync.prepare(ModelCall(scope=SCOPE, messages=[user("two?")], request_id="b"))
        await first
        done.set()

    threading.Thread(target=lambda: asyncio.run(host()), daemon=True).start()
    assert done.wait(5), "deadlock: engine.sync waits for a lock whose holder needs this very loop"
    engine.sync.close()


def test_a_host_that_blocks_its_own_loop_is_no_fault_of_the_store(tmp_path: Path) -> None:
    engine = create_context_engine(open_store(f"sqlite:///{tmp_path / 'ce.db'}"))
    engine.sync.check()
    HostApp(engine, SCOPE).ask("zero?", "0")
    engine.sync.flush()
    other = create_context_engine(open_store(f"sqlite:///{tmp_path / 'ce.db'}"))
    other.sync.check()

    async def host() -> Prepared:
        call = ModelCall(scope=SCOPE, messages=[user("one?")], request_id="a")
        task = asyncio.create_task(other.prepare(call))
        await asyncio.sleep(0)
        time.sleep(0.4)  # noqa: ASYNC251 - the host's own code blocks
        return await task

    prepared = asyncio.run(host())
    assert prepared.report.degradations == []
    for made in (engine, other):
        made.sync.close()


def test_a_host_that_blocks_its_own_loop_gets_nothing_stored_twice(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    config = RuntimeConfig(store=StoreConfig(breaker_s=0.2))
    engine = create_context_engine(open_store(url))
    engine.sync.check()
    app = HostApp(engine, SCOPE)
    app.ask("zero?", "0")
    engine.sync.flush()
    other = create_context_engine(open_store(url), config=config)  # a restarted process
    other.sync.check()

    async def host() -> None:
        messages = [*app.messages, user("one?")]
        call = ModelCall(scope=SCOPE, messages=messages, request_id="a")
        task = asyncio.create_task(other.prepare(call))
        await asyncio.sleep(0)
        time.sleep(0.4)  # noqa: ASYNC251 - the host's own code blocks
        await task
        await asyncio.sleep(0.3)
        await other.commit((await task).turn, Answer(assistant("1").message))

    asyncio.run(host())
    other.sync.flush()
    assert texts(other) == ["zero?", "0", "one?", "1"]
    for made in (engine, other):
        made.sync.close()


def test_records_go_on_after_the_loop_was_stopped_with_records_waiting() -> None:
    store = SwitchStore()
    engine = create_context_engine(
        store, config=RuntimeConfig(store=StoreConfig(deadline_s=0.05, breaker_s=0.2))
    )
    app = HostApp(engine, SCOPE)
    app.ask("zero?", "0")
    store.refuses = True
    app.ask("one?", "1")
    engine.loop.close()  # "a later use starts a new one"
    store.refuses = False
    time.sleep(0.3)
    app.ask("two?", "2")
    assert engine.sync.flush(2)
    assert texts(engine) == ["zero?", "0", "one?", "1", "two?", "2"]
    engine.sync.close()


def test_an_engine_that_is_gone_leaves_no_thread() -> None:
    def threads() -> int:
        return sum(thread.name == "ce-engine" for thread in threading.enumerate())

    gc.collect()
    before = threads()
    for _ in range(5):
        engine = create_context_engine(MemoryStore())
        HostApp(engine, SCOPE).ask("zero?", "0")
        engine.sync.flush()
        del engine
    gc.collect()
    for _ in range(100):
        if threads() <= before:
            break
        time.sleep(0.05)  # a thread takes its time to end
    assert threads() <= before


def test_what_is_late_is_marked_late_whatever_its_place_in_the_buffer() -> None:
    store = SwitchStore()
    engine = create_context_engine(
        store, config=RuntimeConfig(store=StoreConfig(deadline_s=0.05, breaker_s=0.3))
    )
    app = HostApp(engine, SCOPE)
    app.ask("zero?", "0")
    engine.sync.flush()
    store.refuses = True
    app.ask("one?", "1")
    store.refuses = False
    assert engine.sync.flush(3)
    found = engine.loop.run(store.state(SCOPE))
    assert found is not None
    rows = found.rows
    assert [(r.message.content, r.late) for r in rows][2:] == [("one?", True), ("1", True)]
    engine.sync.close()


@pytest.mark.parametrize("method", ["version", "state"])
def test_a_store_that_raises_anything_on_reading_is_a_store_that_is_down(method: str) -> None:
    class Odd(MemoryStore):
        odd = False

    async def fails(self: Odd, *args: Any, **kwargs: Any) -> Any:
        if self.odd:
            raise RuntimeError("boom")
        return await getattr(MemoryStore, method)(self, *args, **kwargs)

    setattr(Odd, method, fails)
    store = Odd()
    engine = create_context_engine(store)
    app = HostApp(engine, SCOPE)
    if method == "version":
        app.ask("zero?", "0")
    store.odd = True
    prepared = app.ask("one?", "1")
    assert prepared.report.degradations
    engine.loop.close()


def test_fail_closed_says_when_nothing_can_be_recorded() -> None:
    store = SwitchStore()
    store.refuses = True
    engine = create_context_engine(
        store,
        config=RuntimeConfig(fail="closed", store=StoreConfig(deadline_s=0.05, breaker_s=0.2)),
    )
    with pytest.raises(ContextEngineError):
        HostApp(engine, SCOPE).ask("one?", "1")
    engine.loop.close()


def test_a_degradation_is_an_event() -> None:
    class Flaky(MemoryStore):
        off = False

        async def version(self, scope: Scope) -> Versions:
            if self.off:
                raise StoreUnavailableError("off")
            return await super().version(scope)

    store = Flaky()
    engine = create_context_engine(store, config=RuntimeConfig(store=StoreConfig(breaker_s=0.05)))
    app = HostApp(engine, SCOPE)
    app.ask("zero?", "0")
    store.off = True
    app.ask("one?", "1")
    store.off = False
    engine.sync.flush()
    events = engine.loop.run(store.list_events(SCOPE))
    assert "Degraded" in [e.event_type for e in events]
    engine.sync.close()
