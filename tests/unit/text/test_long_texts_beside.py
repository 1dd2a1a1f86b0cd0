"""Whatever field a long text is handed in by, the loop of all sessions does not work on it (A-15, A-19)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import pytest

from ce_engine import (
    Author,
    AuthorKind,
    BlockType,
    ContextBlock,
    EvidenceLinks,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    ModelUsage,
    Priority,
    Retrieval,
    RetrievedDoc,
    Scope,
    SourceKind,
    Task,
    ToolCall,
    ToolRun,
    create_context_engine,
)
from ce_engine.ports.redaction import RedactResult, SessionRedactor
from ce_engine.schema.document import ToolProvider
from ce_engine.schema.enums import ProviderKind
from ce_engine.schema.rows import Placeholder
from ce_engine.testing.host import HostApp, tool_calls, tool_result, user
from ce_engine.text.redaction.pieces import LONG_TEXT, is_long, text_length
from ce_engine.text.redaction.redact import PatternRedactor


SCOPE = Scope(session_id="s")
LONG = "从 x 到 y，什么也没有。 nothing of anybody's is here. " * 2000
NOTE = {"note": LONG}
PAGES = EvidenceSource(kind=SourceKind.RAG, name="pages")
BUILTIN = ToolProvider(kind=ProviderKind.BUILTIN, name="here", uri="")


class Watched:
    """A session's redactor that keeps on which thread it worked on what is long."""

    def __init__(self, threads: list[str], inner: SessionRedactor) -> None:
        self._threads, self._inner = threads, inner

    def text(self, text: str) -> RedactResult:
        self._note(text)
        return self._inner.text(text)

    def data(self, value: Any) -> Any:
        self._note(value)
        return self._inner.data(value)

    def _note(self, value: Any) -> None:
        if text_length(value, LONG_TEXT) > LONG_TEXT:
            self._threads.append(threading.current_thread().name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Watching:
    """The built-in redactor, watched."""

    version, own_rules = "watching/1", False

    def __init__(self) -> None:
        self.threads: list[str] = []

    def bind(self, key: bytes, known: list[Placeholder], locale: str) -> Any:
        return Watched(self.threads, PatternRedactor().bind(key, known, locale))


GIVEN: dict[type, dict[str, Any]] = {
    ToolRun: {"name": "t", "args": {}, "result": "r"},
    Retrieval: {"name": "r", "query": "q", "documents": []},
    ToolCall: {"tool_call_id": "c", "tool": "t", "provider": BUILTIN},
    ModelUsage: {"model_usage_id": "u", "provider": "p", "model": "m"},
    ContextBlock: {"block_id": "b", "block_type": BlockType.MEMORY, "priority": Priority.LOW},
    Task: {"task_id": "t", "name": "n"},
}


DOCUMENTS = {
    "text": [RetrievedDoc(LONG)],
    "uri": deque([RetrievedDoc("d", uri=LONG)]),
    "id": [RetrievedDoc("d", id=LONG)],
    "metadata": [RetrievedDoc("d", metadata={"tags": [LONG]})],
}
LINKS = EvidenceLinks(tool_call_id=LONG)
RUN = "result args name error run_id host_call_id provider_uri provider_name started_at"
HIT = "query name run_id provider_uri provider_name started_at"
KIND = EvidenceType.RAG_DOC


def fields(names: str) -> list[tuple[str, Any]]:
    return [(name, {name: LONG}) for name in names.split()]


def doors() -> Iterator[tuple[str, methodcaller]]:
    def each(method: str, kind: type, given: list[tuple[str, Any]]) -> Iterator[Any]:
        for name, new in given:
            made = kind(**{**GIVEN[kind], **new})
            whole = [made] if kind in (ContextBlock, Task) else made
            yield f"{kind.__name__} {name}", methodcaller(method, SCOPE, whole)

    documents = [(name, {"documents": found}) for name, found in DOCUMENTS.items()]
    yield from each("record_tool_run", ToolRun, fields(RUN))
    yield from each("record_retrieval", Retrieval, [*fields(HIT), *documents])
    args, params, needs = {"args_digest": NOTE}, {"params": NOTE}, {"depends_on": [LONG]}
    calls = [*fields("tool_call_id tool error"), ("args", args)]
    yield from each("record_tool_call", ToolCall, calls)
    used = [*fields("provider model error"), ("params", params)]
    yield from each("record_model_usage", ModelUsage, used)
    blocks = fields("block_id content created_at sensitivity")
    yield from each("put_context_blocks", ContextBlock, blocks)
    tasks = [*fields("task_id name error"), ("needs", needs)]
    yield from each("upsert_tasks", Task, tasks)
    for method in ("record_evidence", "ingest"):
        for name, new in fields("name uri"):
            source = EvidenceSource(kind=SourceKind.RAG, **new)
            yield f"{method} {name}", methodcaller(method, SCOPE, "x", source, KIND)
        for name, more in (("links", {"links": LINKS}), ("metadata", {"metadata": NOTE})):
            yield f"{method} {name}", methodcaller(method, SCOPE, "x", PAGES, KIND, **more)
    yield "record_event payload", methodcaller("record_event", SCOPE, "planner", NOTE)


DOORS = dict(doors())


@pytest.mark.req("A-15")
@pytest.mark.parametrize("name", DOORS)
def test_a_long_text_is_not_worked_on_on_the_loop(name: str) -> None:
    watching = Watching()
    engine = create_context_engine(MemoryStore(), redactor=watching)
    DOORS[name](engine.sync)
    engine.sync.close()
    assert watching.threads
    assert set(watching.threads) == {"ce-worker"}


def long_name(app: HostApp) -> None:
    app.commit(app.prepare(user("q?")), tool_calls(("c", LONG, {})))
    app.prepare(tool_result("c", "found"))


def long_id(app: HostApp) -> None:
    app.prepare(user("q?"), tool_calls((LONG, "t", {})), tool_result(LONG, "found"))


def long_author(app: HostApp) -> None:
    asked = user("q?")
    asked.message.author = Author(kind=AuthorKind.USER, id=LONG)
    app.prepare(asked)


@pytest.mark.parametrize("say", [long_name, long_id, long_author])
def test_nor_what_a_model_and_people_are_called(say: Callable[[HostApp], None]) -> None:
    watching = Watching()
    engine = create_context_engine(MemoryStore(), redactor=watching)
    say(HostApp(engine, SCOPE))
    engine.sync.close()
    assert set(watching.threads) == {"ce-worker"}


def test_data_that_holds_itself_has_an_end() -> None:
    @dataclass
    class Node:
        text: str
        next: Any = None

    node = Node("a")
    node.next = [node, Node]
    assert is_long([{"of": node}])


def test_what_is_short_stays_on_the_loop() -> None:
    seen: set[str] = set()

    class All(Watched):
        def text(self, text: str) -> RedactResult:
            seen.add(threading.current_thread().name)
            return super().text(text)

    class WatchingAll(Watching):
        def bind(self, key: bytes, known: list[Placeholder], locale: str) -> Any:
            return All(self.threads, PatternRedactor().bind(key, known, locale))

    engine = create_context_engine(MemoryStore(), redactor=WatchingAll())
    engine.sync.record_tool_run(SCOPE, ToolRun("t", {"a": "b"}, "r", error="no"))
    engine.sync.record_retrieval(SCOPE, Retrieval("r", "q", [RetrievedDoc("d")]))
    engine.sync.close()
    assert seen
    assert "ce-worker" not in seen
