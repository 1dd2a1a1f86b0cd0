"""What is known of all sessions: it grows, follows what is written, and asks for nothing while nobody looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ce_engine import Scope
from ce_engine.apps.web.index import Pace, SessionIndex
from ce_engine.apps.web.newest import Newest
from ce_engine.apps.web.pages.sessions import sheet_of
from ce_engine.apps.web.reading import Reader, Source
from ce_engine.apps.web.session_query import PAGE, SessionQuery
from ce_engine.errors import StoreUnavailableError
from ce_engine.ports.store import Store
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Role, TurnStatus
from ce_engine.schema.rows import (
    AppendMessages,
    CreateSession,
    DeleteSession,
    MessageRow,
    PutTurn,
    SessionInfo,
)
from ce_engine.stores import open_store
from ce_engine.testing import samples


QUICK = Pace(first=3, look_s=0.01, anew_s=0.02, idle_s=60)


class CountingStore:
    """A store that counts how often its sessions are listed; it may be away, or slow with all."""

    def __init__(self, store: Store) -> None:
        self.store, self.listed, self.away = store, 0, False
        self.asked = 0  # for the states of sessions
        self.fails = False
        self.may_list_all = asyncio.Event()
        self.may_list_all.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def list_sessions(self, **choice: Any) -> list[SessionInfo]:
        self.listed += 1
        if self.away:
            raise StoreUnavailableError("it is away")
        if choice.get("limit") is None:
            await self.may_list_all.wait()
        return await self.store.list_sessions(**choice)

    async def state(self, *args: Any, **choice: Any) -> Any:
        self.asked += 1
        if self.fails:
            raise OSError("the driver lost its connection")
        return await self.store.state(*args, **choice)


@pytest.fixture
async def store() -> AsyncIterator[CountingStore]:
    found = open_store("memory://")
    yield CountingStore(found)
    await found.close()


async def write(store: CountingStore, name: str, question: str = "What?", **turn: Any) -> None:
    message = Message(role=Role.USER, content=question, message_id=f"m-{name}")
    row = MessageRow(message, key=b"", loose_key=b"", origin="task")
    turn = {"status": TurnStatus.COMMITTED, "report": {}, **turn}
    await store.apply(
        Scope(session_id=name),
        [
            CreateSession(b"salt", "key"),
            AppendMessages([row]),
            PutTurn(samples.turn(f"t-{name}", **turn)),
        ],
    )
    await asyncio.sleep(0.002)  # another millisecond


@asynccontextmanager
async def kept(
    store: CountingStore, pace: Pace = QUICK, **source: Any
) -> AsyncIterator[SessionIndex]:
    reader = Reader(store, Source(None, **source))
    index = SessionIndex(reader, pace)
    async with index.keep_fresh():
        yield index


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - it is looked at from outside
            await asyncio.sleep(0.005)


def names(index: SessionIndex) -> list[str]:
    return [line.info.session_id for line in index.order]


async def test_the_newest_are_there_first_then_all(store: CountingStore) -> None:
    for number in range(8):
        await write(store, f"s{number}")
    async with kept(store) as index:
        await index.look()
        assert names(index)[:3] == ["s7", "s6", "s5"]
        await until(lambda: index.complete)
        assert names(index) == [f"s{number}" for number in range(7, -1, -1)]


async def test_the_first_page_waits_for_no_full_listing(store: CountingStore) -> None:
    for number in range(8):
        await write(store, f"s{number}")
    store.may_list_all.clear()
    async with kept(store) as index:
        await until(lambda: store.listed == 2)  # the newest are there, all of them are asked for
        async with asyncio.timeout(5):
            assert [line.info.session_id for line in await index.look()] == ["s7", "s6", "s5"]
        store.may_list_all.set()
        await until(lambda: len(index.order) == 8)


async def test_what_is_written_and_deleted_later_is_noticed(store: CountingStore) -> None:
    await write(store, "old", "How was it?")
    await write(store, "gone")
    async with kept(store) as index:
        await index.look()
        await until(lambda: not index.unread)
        await write(store, "new")
        await until(lambda: names(index) == ["new", "gone", "old"])
        await write(store, "old", "And now?", status=TurnStatus.FAILED)
        await until(lambda: names(index)[0] == "old")
        await until(lambda: index.order[0].facts and index.order[0].facts.failed == 1)
        await store.apply(Scope(session_id="gone"), [DeleteSession(samples.event("deleted"))])
        await until(lambda: names(index) == ["old", "new"])


async def test_after_a_rest_nobody_is_shown_what_was_deleted_meanwhile(
    store: CountingStore,
) -> None:
    for name in ("stays", "gone"):
        await write(store, name)
    slow = Pace(first=3, look_s=0.01, anew_s=60, idle_s=0.05)
    async with kept(store, slow) as index:
        await index.look()
        await until(lambda: index.rests)
        await store.apply(Scope(session_id="gone"), [DeleteSession(samples.event("deleted"))])
        assert [line.info.session_id for line in await index.look()] == ["stays"]


async def test_what_calls_tell_is_read_for_those_who_wait_before_all_others(
    store: CountingStore,
) -> None:
    for number in range(6):
        await write(store, f"s{number}", f"Question {number}?")
    async with kept(store, Pace(look_s=60)) as index:
        lines = await index.look()
        await index.read_now(lines[-2:], within=30)
        assert [line.facts.title for line in lines[-2:] if line.facts] == [
            "Question 1?",
            "Question 0?",
        ]


async def test_it_rests_while_nobody_looks(store: CountingStore) -> None:
    await write(store, "one")
    async with kept(store, Pace(look_s=0.005, anew_s=0.005, idle_s=0.01)) as index:
        await index.look()
        await until(lambda: index.rests)
        before = store.listed
        await write(store, "two")
        assert (store.listed, names(index)) == (before, ["one"])
        await index.look()
        await until(lambda: len(index.order) == 2)


async def test_a_store_that_is_away_is_told_and_comes_back(store: CountingStore) -> None:
    store.away = True
    await write(store, "one")
    async with kept(store) as index:
        with pytest.raises(StoreUnavailableError, match="it is away"):
            await index.look()
        store.away = False
        await until(lambda: names(index) == ["one"])
        store.away = True
        await asyncio.sleep(0.05)
        assert [line.info.session_id for line in await index.look()] == ["one"]  # what is known


async def test_a_session_that_cannot_be_read_stops_nothing(store: CountingStore) -> None:
    await write(store, "good", "Is it?")
    await write(store, "bad", report={"prune_decisions": "what a newer release writes"})
    async with kept(store) as index:
        await index.look()
        await until(lambda: len(index.order) == 2 and not index.unread)
        await until(lambda: all(line.fresh for line in index.order))
        assert [line.facts.title for line in index.order if line.facts][1] == "Is it?"


async def test_only_what_may_be_known_is_listed(store: CountingStore) -> None:
    await write(store, "mine")
    await write(store, "theirs")
    asked: list[tuple[str, str, str]] = []

    def authorize(actor: str, action: str, scope: Scope) -> bool:
        asked.append((actor, action, scope.session_id))
        if scope.session_id == "broken":
            raise RuntimeError
        return scope.session_id == "mine"

    await write(store, "broken")
    async with kept(store, authorize=authorize) as index:
        await index.look()
        await until(lambda: index.complete)
        assert names(index) == ["mine"]
        assert {action for _, action, _ in asked} <= {"list", "read"}
        assert {name for _, action, name in asked if action == "read"} <= {"mine"}
        assert all(actor for actor, *_ in asked)
        reader = Reader(store, Source(None, authorize=authorize))
        assert [new.info.session_id for new in await Newest(reader, index).first(9, 9)] == ["mine"]


async def test_turns_come_as_they_are_opened_and_end(store: CountingStore) -> None:
    await write(store, "talk", opened_at="2026-01-01T00:00:00.000Z", status=TurnStatus.COMMITTED)
    async with kept(store) as index:
        newest = Newest(Reader(store, Source(None)), index)
        [first] = await newest.first(9, 9)
        assert (first.turn, first.row.turn_id) == (1, "t-talk")
        coming = newest.coming("2026-06-01", index.generation)

        async def next_ones() -> Sequence[Any]:
            async with asyncio.timeout(30):
                while True:
                    if found := await anext(coming):
                        return found

        late = {"opened_at": "2026-07-01T00:00:00.000Z", "closed_at": ""}
        turn = samples.turn("t2", status=TurnStatus.OPEN, report={}, **late)
        await store.apply(Scope(session_id="talk"), [PutTurn(turn)])
        [new] = await next_ones()
        assert (new.turn, new.row.turn_id, new.row.status) == (2, "t2", TurnStatus.OPEN)
        turn.status, turn.closed_at = TurnStatus.COMMITTED, "2026-07-01T00:00:01.000Z"
        await store.apply(Scope(session_id="talk"), [PutTurn(turn)])
        [same] = await next_ones()
        assert (same.turn, same.row.status) == (2, TurnStatus.COMMITTED)


async def test_a_page_after_many_deletions_asks_for_few_sessions(store: CountingStore) -> None:
    for number in range(3 * PAGE):
        await write(store, f"s{number}")
    slow = Pace(first=1000, look_s=60, anew_s=600)
    async with kept(store, slow) as index:
        await index.look()
        await until(lambda: index.complete)
        store.asked = 0
        for number in range(10, 3 * PAGE):
            await store.apply(
                Scope(session_id=f"s{number}"), [DeleteSession(samples.event("deleted"))]
            )
        sheet, _ = await sheet_of(index, SessionQuery.of([]))
        assert [line.info.session_id for line in sheet.lines] == [f"s{n}" for n in range(9, -1, -1)]
        assert store.asked <= PAGE + 20


async def test_a_driver_that_fails_takes_no_session_off_the_page(store: CountingStore) -> None:
    await write(store, "one")
    async with kept(store, Pace(look_s=60)) as index:
        await index.look()
        await until(lambda: index.complete and not index.unread)
        store.fails = True
        sheet, _ = await sheet_of(index, SessionQuery.of([]))
        assert [line.info.session_id for line in sheet.lines] == ["one"]
