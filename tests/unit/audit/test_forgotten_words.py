"""After a deletion no object of the process has the words any more: caches of texts are emptied with it (A-30)."""

from __future__ import annotations

import _asyncio
import gc
import secrets
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    Message,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    ToolRun,
    create_context_engine,
)
from ce_engine.testing.host import HostApp


SCOPE = Scope(session_id="s", user_id="anna")


class Word:
    """A word that nobody else has, kept in halves: this very object is none of what is looked for.

    Attributes:
        case: the end of it, by which words are told apart.
    """

    halves = secrets.token_hex(6), secrets.token_hex(6)

    def __init__(self, case: str) -> None:
        self.case = case

    def said(self, text: str) -> str:
        return text.replace("WORD", "q".join(self.halves) + self.case)


def holders() -> Iterator[str]:
    """What in the process has a word, the youngest first: the kinds of the objects around its texts.

    `_asyncio` itself would give its spare objects out a second time (gh-122695, in Python up to 3.12.5).
    """
    stem = "q".join(Word.halves)
    plain, frame = stem.encode(), type(sys._getframe())
    for each in gc.get_objects():
        if isinstance(each, frame) or each is _asyncio:
            continue
        for inner in gc.get_referents(each):
            if (isinstance(inner, str) and inner is not stem and stem in inner) or (
                isinstance(inner, bytes) and inner is not plain and plain in inner
            ):
                yield f"{type(each).__module__}.{type(each).__qualname__}: {inner[:60]!r}"


def talk(engine: ContextEngine, word: Word) -> None:
    """A session that passes every way by which words come in, go out again, and are looked for."""
    host = HostApp(engine, SCOPE)
    host.ask(word.said("My dog is called WORD and likes fish."), word.said("Noted: WORD."))
    run = ToolRun(
        name="find",
        args={"name": word.said("WORD")},
        result=word.said('{"dog": "WORD", "age": 3}'),
        run_id="r",
    )
    engine.sync.record_tool_run(SCOPE, run)
    page = RetrievedDoc(word.said("WORD is a rare name."), "doc://names")
    engine.sync.record_retrieval(SCOPE, Retrieval("find", word.said("WORD"), [page]))
    for n in range(10):
        host.ask(f"Tell me of stone {n}.", f"Stone {n} is grey and old. " * 8)
    host.ask(word.said("What does WORD like?"), word.said("WORD likes fish."))
    engine.sync.export_user_data("", "anna")
    engine.sync.trace(SCOPE, engine.sync.list_evidences(SCOPE)[0].evidence_id)
    assert engine.sync.flush()


@pytest.fixture
def _whole_heap() -> Iterator[None]:
    """See what was made before the tests began, too: `conftest` freezes it."""
    gc.unfreeze()
    yield
    gc.freeze()


Delete = Callable[[ContextEngine], Any]
WAYS: dict[str, Delete] = {
    "delete_session": lambda engine: engine.sync.delete_session(SCOPE),
    "delete_user_data": lambda engine: engine.sync.delete_user_data("", "anna"),
}
RESULTS: list[Any] = ["whole", "compact"]
STORES = ["memory://", "sqlite:///{}/{}.db", "file://{}/{}"]


@pytest.mark.req("A-30")
@pytest.mark.usefixtures("_whole_heap")
@pytest.mark.parametrize("way", WAYS)
def test_nothing_in_the_process_has_the_words(way: str, tmp_path: Path) -> None:
    """Whatever the store and the tool results; to look at the whole heap takes its time, and is done once for all."""
    engines = []
    for n, (store, results) in enumerate(product(STORES, RESULTS)):
        config = RuntimeConfig(
            store=StoreConfig(deadline_s=10),
            budget=BudgetConfig(max_input_tokens=400, reserved_reply_tokens=0),
            tool_results=results,
        )
        engines.append(engine := create_context_engine(store.format(tmp_path, n), config=config))
        talk(engine, Word(f"case{n}"))
        assert next(holders(), ""), "nobody has it before: nothing can be seen"
        WAYS[way](engine)
    gc.collect()
    assert sorted(set(holders())) == []
    for engine in engines:
        engine.sync.close()


CODE = "The gate code of the north warehouse is blue heron seven"
HANDBOOK = EvidenceSource(kind=SourceKind.RAG, name="handbook")


@pytest.mark.req("A-30")
@pytest.mark.parametrize("ending", ["finalize", "fail"])
def test_what_was_streamed_of_deleted_evidence_is_not_stored_after_it(
    tmp_path: Path, ending: str
) -> None:
    """The app sends nothing again: the pieces are ours to forget."""
    engine = create_context_engine(f"file://{tmp_path}/sessions")
    row = engine.sync.record_evidence(SCOPE, CODE, HANDBOOK, EvidenceType.RAG_DOC)
    asked = engine.sync.prepare_turn(SCOPE, Message(role=Role.USER, content="The gate code?"))
    turn_id = asked.report.turn_id
    pieces = ["Certainly. ", CODE[:20], CODE[20:40], f"{CODE[40:]}. Any"]
    for index, piece in enumerate(pieces):
        engine.sync.commit_assistant_chunk(SCOPE, piece, index, turn_id=turn_id)
    engine.sync.delete_evidence(SCOPE, row.evidence_id)
    engine.sync.commit_assistant_chunk(SCOPE, "thing else?", len(pieces), turn_id=turn_id)
    if ending == "finalize":
        engine.sync.finalize_assistant_message(SCOPE, turn_id=turn_id)
    else:
        engine.sync.fail_turn(SCOPE, "cancelled", turn_id=turn_id)
    document = engine.sync.get_session(SCOPE)
    again = engine.sync.prepare_turn(SCOPE, Message(role=Role.USER, content="And now?"))
    assert engine.sync.flush()
    engine.sync.close()
    assert document is not None
    answer = document.session.messages[-1].content
    assert answer.startswith("Certainly. ")
    assert answer.endswith("Anything else?")
    assert "heron" not in answer
    assert "heron" not in "".join(str(part.content) for part in again.assembled_input.parts)
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"heron" in p.read_bytes()]
