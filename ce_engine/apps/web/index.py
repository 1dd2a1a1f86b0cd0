"""What is known of all sessions, so that a list of them is found at once.

A store lists sessions with their counts; what their calls tell (models, tags, cost, conflicts) is in each
one's turns. The page's process reads it once for every session, newest first, and again where something was
written since; with a bounded share of its time, and only while somebody looks.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from ce_engine.apps.present.session_facts import SessionFacts, facts_of
from ce_engine.apps.web.reading import Reader
from ce_engine.audit.compare.reading import calls_of
from ce_engine.audit.compare.records import CallRecord
from ce_engine.audit.operators import operators_scope
from ce_engine.errors import ContextEngineError, StoreUnavailableError
from ce_engine.schema.rows import SessionInfo
from ce_engine.schema.times import iso, parse_time


logger = logging.getLogger("ce_engine.web")

LOOK_SHARE = 0.05
"""The share of the time that looking for what is new may take."""
READ_SHARE = 0.4
"""The share of the time that reading what calls tell may take."""
ANEW = 400
"""After so many times what listing all of them took, it is done anew: deletions are not told of."""
OVERLAP = timedelta(seconds=2)
"""By how much the clocks of those who write may differ."""
_FIRST = datetime.min.replace(tzinfo=UTC) + OVERLAP
MOST_CALLS = 100_000
"""Calls that are kept for comparisons, those of the sessions that were read last."""
OPTIONS = 200
"""Values of a filter that are offered, those of the most sessions."""
OPTIONS_S = 2.0
ROUNDS = 3
"""How often a page is put together again of whose sessions some turn out to be deleted."""
FEW = 5
"""Sessions that are forgotten by themselves: after more deletions at once all are listed anew."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often what is done.

    Attributes:
        first: sessions that are there before the rest is read.
        look_s: seconds until it is looked again what is new, at least.
        anew_s: seconds until all are listed anew, at least.
        idle_s: seconds after somebody's last look until it rests.
    """

    first: int = 200
    look_s: float = 1.0
    anew_s: float = 60.0
    idle_s: float = 120.0


PACE = Pace()

Key = tuple[str, str]
"""A session's user and id."""


@dataclass(slots=True)
class Line:
    """A session in the list.

    Attributes:
        info: as the store lists it.
        facts: what its calls tell; `None` until they are read.
        fresh: whether `facts` are of what is stored now.
        words: what a search looks in.
    """

    info: SessionInfo
    facts: SessionFacts | None = None
    fresh: bool = False
    words: str = ""

    @property
    def key(self) -> Key:
        return self.info.user_id, self.info.session_id

    def renew_words(self) -> None:
        """Make what a search looks in."""
        facts = self.facts or SessionFacts()
        parts = [self.info.session_id, self.info.user_id, *self.info.frameworks, facts.title]
        self.words = "\n".join([*parts, *facts.models, *facts.tags]).casefold()


@dataclass(frozen=True, slots=True)
class Options:
    """The values that filters offer, those of the most sessions first."""

    frameworks: Sequence[str] = ()
    users: Sequence[str] = ()
    models: Sequence[str] = ()
    tags: Sequence[str] = ()


@dataclass(slots=True)
class Clockwork:
    """When what was done last, by a monotonic clock."""

    looked_by: float = 0.0  # somebody looked at a page
    listed: float = 0.0
    listing_s: float = 0.0
    options: float = 0.0


class SessionIndex:
    """The sessions of a reader, newest first in `order`."""

    def __init__(self, reader: Reader, pace: Pace = PACE) -> None:
        self.order: list[Line] = []
        self.complete = self.ended = False
        self.generation = 0
        self._reader, self._pace = reader, pace
        self._lines: dict[Key, Line] = {}
        self._unread: list[Key] = []  # the newest last
        self._clock = Clockwork()
        self._listed = asyncio.Event()
        self._somebody = asyncio.Event()
        self._news = asyncio.Event()
        self._changes: deque[tuple[int, SessionInfo]] = deque(maxlen=1000)
        self._calls: OrderedDict[Key, Sequence[CallRecord]] = OrderedDict()
        self._calls_kept = 0
        self._first_aid: asyncio.Task[None] | None = None
        self._options = Options()
        self._trouble: ContextEngineError | None = None

    @property
    def unread(self) -> int:
        """Sessions whose calls are still to be read."""
        return len(self._unread)

    @property
    def rests(self) -> bool:
        """Whether it waits for somebody to look."""
        return not self._somebody.is_set()

    def end(self) -> None:
        """Tell those who wait for changes that there will be none."""
        self.ended = True
        self._news.set()

    @asynccontextmanager
    async def keep_fresh(self) -> AsyncIterator[None]:
        """Keep it for as long as the block runs."""
        task = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            tasks = [task, *([self._first_aid] if self._first_aid else [])]
            for started_task in tasks:
                started_task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self) -> list[Line]:
        """The sessions as they are known now, listed anew where nobody looked for long; there is somebody who looks.

        Raises:
            StoreUnavailableError: they could not be listed.
        """
        if self.rests and self.complete:
            self._listed.clear()
        self._wake()
        await self._listed.wait()
        if self._trouble is not None and not self.order:
            raise self._trouble
        return self.order

    async def forget_deleted(self, lines: Sequence[Line]) -> bool:
        """Forget those of these sessions, which are going to be shown, that were deleted meanwhile; false if none was.

        Where many were, more will have been than these: all are listed anew.
        """
        answers = await asyncio.gather(*(self._reader.is_there(line.info) for line in lines))
        gone = [line.key for line, is_there in zip(lines, answers, strict=True) if not is_there]
        for key in gone:
            self._lines.pop(key, None)
            self._calls_kept -= len(self._calls.pop(key, ()))
        if gone:
            self.order = self.known(self.order)
        if len(gone) > FEW:
            await self._tried(self._list(None))
        return bool(gone)

    def known(self, lines: Iterable[Line]) -> list[Line]:
        """Those of these sessions that were not forgotten."""
        return [line for line in lines if line.key in self._lines]

    async def changes(self, after: int, within: float) -> tuple[int, list[SessionInfo]]:
        """What was written to since a generation, waited for, and the generation now."""
        self._wake()
        if self.generation == after:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), within)
        changed = {(i.user_id, i.session_id): i for at, i in self._changes if at > after}
        return self.generation, list(changed.values())

    async def read_now(self, lines: Sequence[Line], within: float, *, calls: bool = False) -> None:
        """Read what the calls of these sessions tell, before all others; go on after so many seconds.

        With `calls`, those are read again that are not kept any more.
        """
        stale_lines = [
            line for line in lines if not line.fresh or (calls and line.key not in self._calls)
        ]
        if self._first_aid is not None:
            self._first_aid.cancel()
        if stale_lines:
            self._first_aid = asyncio.create_task(self._read_all(stale_lines))
            await asyncio.wait([self._first_aid], timeout=within)

    async def _read_all(self, lines: Iterable[Line]) -> None:
        for line in lines:
            with suppress(ContextEngineError):  # the work that goes on all the time tells of it
                await self._read(line)

    def calls(self, lines: Iterable[Line]) -> tuple[list[CallRecord], int]:
        """The calls of these sessions that were read, and of how many sessions they were not."""
        records: list[CallRecord] = []
        missing = 0
        for line in lines:
            calls = self._calls.get(line.key)
            missing += calls is None
            records += calls or ()
        return records, missing

    def options(self) -> Options:
        """What filters may choose."""
        now = time.monotonic()
        if now > self._clock.options + OPTIONS_S:
            self._clock.options = now
            self._options = _options(self.order)
        return self._options

    def _wake(self) -> None:
        self._clock.looked_by = time.monotonic()
        self._somebody.set()

    async def _keep(self) -> None:
        await self._tried(self._list(self._pace.first))
        await self._tried(self._list(None))
        while True:
            if time.monotonic() > self._clock.looked_by + self._pace.idle_s:
                self._somebody.clear()
                await self._somebody.wait()
                await self._tried(self._list(None))
            began = time.monotonic()
            await self._tried(self._look_for_news())
            pause = max(self._pace.look_s, (time.monotonic() - began) / LOOK_SHARE)
            await self._tried(self._read_for(pause))

    async def _tried(self, work: Awaitable[None]) -> None:
        """Do it; what fails is told by the next page, and tried again."""
        try:
            await work
            self._trouble = None
        except ContextEngineError as error:
            self._trouble = error
            await asyncio.sleep(self._pace.look_s)
        except Exception as error:  # noqa: BLE001 - a fault of a driver: pages say so, and it is tried again
            logger.warning("the list of sessions could not be read (%s)", type(error).__name__)
            self._trouble = StoreUnavailableError(f"the store failed ({type(error).__name__})")
            await asyncio.sleep(self._pace.look_s)
        finally:
            self._listed.set()

    async def _list(self, limit: int | None) -> None:
        began = time.monotonic()
        infos = await self._reader.sessions(limit=limit)
        if limit is None or len(infos) < limit:
            there = {(info.user_id, info.session_id) for info in infos}
            self._lines = {key: line for key, line in self._lines.items() if key in there}
            self.complete = True
            self._clock.listed = time.monotonic()
            self._clock.listing_s = self._clock.listed - began
        self._take(infos)

    async def _look_for_news(self) -> None:
        due = max(self._pace.anew_s, ANEW * self._clock.listing_s)
        newest = parse_time(self.order[0].info.updated_at) if self.order else None
        if newest is None or newest < _FIRST or time.monotonic() > self._clock.listed + due:
            await self._list(None)
        else:
            self._take(await self._reader.sessions(since=iso(newest - OVERLAP)))

    def _take(self, infos: Sequence[SessionInfo]) -> None:
        """Know these; those that are new or were written to are to be read."""
        changed = []
        for info in infos:
            line = self._lines.get((info.user_id, info.session_id))
            if line is None:
                line = self._lines[info.user_id, info.session_id] = Line(info)
                line.renew_words()
            elif line.info == info:
                continue
            line.info, line.fresh = info, False
            changed.append(line)
        if not changed and len(self.order) == len(self._lines):
            return
        self.order = sorted(
            self._lines.values(), key=lambda line: line.info.updated_at, reverse=True
        )
        changed.sort(key=lambda line: line.info.updated_at)
        self._unread = list(dict.fromkeys([*self._unread, *(line.key for line in changed)]))
        self.generation += 1
        self._changes.extend((self.generation, line.info) for line in changed[-1000:])
        self._news.set()
        self._news = asyncio.Event()

    async def _read_for(self, seconds: float) -> None:
        """Read what calls tell, with pauses, until the time is over; then wait for its end."""
        end = time.monotonic() + seconds
        while self._unread and (began := time.monotonic()) < end:
            line = self._lines.get(self._unread.pop())
            if line is not None and not line.fresh:
                await self._read(line)
                await asyncio.sleep((time.monotonic() - began) * (1 - READ_SHARE) / READ_SHARE)
        await asyncio.sleep(max(0.0, end - time.monotonic()))

    async def _read(self, line: Line) -> None:
        info = line.info
        facts, calls = SessionFacts(), list[CallRecord]()
        try:
            facts, calls = await self._facts(info)
        except StoreUnavailableError:
            raise
        except ContextEngineError as error:  # a newer release wrote it, its file is damaged
            logger.warning("a session could not be read for the list (%s)", error.code)
        line.facts = facts
        line.fresh = line.info is info
        line.renew_words()
        self._keep_calls(line.key, calls)

    async def _facts(self, info: SessionInfo) -> tuple[SessionFacts, list[CallRecord]]:
        if not self._reader.may(
            "read", info
        ):  # who may know that it is there, alone, sees no word of it
            return SessionFacts(), []
        store, prices = self._reader.store, self._reader.prices
        scope = await operators_scope(store, info)
        document = await store.get_session(scope)
        if document is None:  # deleted meanwhile
            return SessionFacts(), []
        turns, events = await store.list_turns(scope), await store.list_events(scope)

        def work() -> tuple[SessionFacts, list[CallRecord]]:
            records = calls_of(document, turns, events)
            calls = [replace(call, user=info.user_id) for call in records]
            return facts_of(document, turns, calls, prices), calls

        return await asyncio.to_thread(work)

    def _keep_calls(self, key: Key, calls: Sequence[CallRecord]) -> None:
        self._calls_kept += len(calls) - len(self._calls.pop(key, ()))
        self._calls[key] = calls
        while self._calls_kept > MOST_CALLS and len(self._calls) > 1:
            _, oldest = self._calls.popitem(last=False)
            self._calls_kept -= len(oldest)


def _options(lines: Iterable[Line]) -> Options:
    counters: Mapping[str, Counter[str]] = {
        name: Counter() for name in ("frameworks", "users", "models", "tags")
    }
    for line in lines:
        counters["frameworks"].update(line.info.frameworks)
        counters["users"][line.info.user_id] += 1
        if line.facts is not None:
            counters["models"].update(line.facts.models)
            tags = {f"framework={name}" for name in line.info.frameworks}  # a filter of its own
            counters["tags"].update(tag for tag in line.facts.tags if tag not in tags)
    return Options(**{n: [v for v, _ in c.most_common(OPTIONS)] for n, c in counters.items()})
