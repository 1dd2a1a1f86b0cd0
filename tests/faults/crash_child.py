"""A process that converses in several sessions until it is killed, and says what it does, line by line."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from ce_engine import (
    Answer,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    HostMessage,
    Message,
    ModelCall,
    PutResult,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    ToolRun,
    Usage,
    create_context_engine,
)
from ce_engine.schema.rows import Write
from ce_engine.stores.documents.file import FileStore, log
from ce_engine.stores.documents.redis import RedisStore, pages
from ce_engine.stores.documents.redis.link import Link
from ce_engine.stores.encryption import cipher_of
from ce_engine.stores.tables import SqlStore
from ce_engine.stores.threads import WorkerQueue
from ce_engine.testing.host import assistant, user
from ce_integrations.langchain import install_ce


HAND, LIST, CHAIN = "hand", "list", "chain"
"""How a session is led: by `prepare_turn`, by a host that resends its list, by a LangChain model."""

CONFIG = RuntimeConfig(fail="closed", store=StoreConfig(deadline_s=30))
"""A commit that returns is stored, however busy the machine: what did not land raises."""

T = TypeVar("T")
Kept = TypeVar("Kept", bound=SqlStore | FileStore | RedisStore)
WORK, WORKED = "work", "worked"
"""A transaction began on the store's own thread; all of it is written, and is to be committed."""

SOURCE = EvidenceSource(kind=SourceKind.USER, name="form")
USAGE = Usage(10, 5, 15)

FIRST = "the first"
"""A host's own id of its first question: asked again alone, and answered, it would be another one."""


@dataclass
class Talk:
    """What the host itself remembers of a session: the turns that were acknowledged."""

    session: str
    turns: list[tuple[str, str]] = field(default_factory=list)

    @property
    def way(self) -> str:
        return self.session.partition("-")[0]

    @property
    def scope(self) -> Scope:
        return Scope(session_id=self.session)

    @property
    def question(self) -> str:
        """The question that has no acknowledged answer yet: after a crash it is asked again."""
        return f"{self.session} 问 question {len(self.turns)}"


@dataclass(frozen=True)
class Kill:
    """When: in or after which transaction, and after so many calls there; 0 leaves it to the parent."""

    transaction: int = 0
    calls: int = 0


def _die_after(calls: int) -> None:
    """Kill this process before the so many-th call or return of functions in this thread."""
    left = itertools.count(-calls)

    def count(*_: object) -> None:
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


class Told:
    """Lines on a pipe: what is written to it survives the process."""

    def __init__(self, end: int, kill: Kill) -> None:
        self._end, self._kill = end, kill
        self._left = kill.transaction

    def __call__(self, what: str, kind: str = "", session: str = "", *texts: str) -> None:
        os.write(self._end, json.dumps([what, kind, session, *texts]).encode() + b"\n")
        self._left -= what == WORK
        if self._left == 0 and what == WORK and self._kill.calls:
            _die_after(self._kill.calls)

    @contextmanager
    def phase(self, name: str, session: str = "") -> Iterator[None]:
        self("begin", name, session)
        yield
        self("end", name, session)


def sealing(store: Kept) -> Kept:
    """The store, sealed where `CE_ENCRYPTION_KEY` says so."""
    store.encryption = cipher_of()
    return store


def telling_store(url: str, told: Told) -> SqlStore | FileStore | RedisStore:
    """The store of a URL, that says when it has a group in hand, and when it is in a transaction."""

    def telling(work: Callable[..., T]) -> Callable[..., T]:
        def tell(*connection: Any) -> T:
            told(WORK)
            result = work(*connection)
            told(WORKED)
            return result

        return tell

    class TellingSql(SqlStore):
        async def apply(self, scope: Scope, writes: Sequence[Write], **more: Any) -> PutResult:
            with told.phase("the store's writing"):
                return await super().apply(scope, writes, **more)

        async def _write(self, work: Callable[..., T], key: Hashable = None) -> T:
            return await super()._write(telling(work), key)

    class TellingFiles(FileStore):
        async def apply(self, scope: Scope, writes: Sequence[Write], **more: Any) -> PutResult:
            with told.phase("the store's writing"):
                return await super().apply(scope, writes, **more)

        async def _run(self, lane: WorkerQueue[Any], work: Callable[[], T]) -> T:
            return await super()._run(lane, telling(work) if lane is self._writer else work)

    class TellingRedis(RedisStore):
        async def apply(self, scope: Scope, writes: Sequence[Write], **more: Any) -> PutResult:
            with told.phase("the store's writing"):
                return await super().apply(scope, writes, **more)

        async def _run(self, lane: WorkerQueue[Link], work: Callable[[Link], T]) -> T:
            return await super()._run(lane, telling(work) if lane is self._writer else work)

    if url.startswith("redis"):
        return sealing(TellingRedis(url, timeout_s=20))
    kind: type[TellingSql | TellingFiles] = TellingFiles if url[:4] == "file" else TellingSql
    return sealing(kind(url, lock_timeout_s=20))


class Answering(BaseChatModel):
    """Answers the newest question."""

    answer: Callable[[str], str]

    @property
    def _llm_type(self) -> str:
        return "answering"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        said = AIMessage(self.answer(str(messages[-1].content)))
        return ChatResult(generations=[ChatGeneration(message=said)])


class Writer:
    """Leads all talks at once, each as its way is."""

    def __init__(self, url: str, number: int, told: Told) -> None:
        self.told, self.number = told, number
        log.JOURNAL_BYTES = pages.LINES_BYTES = (
            20_000  # so that snapshots are replaced all the time
        )
        self.engine: ContextEngine = create_context_engine(
            telling_store(url, self.told), config=CONFIG
        )
        self.model = Answering(answer=self.answer)
        self.installed = install_ce(self.model, engine=self.engine)

    def answer(self, question: str) -> str:
        return f"{question} 答 answered by process {self.number}"

    async def run(self, talks: Sequence[Talk], rng: random.Random, turns: int) -> None:
        lead = {HAND: self.by_hand, LIST: self.by_list, CHAIN: self.by_chain}
        seeds = [rng.random() for _ in talks]

        async def talk(each: Talk, own: random.Random) -> None:
            for _ in range(turns):
                question = each.question
                self.told("try", "message", each.session, question)
                answer = self.answer(question)
                self.told("try", "message", each.session, answer)
                await lead[each.way](each, question, answer)
                self.told("ack", "turn", each.session, question, answer)
                each.turns.append((question, answer))
                if each.way != CHAIN and own.random() < 0.5:
                    await self.beside(each, len(each.turns))

        each = (talk(t, random.Random(s)) for t, s in zip(talks, seeds, strict=True))
        await asyncio.gather(*each)

    async def by_hand(self, talk: Talk, question: str, answer: str) -> None:
        """The engine keeps the conversation; the host's own id makes a repeated question one message."""
        asked = Message(role=Role.USER, content=question, message_id=f"q-{len(talk.turns)}")
        with self.told.phase("prepare", talk.session):
            found = await self.engine.prepare_turn(talk.scope, asked)
        said = Message(role=Role.ASSISTANT, content=answer)
        turn_id = found.report.turn_id
        with self.told.phase("commit", talk.session):
            done = await self.engine.commit_assistant_message(
                talk.scope, said, turn_id=turn_id, usage=USAGE
            )
        assert done.success

    async def by_list(self, talk: Talk, question: str, answer: str) -> None:
        """The host keeps the conversation, and resends all that it remembers of it."""
        messages: list[HostMessage] = []
        for n, (asked, said) in enumerate([*talk.turns, (question, "")]):
            messages += [user(asked, FIRST if n == 0 else None), assistant(said)]
        call = ModelCall(talk.scope, messages[:-1], framework="by-hand")
        with self.told.phase("prepare", talk.session):
            prepared = await self.engine.prepare(call)
        with self.told.phase("commit", talk.session):
            given = Answer(assistant(answer).message, model="model-1")
            await self.engine.commit(prepared.turn, given, usage=USAGE)

    async def by_chain(self, talk: Talk, question: str, answer: str) -> None:
        """A LangChain app that keeps its messages; what it asked is stored when the flush says so."""
        messages: list[BaseMessage] = []
        for n, (asked, said) in enumerate([*talk.turns, (question, "")]):
            messages += [HumanMessage(asked, id=FIRST if n == 0 else None), AIMessage(said)]
        thread: Any = {"configurable": {"thread_id": talk.session}}
        with self.told.phase("invoke", talk.session):
            found = await self.model.ainvoke(messages[:-1], thread)
        assert found.content == answer
        with self.told.phase("flush", talk.session):
            assert await asyncio.to_thread(self.installed.flush, 30)

    async def beside(self, talk: Talk, number: int) -> None:
        """Evidence of the host's own, and a tool's run."""
        fact = f"{talk.session} 事实 fact {number}"
        result = f"{talk.session} 结果 result {number} of process {self.number}"
        self.told("try", "evidence", talk.session, fact)
        self.told("try", "evidence", talk.session, result)
        with self.told.phase("ingest", talk.session):
            await self.engine.ingest(talk.scope, fact, SOURCE, EvidenceType.USER_INPUT)
        self.told("ack", "evidence", talk.session, fact)
        with self.told.phase("tool run", talk.session):
            run = ToolRun("look", {"number": number, "process": self.number}, result)
            await self.engine.record_tool_run(talk.scope, run)
        self.told("ack", "evidence", talk.session, result)


def write_on(
    url: str,
    number: int,
    talks: Sequence[Talk],
    seed: int,
    pipe: tuple[int, int],
    turns: int,
    kill: Kill,
) -> None:
    """What process `number` does: so many turns in each talk, and nothing of what it was forked from."""
    code = 1
    try:
        reading, writing = pipe
        os.close(reading)  # or it would go on when nobody reads any more
        told = Told(writing, kill)
        with told.phase("open"):
            writer = Writer(url, number, told)
        asyncio.run(writer.run(talks, random.Random(seed), turns))
        writer.engine.sync.close()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
