"""With `fail="closed"` nothing goes out that is not recorded, whatever keeps the store from taking it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from ce_engine import (
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    Message,
    Role,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.errors import (
    ContextEngineError,
    EncryptionKeyError,
    SessionNotFoundError,
    StoreError,
    StoreUnavailableError,
)
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import Write


SCOPE = Scope(session_id="s1", user_id="ann")
CLOSED = RuntimeConfig(fail="closed")
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))  # a busy machine is no fault here


def question(text: str = "next?") -> Message:
    return Message(role=Role.USER, content=text)


class ReadableStore(MemoryStore):
    """Everything can be read; while `error` is set nothing is taken."""

    error: Exception | None = None

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        if self.error is not None:
            raise self.error
        return await super().apply(scope, writes, expected_version=expected_version)


@pytest.mark.req("A-25")
@pytest.mark.parametrize(
    "error",
    [StoreUnavailableError("read-only"), OSError("full"), StoreError("refused"), ValueError("odd")],
    ids=lambda error: type(error).__name__,
)
def test_a_store_that_only_reads_lets_no_call_out_until_it_writes_again(error: Exception) -> None:
    store = ReadableStore()
    config = RuntimeConfig(store=StoreConfig(breaker_s=0.05))
    engine = create_context_engine(store, CharBasedEstimator(), config=config)
    closed = engine.config.model_copy(update={"fail": "closed"})
    assert engine.sync.prepare_turn(SCOPE, question("one?"), closed).report.messages_sent == 1
    engine.sync.commit_assistant_message(SCOPE, Message(role=Role.ASSISTANT, content="1"))
    store.error = error
    for _ in range(3):
        with pytest.raises(StoreUnavailableError, match="ce doctor"):
            engine.sync.prepare_turn(SCOPE, question("two?"), closed)
    assert engine.sync.prepare_turn(SCOPE, question("open?"), config).report.messages_sent
    store.error = None
    engine.sync.flush()
    assert engine.sync.prepare_turn(SCOPE, question("three?"), closed).report.messages_sent
    engine.sync.close()


class PickyStore(MemoryStore):
    """Takes `seconds` for each write, and refuses what has the word BAD; while `is_deleted`, somebody deleted the session."""

    seconds = 0.0
    is_deleted = False

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if self.is_deleted:
            raise SessionNotFoundError("deleted just now")
        if "BAD" in str(writes):
            raise ValueError("refused")
        return await super().apply(scope, writes, expected_version=expected_version)


async def outcomes(engine: ContextEngine, *texts: str) -> list[str]:
    """What became of calls side by side in one session: `out`, or the code of the error."""

    async def call(text: str) -> str:
        try:
            await engine.prepare_turn(SCOPE, question(text), CLOSED)
        except ContextEngineError as error:
            return error.code
        return "out"

    return [*await asyncio.gather(*map(call, texts))]


@pytest.mark.req("A-25")
async def test_of_calls_side_by_side_only_the_one_that_is_not_stored_is_refused() -> None:
    store = PickyStore()
    engine = create_context_engine(store, CharBasedEstimator(), config=PATIENT)
    away = StoreUnavailableError.code
    assert await outcomes(engine, "one", "BAD", "two") == ["out", away, "out"]
    store.seconds = 0.01
    assert await outcomes(engine, "three", "BAD", "four", "BAD again") == ["out", away, "out", away]
    await engine.close()


@pytest.mark.req("A-25")
async def test_a_call_of_a_session_that_is_deleted_meanwhile_does_not_go_out() -> None:
    store = PickyStore()
    engine = create_context_engine(store, CharBasedEstimator(), config=PATIENT)
    assert await outcomes(engine, "one") == ["out"]
    store.is_deleted = True
    assert await outcomes(engine, "two") == [SessionNotFoundError.code]
    await engine.close()


@pytest.mark.req("A-25")
async def test_a_store_that_lands_one_record_of_a_session_after_another_is_not_away() -> None:
    """Together they take longer than one may: each that lands says that the store is there."""
    store = PickyStore()
    engine = create_context_engine(
        store, CharBasedEstimator(), config=RuntimeConfig(store=StoreConfig(deadline_s=1))
    )
    assert await outcomes(engine, "one") == ["out"]
    store.seconds = 0.15
    assert await outcomes(engine, *(f"{n}?" for n in range(12))) == ["out"] * 12
    await engine.close()


def sealed(path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> ContextEngine:
    monkeypatch.setenv("CE_ENCRYPTION_KEY", key)
    return create_context_engine(f"sqlite:///{path}", CharBasedEstimator(), config=PATIENT)


@pytest.mark.req("A-25")
@pytest.mark.parametrize("key", ["wrong " * 8, ""], ids=["wrong", "none"])
def test_without_the_key_of_a_session_no_call_of_it_goes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    path = tmp_path / "ce.db"
    engine = sealed(path, monkeypatch, "right " * 8)
    engine.sync.prepare_turn(SCOPE, question(), CLOSED)
    engine.sync.close()
    engine = sealed(path, monkeypatch, key)
    for _ in range(2):
        with pytest.raises(EncryptionKeyError, match="ce doctor"):
            engine.sync.prepare_turn(SCOPE, question(), CLOSED)
    assert engine.sync.prepare_turn(SCOPE, question(), RuntimeConfig()).report.messages_sent
    engine.sync.close()


@pytest.mark.req("A-25")
def test_a_record_without_room_in_the_buffer_is_not_acknowledged() -> None:
    store = ReadableStore()
    config = RuntimeConfig(store=StoreConfig(breaker_s=60, buffer_bytes=4096))
    engine = create_context_engine(store, CharBasedEstimator(), config=config)
    engine.sync.prepare_turn(SCOPE, question())
    engine.sync.flush()
    store.error = StoreUnavailableError("read-only")
    for n in range(8):  # another session's records fill it
        engine.sync.prepare_turn(Scope(session_id="other"), question(f"{n} " * 400))
    result = engine.sync.commit_assistant_message(SCOPE, Message(role=Role.ASSISTANT, content="1"))
    assert not result.success
    assert result.error == StoreUnavailableError.code
    engine.sync.close()
