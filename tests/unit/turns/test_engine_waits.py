"""How long a call waits for the store: one deadline in all, and what works of it is still used (decision 10)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from ce_engine import (
    MemoryStore,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.schema.document import Task
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import SessionState, Write
from ce_engine.schema.settings import Versions
from ce_engine.testing.faults import SwitchStore
from ce_engine.testing.host import HostApp, assistant, system, user


SCOPE = Scope(session_id="s")
OPEN_LONG = RuntimeConfig(store=StoreConfig(deadline_s=0.5, breaker_s=60))


class Slow(SwitchStore):
    """Answers everything, after `seconds`."""

    seconds = 0.0

    async def _gate(self) -> None:
        await super()._gate()
        await asyncio.sleep(self.seconds)


class HalfStore(MemoryStore):
    """Its reads or its writes hang, the others work."""

    def __init__(self) -> None:
        super().__init__()
        self.reads_hang = self.writes_hang = False
        self.read = self.wrote = 0

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        self.wrote += 1
        while self.writes_hang:  # noqa: ASYNC110 - set from another thread
            await asyncio.sleep(0.005)
        return await super().apply(scope, writes, expected_version=expected_version)

    async def version(self, scope: Scope) -> Versions:
        await self._reading()
        return await super().version(scope)

    async def state(
        self, scope: Scope, *, after_seq: int = 0, after_evidence: int = 0
    ) -> SessionState | None:
        await self._reading()
        return await super().state(scope, after_seq=after_seq, after_evidence=after_evidence)

    async def list_tasks(self, scope: Scope) -> list[Task]:
        await self._reading()
        return await super().list_tasks(scope)

    async def _reading(self) -> None:
        self.read += 1
        while self.reads_hang:  # noqa: ASYNC110 - set from another thread
            await asyncio.sleep(0.005)


@pytest.mark.req("D-09")
def test_the_waits_of_a_preparation_have_one_deadline_together() -> None:
    store = Slow()
    slow = RuntimeConfig(store=StoreConfig(deadline_s=0.3, breaker_s=60))
    engine = create_context_engine(store, config=slow)
    store.seconds = 0.2
    prepared = HostApp(engine, SCOPE, [system("You help.")]).prepare(user("one?"))
    assert prepared.report.degradations == ["CONTEXT_STORE_UNAVAILABLE"]
    assert store.asked <= 3  # two reads, of which the second has a third of its time; and the write
    engine.loop.close()


def test_a_session_that_begins_is_not_asked_for_what_it_cannot_have() -> None:
    store = HalfStore()
    engine = create_context_engine(store, config=OPEN_LONG)
    HostApp(engine, SCOPE).prepare(user("one?"))
    assert (
        store.read == 3
    )  # whether it is there, what it is, and the version of its owner's settings
    engine.sync.close()


@pytest.mark.req("D-09")
def test_where_reads_hang_a_write_that_lands_does_not_vouch_for_them() -> None:
    store = HalfStore()
    engine = create_context_engine(store, config=OPEN_LONG)
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1")
    store.reads_hang = True
    app.ask("two?", "2")
    engine.sync.flush()
    read, wrote = store.read, store.wrote
    for n in range(20):
        app.ask(f"{n}?", str(n))
        assert engine.sync.flush(5)
    assert (store.read, store.wrote) == (read, wrote + 40)
    store.reads_hang = False
    engine.loop.close()


@pytest.mark.req("D-09")
def test_where_writes_hang_reads_go_on() -> None:
    store = HalfStore()
    engine = create_context_engine(store, config=OPEN_LONG)
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1")
    store.writes_hang = True
    app.ask("two?", "2")
    read = store.read
    for n in range(5):
        assert app.ask(f"{n}?", str(n)).report.degradations == []
    assert store.read == read + 5
    store.writes_hang = False
    assert engine.sync.flush(5)
    engine.sync.close()


@pytest.mark.req("D-09")
def test_by_hand_a_group_that_hangs_is_waited_for_once() -> None:
    store = HalfStore()
    engine = create_context_engine(store, config=OPEN_LONG)
    app = HostApp(engine, SCOPE)
    prepared = app.prepare(user("one?"))
    store.writes_hang = True
    app.commit(prepared, assistant("1"))
    group = engine._journal.submit(SCOPE, [])
    assert group.heard.done()  # so that nobody waits for what hangs in front of it, either
    assert all(other.heard.done() for other in engine._journal._groups)
    store.writes_hang = False
    engine.loop.close()


class MeetingStore(HalfStore):
    """Once it `meets`, it takes a record of `left` only when it was given one of `right`."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: set[str] = set()
        self.meets = False

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        self.inside.add(scope.session_id)
        is_left = self.meets and scope.session_id == "left"
        while is_left and "right" not in self.inside:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)
        return await super().apply(scope, writes, expected_version=expected_version)


@pytest.mark.req("D-13")
def test_a_session_does_not_wait_for_the_answer_to_another_s_record() -> None:
    store = MeetingStore()
    store.meets = True
    engine = create_context_engine(store)
    for session in (
        "first",
        "left",
        "right",
    ):  # what comes while the first is written goes together
        engine._journal.submit(Scope(session_id=session), [])
    assert engine.sync.flush(20)
    assert store.inside == {"first", "left", "right"}
    engine.sync.close()


@pytest.mark.req("D-09", "D-13")
def test_a_store_that_takes_other_sessions_records_meanwhile_is_not_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MeetingStore()
    seconds = 1.0
    engine = create_context_engine(
        store, config=RuntimeConfig(store=StoreConfig(deadline_s=seconds))
    )
    app = HostApp(engine, Scope(session_id="left"))
    app.ask("one?", "1")
    store.meets = True
    prepared = app.prepare(user("two?"))
    with ThreadPoolExecutor(1) as pool:
        committed = pool.submit(app.commit, prepared, assistant("2"))
        for n in range(30):
            engine._journal.submit(Scope(session_id=f"other {n}"), [])
            time.sleep(seconds / 20)
        engine._journal.submit(Scope(session_id="right"), [])
        committed.result(20)
    assert "unavailable" not in caplog.text
    assert engine.sync.flush(20)
    engine.sync.close()


@pytest.mark.req("D-09")
def test_when_what_was_late_has_landed_the_store_is_read_again_at_once() -> None:
    store = SwitchStore()
    engine = create_context_engine(store, config=OPEN_LONG)
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1")
    store.hangs = True
    assert app.ask("two?", "2").report.degradations == ["CONTEXT_STORE_UNAVAILABLE"]
    store.hangs = False
    assert engine.sync.flush(5)
    assert app.ask("three?", "3").report.degradations == []
    engine.sync.close()


def test_a_phase_that_ends_elsewhere_raises_nothing() -> None:
    """As a host's coroutine does that is collected, or closed by somebody else."""
    engine = create_context_engine(SwitchStore(), config=OPEN_LONG)

    def work() -> Generator[None, None, None]:
        with engine._journal.phase():
            yield

    begun = work()
    copy_context().run(next, begun)
    begun.close()
    engine.sync.close()
