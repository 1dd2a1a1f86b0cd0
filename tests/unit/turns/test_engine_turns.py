"""Answers and facts must reach the turn that they belong to, once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ce_engine import (
    Answer,
    ContextEngine,
    MemoryStore,
    ModelCall,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    Scope,
    StoreConfig,
    ToolRun,
    create_context_engine,
)
from ce_engine.schema.ids import UuidV4Generator
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import Write
from ce_engine.schema.settings import Versions
from ce_engine.testing.faults import SwitchStore
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user


SCOPE = Scope(session_id="s")
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))


def texts(engine: ContextEngine, scope: Scope = SCOPE) -> list[str]:
    engine.sync.flush()
    found = engine.loop.run(engine.store.get_session(scope))
    return [m.content for m in found.session.messages] if found else []


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), config=PATIENT)
    yield made
    made.sync.close()


class Breaks:
    """The default ids until `broken`."""

    def __init__(self) -> None:
        self.inner = UuidV4Generator()
        self.broken = False

    def generate(self) -> str:
        if self.broken:
            raise RuntimeError("ids")
        return self.inner.generate()


def test_a_failed_preparation_does_not_lose_the_answer_of_another_open_turn() -> None:
    ids = Breaks()
    engine = create_context_engine(MemoryStore(), config=PATIENT, id_generator=ids)
    app = HostApp(engine, SCOPE)
    first = app.prepare(user("one?"))
    ids.broken = True
    with pytest.raises(RuntimeError):
        HostApp(engine, SCOPE).prepare(user("two?"))
    ids.broken = False
    app.commit(first, assistant("1"))
    assert texts(engine) == ["one?", "1"]
    engine.sync.close()


def test_an_edit_of_the_session_by_another_process_does_not_lose_the_answer(
    engine: ContextEngine,
) -> None:
    app = HostApp(engine, SCOPE)
    app.ask("zero?", "0")
    first = app.prepare(user("one?"))
    engine.sync.flush()
    # any replacing write (a summary, a deletion) moves the epoch
    engine.loop.run(engine.store.patch_session(SCOPE, {"summary": None}))
    app.commit(first, assistant("1"))
    assert texts(engine) == ["zero?", "0", "one?", "1"]


def test_an_outage_that_ends_during_the_model_call_does_not_lose_the_answer() -> None:
    config = RuntimeConfig(store=StoreConfig(deadline_s=0.2, breaker_s=0.05))
    store = SwitchStore()
    earlier = create_context_engine(store, config=config)
    HostApp(earlier, SCOPE).ask("zero?", "0")
    earlier.sync.flush()
    store.refuses = True
    engine = create_context_engine(store, config=config)  # a restarted process
    app = HostApp(engine, SCOPE)
    prepared = app.prepare(user("one?"))
    store.refuses = False
    time.sleep(0.2)  # the model works; the store is back
    app.commit(prepared, assistant("1"))
    assert texts(engine) == ["zero?", "0", "one?", "1"]
    for made in (earlier, engine):
        made.sync.close()


class SlowFirst(MemoryStore):
    """One writer, as SQLite has; its first write takes longer than the deadline, and lands."""

    def __init__(self) -> None:
        super().__init__()
        self.writer = ThreadPoolExecutor(1)
        self.first = True

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        def job() -> PutResult:
            if self.first:
                self.first = False
                time.sleep(0.3)  # opens the file, makes the tables
            return asyncio.run(
                MemoryStore.apply(self, scope, writes, expected_version=expected_version)
            )

        return await asyncio.wrap_future(self.writer.submit(job))


def test_a_slow_first_write_of_a_new_session_does_not_double_its_messages() -> None:
    config = RuntimeConfig(store=StoreConfig(deadline_s=0.1, breaker_s=0.2))
    store = SlowFirst()
    engine = create_context_engine(store, config=config)
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1")
    time.sleep(0.6)
    app.ask("two?", "2")
    assert texts(engine) == ["one?", "1", "two?", "2"]
    engine.sync.close()
    store.writer.shutdown()


def test_an_ephemeral_session_is_not_stored_twice_after_a_failed_preparation() -> None:
    ids = Breaks()
    engine = create_context_engine(MemoryStore(), config=PATIENT, id_generator=ids)
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1", ephemeral=True)
    ids.broken = True
    with pytest.raises(RuntimeError):
        app.prepare(user("two?"), ephemeral=True)
    ids.broken = False
    prepared = app.prepare(ephemeral=True)
    app.commit(prepared, assistant("2"))
    assert texts(engine) == ["one?", "1", "two?", "2"]
    engine.sync.close()


class Slow(MemoryStore):
    """Writes late once it is `slow`."""

    slow = False

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        if self.slow:
            await asyncio.sleep(0.3)
        return await super().apply(scope, writes, expected_version=expected_version)


def test_reload_of_a_view_sees_what_was_accepted_but_not_written() -> None:
    """A view that is dropped while its records wait in the journal."""
    ids, store = Breaks(), Slow()
    engine = create_context_engine(store, config=PATIENT, id_generator=ids)
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1")
    store.slow = True
    prepared = app.prepare(user("two?"))  # its group waits
    ids.broken = True
    with pytest.raises(RuntimeError):
        HostApp(engine, SCOPE).prepare(user("other?"))
    ids.broken = False
    del prepared
    app.prepare()  # the host tries again
    assert texts(engine) == ["one?", "1", "two?"]
    engine.sync.close()


def test_a_late_end_of_a_failed_attempt_does_not_end_the_next_attempt(
    engine: ContextEngine,
) -> None:
    app = HostApp(engine, SCOPE)
    first = app.prepare(user("one?"))
    engine.sync.fail(first.turn, "Timeout")
    second = app.prepare(new_request=False)
    engine.sync.fail(first.turn, "GeneratorExit")  # the first attempt's stream is collected late
    app.commit(second, assistant("1"))
    assert texts(engine) == ["one?", "1"]


def test_a_late_answer_of_a_failed_attempt_is_not_the_next_attempts_answer(
    engine: ContextEngine,
) -> None:
    app = HostApp(engine, SCOPE)
    first = app.prepare(user("one?"))
    engine.sync.fail(first.turn, "Timeout")
    second = app.prepare(new_request=False)
    engine.sync.commit(first.turn, Answer(assistant("late").message))
    app.commit(second, assistant("1"))
    assert "1" in texts(engine)


def test_a_tool_run_belongs_to_the_call_of_its_own_request(engine: ContextEngine) -> None:
    one, two = HostApp(engine, SCOPE), HostApp(engine, SCOPE)
    a = one.prepare(user("Oslo?"), request_id="r1")
    b = two.prepare(user("Rome?"), request_id="r2")
    one.commit(a, tool_calls(("call_0", "weather", {"city": "Oslo"})))
    two.commit(b, tool_calls(("call_0", "weather", {"city": "Rome"})))
    engine.post_tool_run(
        SCOPE,
        ToolRun("weather", {"city": "Oslo"}, "4", run_id="x", host_call_id="call_0"),
        request_id="r1",
    )
    engine.sync.flush()
    doc = engine.loop.run(engine.store.get_session(SCOPE))
    assert doc is not None
    [call] = doc.session.tool_state.tool_calls
    asked = {m.message_id: m for m in doc.session.messages}[call.tool_call_id.rpartition(":")[0]]
    assert asked.tool_calls is not None
    assert asked.tool_calls[0].args == call.args_digest


def test_a_fact_that_fails_half_way_does_not_hide_what_comes_later(engine: ContextEngine) -> None:
    HostApp(engine, SCOPE).ask("one?", "1")
    good = RetrievedDoc("The mill is in Delft, near the old bridge.")
    bad = RetrievedDoc(None)  # type: ignore[arg-type] # a host's mistake
    engine.post_retrieval(SCOPE, Retrieval("docs", "q", [good, bad], "run-1"))
    engine.sync.flush()
    engine.post_retrieval(SCOPE, Retrieval("docs", "q", [good], "run-2"))
    engine.sync.flush()
    doc = engine.loop.run(engine.store.get_session(SCOPE))
    assert doc is not None
    assert good.text in [e.content for e in doc.evidences.values()]


def test_a_tool_result_without_ids_is_no_orphan(engine: ContextEngine) -> None:
    """Function calls of the old style have no ids at all."""
    app = HostApp(engine, SCOPE, [system("You help.")])
    nothing: Any = None
    asked = tool_calls((nothing, "weather", {"city": "Oslo"}))
    result = tool_result(nothing, "4 degrees")
    prepared = app.prepare(user("weather?"), asked, result)
    assert prepared.unchanged


class Late(MemoryStore):
    """Answers late."""

    async def version(self, scope: Scope) -> Versions:
        await asyncio.sleep(0.05)
        return await super().version(scope)


def test_a_cancelled_commit_still_records_the_answer() -> None:
    """The direct API: the host's task is cancelled while the answer is being recorded."""
    engine = create_context_engine(Late(), config=PATIENT)

    async def host() -> None:
        prepared = await engine.prepare(
            ModelCall(scope=SCOPE, messages=[user("one?")], request_id="r")
        )
        task = asyncio.create_task(engine.commit(prepared.turn, Answer(assistant("1").message)))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.2)

    asyncio.run(host())
    assert texts(engine) == ["one?", "1"]
    engine.sync.close()
