"""Talks that many writers lead at once: by the sync facade, by `await`, and by a LangChain model."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from ce_engine import (
    Answer,
    ContextEngine,
    HostMessage,
    LlmRequest,
    LlmResponse,
    ModelCall,
    Prepared,
    RuntimeConfig,
    Scope,
    StoreConfig,
    SummaryConfig,
    Usage,
    create_context_engine,
)
from ce_engine.testing.host import assistant, user
from ce_integrations.langchain import install_ce
from tests.faults.fault_stores import opened
from tests.faults.ledger import MESSAGE, Ledger


@dataclass(frozen=True)
class Waits:
    """How long calls wait for the store, and each store for a lock; and what to call it."""

    name: str
    config: RuntimeConfig
    lock_timeout_s: float


SUMMED_UP = SummaryConfig(trigger_message_count=6, preserve_recent_messages=2)

PATIENT = Waits(
    "patient",
    RuntimeConfig(fail="closed", store=StoreConfig(deadline_s=60), summary=SUMMED_UP),
    lock_timeout_s=30,
)
"""A commit that returns is stored: on a busy machine it is waited for."""

AS_SHIPPED = Waits("as shipped", RuntimeConfig(summary=SUMMED_UP), lock_timeout_s=0.2)
"""An app's calls wait 250 ms; what the store is too slow for is stored later: a flush says when."""

USAGE = Usage(10, 5, 15)


SAID = re.compile(r"(\S+) 问")
"""The session that words belong to; what is told of its tasks is nobody's words."""


def answer_to(question: str) -> str:
    return f"{question} 答 answered"


@dataclass
class Heard:
    """What reached models: how many messages, and those that another session's call was shown."""

    messages: int = 0
    mixed: list[str] = field(default_factory=list)

    def hear(self, texts: Sequence[str]) -> None:
        [session] = SAID.findall(texts[-1])
        self.messages += len(texts)
        self.mixed += [f"in {session}: {t}" for t in texts if set(SAID.findall(t)) - {session}]


class Echo(BaseChatModel):
    """Answers the newest question, and tells what it was shown."""

    hear: Callable[[Sequence[str]], None]

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        texts = [str(message.content) for message in messages]
        self.hear(texts)
        question = texts[-1].rpartition("\n\n")[2]  # what is brought in stands before it
        return ChatResult(generations=[ChatGeneration(message=AIMessage(answer_to(question)))])


class SumsUp:
    """The model for summaries: it names the sessions whose words it was given."""

    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    async def generate(self, request: LlmRequest) -> LlmResponse:
        given = " ".join(part.content for part in request.messages)
        sessions = sorted(set(SAID.findall(given)))
        if len(sessions) > 1:
            self.heard.mixed.append(f"one summary of {sessions}")
        return LlmResponse("; ".join(f"{session} 问 summed up" for session in sessions))


@dataclass(frozen=True)
class Talk:
    """One writer's part of a session: its texts begin with the session and name the writer."""

    session: str
    writer: str
    by_model: bool
    turns: int

    @property
    def scope(self) -> Scope:
        return Scope(session_id=self.session)

    @property
    def questions(self) -> list[str]:
        return [f"{self.session} 问 {self.writer} asks {n}" for n in range(self.turns)]

    def call(self, asked: Sequence[str]) -> ModelCall:
        """The host's whole list, in a lane of its own; calls of models share one."""
        listed: list[HostMessage] = []
        for question in asked:
            listed += [user(question), assistant(answer_to(question))]
        return ModelCall(self.scope, listed[:-1], self.writer, framework="by-hand")

    def natives(self, asked: Sequence[str]) -> list[BaseMessage]:
        listed: list[BaseMessage] = []
        for question in asked:
            listed += [HumanMessage(question), AIMessage(answer_to(question))]
        return listed[:-1]

    @property
    def thread(self) -> Any:
        return {"configurable": {"thread_id": self.session}}


class Rig:
    """An engine, a model that it is installed on, and what the talks over both acknowledged."""

    def __init__(self, url: str, waits: Waits = PATIENT) -> None:
        self.heard, self.acked = Heard(), list[tuple[Talk, str]]()
        store = opened(url, waits.lock_timeout_s)
        self.engine: ContextEngine = create_context_engine(
            store, llm_adapter=SumsUp(self.heard), config=waits.config
        )
        self.model = Echo(hear=self.heard.hear)
        self.installed = install_ce(self.model, engine=self.engine)

    def close(self) -> None:
        self.installed.uninstall()
        self.engine.sync.close(60)

    def _sent(self, prepared: Prepared) -> None:
        self.heard.hear([part.content for part in prepared.assembled.parts])

    def lead(self, talk: Talk) -> None:
        """In the caller's thread."""
        asked: list[str] = []
        for question in talk.questions:
            asked.append(question)
            if talk.by_model:
                self.model.invoke(talk.natives(asked), talk.thread)
            else:
                prepared = self.engine.sync.prepare(talk.call(asked))
                self._sent(prepared)
                given = Answer(assistant(answer_to(question)).message)
                self.engine.sync.commit(prepared.turn, given, usage=USAGE)
            self.acked.append((talk, question))

    async def alead(self, talk: Talk) -> None:
        """On the caller's loop."""
        asked: list[str] = []
        for question in talk.questions:
            asked.append(question)
            if talk.by_model:
                await self.model.ainvoke(talk.natives(asked), talk.thread)
            else:
                prepared = await self.engine.prepare(talk.call(asked))
                self._sent(prepared)
                given = Answer(assistant(answer_to(question)).message)
                await self.engine.commit(prepared.turn, given, usage=USAGE)
            self.acked.append((talk, question))

    def in_threads(self, talks: Sequence[Talk], threads: int) -> None:
        """So many threads take one talk after the other; they begin together."""
        start = threading.Barrier(min(threads, len(talks)))

        def one(talk: Talk, *, first: bool) -> None:
            if first:
                start.wait()
            self.lead(talk)

        with ThreadPoolExecutor(threads) as pool:
            done = [pool.submit(one, t, first=n < start.parties) for n, t in enumerate(talks)]
        for each in done:
            each.result()

    def in_tasks(self, talks: Iterable[Talk]) -> None:
        """All at once, each as a task of one loop."""

        async def all_of() -> None:
            await asyncio.gather(*map(self.alead, talks))

        asyncio.run(all_of())


def ledgers(acked: Iterable[tuple[Talk, str]], waits: Waits) -> dict[str, Ledger]:
    """What was acknowledged, by session: all that was tried."""
    known: dict[str, Ledger] = {}
    for talk, question in acked:
        ledger = known.setdefault(talk.session, Ledger(may_be_late=waits is AS_SHIPPED))
        both = question, answer_to(question)
        ledger.try_to(MESSAGE, *both)
        ledger.ack(talk.writer, MESSAGE, *both)
    return known
