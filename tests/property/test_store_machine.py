"""Any store = the memory store: random groups of writes, put to both, answer and read the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ce_engine.errors import ContextEngineError
from ce_engine.ports.store import Store
from ce_engine.schema.document import EvidenceLinks, Message, ModelUsage, SessionDocument, Task
from ce_engine.schema.enums import BlockType, EvidenceType, Priority, Role, TaskStatus, TurnStatus
from ce_engine.schema.events import ContentCheck, Event, EventType
from ce_engine.schema.report import BlockFilter, EvidenceFilter
from ce_engine.schema.rows import (
    AppendEvents,
    AppendMessages,
    AppendModelUsage,
    AppendToolCalls,
    CreateSession,
    CutMark,
    DeleteEvidence,
    DeleteSession,
    EvidenceRow,
    ForSession,
    LinkEvidence,
    Placeholder,
    PutBlocks,
    PutCut,
    PutEvidence,
    PutPlaceholders,
    PutSummary,
    PutTurn,
    SessionInfo,
    ToolCallRow,
    UpsertTasks,
    Write,
)
from ce_engine.schema.scope import Scope
from ce_engine.stores.documents.file import FileStore, log, shelf
from ce_engine.stores.documents.memory import MemoryStore
from ce_engine.stores.documents.redis import RedisStore, pages
from ce_engine.stores.documents.redis import shelf as redis_shelf
from ce_engine.stores.tables import SqlStore
from ce_engine.testing import samples
from tests.hosts import redis_host
from tests.postgres_server import IS_THERE, new_schema


Call = Callable[[Store, Scope], Awaitable[Any]]
Run = list[tuple[tuple[str, str], Call]]

EXAMPLES = 60
NAMES = st.sampled_from("12345")
TEXTS = st.text(max_size=5) | st.sampled_from(["\ud83d", "\x00", "\x02json:", "你好", "x" * 5000])
SCOPES = [("u", "s1"), ("u", "s2"), ("", "s1")]

messages = st.builds(
    lambda name, text, full: (
        samples.message_row(f"m{name}", text) if full else samples.bare_row(f"m{name}", text)
    ),
    NAMES,
    TEXTS,
    st.booleans(),
)


def evidence_row(name: str, text: str, of: str | None, kind: EvidenceType) -> EvidenceRow:
    row = samples.evidence_row(f"e{name}", text, message_id=of and f"m{of}")
    row.evidence.type = kind
    return row


evidence = st.builds(
    evidence_row,
    NAMES,
    TEXTS,
    st.none() | NAMES,
    st.sampled_from(EvidenceType),
)
calls = st.builds(
    lambda name, ended, at, ids, host: ToolCallRow(
        samples.tool_call(f"c{name}", called_at=at, result_evidence_ids=ids, tool=at or "t"),
        ended=ended,
        host_call_id=host,
    ),
    NAMES,
    st.booleans(),
    st.sampled_from(["", "2025", "2026"]),
    st.lists(NAMES, max_size=2),
    st.none() | NAMES,
)
links = st.builds(EvidenceLinks, model_usage_id=st.none() | NAMES, tool_call_id=st.none() | NAMES)
usages = st.builds(ModelUsage, model_usage_id=NAMES, provider=TEXTS, model=st.just("m"))
tasks = st.builds(Task, task_id=NAMES, name=TEXTS, status=st.sampled_from(TaskStatus))
blocks = st.builds(
    lambda name, text, kind, priority: samples.block(
        f"b{name}", content=text, block_type=kind, priority=priority
    ),
    NAMES,
    TEXTS,
    st.sampled_from(BlockType),
    st.sampled_from(Priority),
)
turns = st.builds(
    lambda name, status, report: samples.turn(f"t{name}", status=status, report=report),
    NAMES,
    st.sampled_from(TurnStatus),
    st.dictionaries(TEXTS, st.none() | st.integers() | TEXTS, max_size=2),
)
marks = st.builds(
    CutMark, NAMES, st.sampled_from(["drop", "shorten"]), NAMES, st.integers(0, 9), NAMES
)
summaries = st.builds(samples.summary, NAMES, TEXTS, st.integers(0, 3))


def event(kind: str, name: str, text: str, turn: str | None) -> Event:
    payload: dict[str, Any] = {"x": text, text: [1]}
    made = samples.event(name and f"v{name}", payload=payload, turn_id=turn, meta={"m": text})
    made.event_type = kind
    return made


names_of_events = st.just("") | NAMES
events = st.builds(
    event, st.just(EventType.MESSAGE_APPENDED), names_of_events, TEXTS, st.none() | NAMES
)
placeholders = st.builds(Placeholder, NAMES, st.binary(max_size=2), st.integers(1, 9))


def some(items: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(items, max_size=3)


writes: st.SearchStrategy[Write] = st.one_of(
    st.builds(CreateSession, st.just(b"salt"), st.sampled_from(["k", "l"]), st.booleans()),
    st.builds(ForSession, st.sampled_from(["k", "l"]), st.integers(0, 2)),
    st.builds(DeleteEvidence, NAMES.map("e{}".format), events),
    st.builds(AppendMessages, some(messages)),
    st.builds(PutEvidence, evidence),
    st.builds(LinkEvidence, NAMES.map("e{}".format), links),
    st.builds(PutBlocks, some(blocks)),
    st.builds(AppendToolCalls, some(calls)),
    st.builds(AppendModelUsage, some(usages), st.none() | NAMES),
    st.builds(UpsertTasks, some(tasks)),
    st.builds(PutTurn, turns),
    st.builds(PutCut, marks, st.none() | NAMES),
    st.builds(PutSummary, summaries, st.integers(0, 2), some(NAMES)),
    st.builds(AppendEvents, some(events)),
    st.builds(PutPlaceholders, some(placeholders)),
)
versions = st.none() | st.integers(0, 6)


def group(items: list[Write], version: int | None) -> Call:
    return lambda store, scope: store.apply(scope, items, expected_version=version)


def broken(items: list[Write]) -> Call:
    unknown: Any = object()
    return lambda store, scope: store.apply(scope, [*items, unknown])


def patch(fields: dict[str, Any], version: int | None) -> Call:
    return lambda store, scope: store.patch_session(scope, fields, version)


def put(names: list[str], plain: bool, version: int | None) -> Call:
    """Put back the document that is there, without some messages and with others."""

    async def call(store: Store, scope: Scope) -> Any:
        document = await store.get_session(scope) or samples.document(scope.session_id)
        kept = [m for m in document.session.messages if m.message_id not in names]
        new = [Message(role=Role.USER, content=name, message_id=None) for name in names if plain]
        document.session.messages = [*kept, *new]
        document.evidences = {
            name: item for name, item in document.evidences.items() if name[1:] not in names
        }
        document.context_blocks = document.context_blocks[1:]
        return await store.put_session(scope, document, version)

    return call


deleted = st.builds(event, st.just(EventType.DELETED), names_of_events, TEXTS, st.none() | NAMES)
deletions = st.builds(lambda event: [DeleteSession(event)], deleted)

steps = st.one_of(
    st.builds(group, deletions, versions),
    st.builds(group, st.lists(writes, max_size=5), versions),
    st.builds(group, st.lists(writes, min_size=1, max_size=5), st.none()),
    st.builds(broken, st.lists(writes, max_size=3)),
    st.builds(patch, st.fixed_dictionaries({"model_usage": some(usages)}), versions),
    st.builds(patch, st.just({"summary": samples.document().session.summary}), st.none()),
    st.builds(put, st.lists(NAMES.map("m{}".format), max_size=3), st.booleans(), versions),
)

U_S1, U_S2, _ = SCOPES
NO_TEXT: Run = [(U_S1, group([PutTurn(samples.turn("t1", report={"\ud83d": None}))], None))]
"""A report with a name that is no Unicode text."""
SAME_TIME: Run = [
    (U_S1, group([AppendMessages([])], None)),
    (U_S2, put([], False, None)),
    (U_S1, group([DeleteSession(event(EventType.DELETED, "", "", None))], None)),
    (U_S1, put([], False, None)),
]
"""Two sessions that change at the same time; the one that was made first lives its second life."""


class Ticking:
    """A clock and ids that go on by one with every question."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._numbers = count(1)

    def now_iso(self) -> str:
        return f"2030-01-01T00:00:{next(self._numbers):06}Z"

    def generate(self) -> str:
        return f"id{next(self._numbers)}"


async def outcome(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except (ContextEngineError, KeyError, TypeError) as error:
        return type(error)


async def everything(store: Store, scope: Scope) -> list[Any]:
    """All that the store tells of a session, but for the salt, which is random."""
    state = await store.state(scope)
    if state is not None:
        state.head.salt, state.head.key_id = b"", state.head.key_id[:1]
    newer = await store.state(scope, after_seq=2, after_evidence=1)
    document: SessionDocument | None = await store.get_session(scope)
    return [
        await store.version(scope),
        state and replace(state, head=replace(state.head, key_id="")),
        newer and [newer.rows, newer.evidence],
        document,
        await store.list_turns(scope),
        await store.list_events(scope),
        await store.evidence_rows(scope, ["e3", "e1", "e2"]),
        await store.list_evidences(scope, EvidenceFilter(types=[EvidenceType.RAG_DOC], limit=2)),
        await store.list_context_blocks(scope, BlockFilter(min_priority=Priority.MEDIUM)),
        await store.list_tasks(scope),
    ]


async def lists(store: Store, account: str) -> list[list[SessionInfo]]:
    return [
        await store.list_sessions(account_id=account, user_id=who, ephemeral=not who)
        for who in ("u", "", None)
    ]


async def unverified(store: Store, scope: Scope) -> tuple[str, ...]:
    """What the store finds forged, or cannot tell: whatever was done here was done rightly."""
    content = await store.check_content(scope) or ContentCheck()
    return content.wrong + content.unverified


@pytest.fixture
def server() -> Iterator[str | None]:
    """The URL of a schema of a PostgreSQL, where there is one."""
    with new_schema() if IS_THERE else nullcontext() as url:
        yield url


def open_all(folder: Path, server: str | None, clocks: list[Ticking]) -> list[Store]:
    memory, sql, file, redis, more = [{"clock": clock, "ids": clock} for clock in clocks]
    return [
        MemoryStore(**memory),
        SqlStore(f"sqlite:///{folder / 'ce.db'}", lock_timeout_s=30, **sql),
        FileStore((folder / "sessions").as_uri(), lock_timeout_s=30, **file),
        RedisStore(redis_host.fresh_url(), timeout_s=30, **redis),
        *([SqlStore(server, lock_timeout_s=30, **more)] if server else []),
    ]


def check_keys(stores: list[Store]) -> None:
    """All have the same keys; and they are closed."""
    keys = [asyncio.run(store.list_keys()) for store in stores]
    assert keys == [sorted(keys[0])] * len(stores)
    for store in stores:
        asyncio.run(store.close())


@pytest.mark.req("A-07")
def test_any_store_is_the_memory_store(
    tmp_path: Path, server: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CE_SECRET", "the same for all stores")
    for module, name in ((log, "JOURNAL_BYTES"), (pages, "LINES_BYTES")):
        monkeypatch.setattr(module, name, 3000)  # so that snapshots are replaced
    for module in (shelf, redis_shelf):
        monkeypatch.setattr(module, "_KEPT_SESSIONS", 2)  # and files are read
    accounts, clocks = count(), [Ticking() for _ in range(5)]
    stores = open_all(tmp_path, server, clocks)

    @example(NO_TEXT)
    @example(SAME_TIME)
    @settings(max_examples=EXAMPLES)
    @given(st.lists(st.tuples(st.sampled_from(SCOPES), steps), max_size=12))
    def compare(run: Run) -> None:
        account = f"a{next(accounts)}"  # the same stores for all examples: each has its account
        for clock in clocks:
            clock.begin()

        async def main() -> None:
            for (user, session), call in run:
                scope = Scope(session_id=session, user_id=user, account_id=account)
                expected, *found = [await outcome(call(store, scope)) for store in stores]
                assert found == [expected] * len(found)
            for user, session in SCOPES:
                scope = Scope(session_id=session, user_id=user, account_id=account)
                expected, *found = [await everything(store, scope) for store in stores]
                assert found == [expected] * len(found)
                assert [await unverified(store, scope) for store in stores] == [()] * len(stores)
            listed = [await lists(store, account) for store in stores]
            assert listed == [listed[0]] * len(stores)

        asyncio.run(main())

    compare()
    check_keys(stores)
