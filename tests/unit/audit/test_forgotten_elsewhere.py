"""What another process deleted goes from this one's memory with the session's next call here (A-30)."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    ContextEngineError,
    EvidenceSource,
    EvidenceType,
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    Store,
    StoreConfig,
    SummaryConfig,
    create_context_engine,
    open_store,
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


CODE = "The zebra code of the north warehouse is blue heron seven"
RAG = EvidenceSource(kind=SourceKind.RAG, name="handbook")
QUESTION = "What is the zebra code of the north warehouse?"


def recorded(engine: ContextEngine) -> str:
    """The id of evidence that says the code."""
    return engine.sync.record_evidence(ANN, CODE, RAG, EvidenceType.RAG_DOC).evidence_id


def has(folder: Path, text: str) -> bool:
    """Whether any file has it."""
    return any(text.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


class Meanwhile:
    """A store to which something happens right after it is asked for versions, once."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.happens: Callable[[], None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def has_happened(self) -> bool:
        return self.happens is None

    async def version(self, scope: Scope) -> Any:
        versions = await self._inner.version(scope)
        happens, self.happens = self.happens, None
        if happens is not None:
            await asyncio.to_thread(happens)
        return versions


@pytest.mark.req("A-30")
@pytest.mark.parametrize("place", ["sqlite:///{}/ce.db", "file://{}/sessions"])
def test_what_is_deleted_between_two_questions_to_the_store_goes_out_no_more(
    tmp_path: Path, place: str
) -> None:
    url = place.format(tmp_path)
    store = Meanwhile(open_store(url))
    engine = create_context_engine(store, config=config(10_000_000))
    other = create_context_engine(url, config=config(0))
    evidence_id = recorded(engine)
    assert CODE in prompt(engine, QUESTION)
    assert engine.sync.flush()

    def delete() -> None:
        other.sync.delete_evidence(ANN, evidence_id)

    store.happens = delete
    first = other.sync.prepare_turn(ANN, [Message(role=Role.USER, content="I ask, too.")])
    other.sync.fail_turn(ANN, "not sent", turn_id=first.report.turn_id)  # another version
    assert other.sync.flush()
    prompts = [prompt(engine, QUESTION) for _ in range(3)]
    assert store.has_happened
    assert not [text for text in prompts if CODE in text]
    engine.sync.close()
    other.sync.close()
    assert not has(tmp_path, CODE)


class Slow:
    """A model that sums up when it is told to, and knows what it was asked."""

    def __init__(self) -> None:
        self.texts = list[str]()
        self.goes_on = threading.Event()

    async def generate(self, request: LlmRequest) -> LlmResponse:
        self.texts.append("".join(message.content for message in request.messages))
        await asyncio.to_thread(self.goes_on.wait)
        return LlmResponse("They spoke of a building.")


@pytest.mark.req("A-30")
def test_a_summary_under_way_brings_nothing_back_that_is_deleted_meanwhile(tmp_path: Path) -> None:
    url, model = f"sqlite:///{tmp_path}/ce.db", Slow()
    summary = SummaryConfig(
        max_summary_tokens=60, trigger_message_count=6, preserve_recent_messages=2
    )
    budget = BudgetConfig(max_input_tokens=4000, reserved_reply_tokens=50)
    own = RuntimeConfig(summary=summary, budget=budget, store=StoreConfig(deadline_s=30))
    engine = create_context_engine(url, llm_adapter=model, config=own)
    evidence_id = recorded(engine)
    for number in range(6):
        assert CODE in prompt(engine, f"{QUESTION} I ask for the {number}th time.")
    while not model.texts:
        sleep(0.01)
    done = ce("delete", "--session", ANN.session_id, "--user", ANN.user_id, "--evidence", evidence_id, "--yes", "--store", url)  # fmt: skip
    assert done.exit_code == 0, done.stderr
    asked = len(model.texts)
    model.goes_on.set()
    assert engine.sync.flush(30)  # the summary is at its end before the next question
    for number in range(12):
        assert CODE not in prompt(engine, f"{QUESTION} Once more, {number}.")
    assert engine.sync.flush(30)
    engine.sync.close()
    assert not [text for text in model.texts[asked:] if CODE in text]
    assert not has(tmp_path, CODE)


@pytest.mark.req("A-30")
@pytest.mark.parametrize("place", ["sqlite:///{}/ce.db", "file://{}/sessions"])
@pytest.mark.parametrize("what", ["--evidence", "--session", "--user"])
def test_the_tool_that_reads_evidence_gives_nothing_that_another_process_deleted(
    tmp_path: Path, what: str, place: str
) -> None:
    """A model asks for it while its turn is open: no turn begins in between."""
    url = place.format(tmp_path)
    engine = create_context_engine(url, config=config(10_000_000))
    evidence_id = recorded(engine)
    asked = engine.sync.prepare_turn(ANN, [Message(role=Role.USER, content=QUESTION)])
    assert CODE in engine.sync.fetch_evidence(ANN, evidence_id)
    assert engine.sync.flush()
    options = {
        "--evidence": ["--session", "s", "--user", "ann", "--evidence", evidence_id],
        "--session": ["--session", "s", "--user", "ann"],
        "--user": ["--user", "ann"],
    }
    done = ce("delete", *options[what], "--yes", "--store", url)
    assert done.exit_code == 0, done.stderr
    for _ in range(2):
        assert CODE not in engine.sync.fetch_evidence(ANN, evidence_id)
    with suppress(ContextEngineError):  # of a deleted session it is not open any more
        answered(engine, asked.report.turn_id, "I cannot tell.")
    assert CODE not in prompt(engine, QUESTION)
    engine.sync.close()
    assert not has(tmp_path, CODE)
