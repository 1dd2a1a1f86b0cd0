"""Apps that fork, spawn, and call from many event loops; each runs as a process of its own, and tells what it asked."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnablePassthrough

from ce_engine import (
    Answer,
    ContextEngine,
    Message,
    ModelCall,
    Prepared,
    Role,
    RuntimeConfig,
    Scope,
    StoreConfig,
    ToolRun,
    create_context_engine,
    open_store,
)
from ce_engine.testing.host import user
from ce_integrations import ce_session
from ce_integrations.install.adapter import Installation
from ce_integrations.langchain import install_ce
from tests.faults.locks import fork_with_locks_held


FLUSH_S = 60.0
TOOLS = 50
"""Runs that the master hands over right before it forks: they are being written meanwhile."""


def answer_to(question: str) -> str:
    return f"answer to {question}"


class Echo(BaseChatModel):
    """Answers the last message, and raises where words of another session stand before it."""

    pause: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        texts = [str(message.content) for message in messages]
        check_unmixed(texts, texts[-1])
        answer = AIMessage(answer_to(texts[-1]))
        return ChatResult(generations=[ChatGeneration(message=answer)])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        await asyncio.sleep(self.pause)
        return self._generate(messages)


def check_unmixed(texts: list[str], question: str) -> None:
    own = question.partition(":")[0]
    foreign = [text for text in texts if not text.removeprefix("answer to ").startswith(f"{own}:")]
    if foreign:
        raise ValueError(f"{own} was sent the words of others: {foreign}")


class Host(Protocol):
    """An app that keeps no list: what was said before is the engine's to bring in."""

    engine: ContextEngine

    def ask(self, session: str, question: str) -> str: ...
    async def aask(self, session: str, question: str) -> str: ...
    def ask_in_none(self, question: str) -> str: ...


class LangChainHost:
    """Calls a chain that leaves its history to us."""

    def __init__(self, engine: ContextEngine, pause: float) -> None:
        self.engine = engine
        self.model: Any = RunnablePassthrough() | Echo(pause=pause)
        told: dict[str, Any] = {"engine": engine, "history": True}
        self.installation: Installation[Any, Any] = install_ce(self.model, **told)

    def ask(self, session: str, question: str) -> str:
        with ce_session(session):
            return str(self.model.invoke(question).content)

    async def aask(self, session: str, question: str) -> str:
        async with ce_session(session):
            return str((await self.model.ainvoke(question)).content)

    def ask_in_none(self, question: str) -> str:
        """A call in a session that nobody named."""
        return str(self.model.invoke(question).content)


class HandHost:
    """Calls the engine by hand."""

    def __init__(self, engine: ContextEngine, pause: float) -> None:
        self.engine, self.pause = engine, pause

    def ask(self, session: str, question: str) -> str:
        prepared = self.engine.sync.prepare(_call(session, question))
        answer = _checked(prepared, question)
        self.engine.sync.commit(prepared.turn, answer)
        return answer.message.content

    async def aask(self, session: str, question: str) -> str:
        prepared = await self.engine.prepare(_call(session, question))
        await asyncio.sleep(self.pause)
        answer = _checked(prepared, question)
        await self.engine.commit(prepared.turn, answer)
        return answer.message.content

    def ask_in_none(self, question: str) -> str:
        """By hand a session has a name."""
        return self.ask("nobody's", question)


def _call(session: str, question: str) -> ModelCall:
    return ModelCall(scope=Scope(session_id=session), messages=[user(question)])


def _checked(prepared: Prepared, question: str) -> Answer:
    check_unmixed(
        [step.message.content for step in prepared.plan if hasattr(step, "message")], question
    )
    return Answer(Message(role=Role.ASSISTANT, content=answer_to(question)))


def made_host(way: str, url: str, pause: float = 0.002) -> Host:
    config = RuntimeConfig(store=StoreConfig(deadline_s=FLUSH_S))
    engine = create_context_engine(open_store(url), config=config)
    engine.sync.check()
    return HandHost(engine, pause) if way == "by hand" else LangChainHost(engine, pause)


class Told:
    """Writes down, one line each, what was asked and answered, for the judge."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"told-{os.getpid()}.jsonl"

    def answered(self, session: str, question: str, answer: str) -> None:
        self._write({"session": session, "question": question, "answer": answer})

    def begun(self, session: str, question: str) -> None:
        self._write({"session": session, "question": question, "answer": None})

    def tools(self, session: str, count: int) -> None:
        self._write({"session": session, "tools": count})

    def _write(self, line: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def asks(host: Host, told: Told, session: str, count: int, name: str = "") -> None:
    for n in range(count):
        question = f"{session}: {name}{n}?"
        told.answered(session, question, host.ask(session, question))


async def aasks(host: Host, told: Told, session: str, count: int, name: str = "") -> None:
    for n in range(count):
        question = f"{session}: {name}{n}?"
        told.answered(session, question, await host.aask(session, question))


def together(works: list[Callable[[], None]]) -> None:
    """Run each on a thread of its own; what one raises is raised here."""
    wrong: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]


# The apps


def prefork(host: Host, folder: Path, workers: int, calls: int) -> None:
    """A master that has made calls forks workers while it calls on and writes; each serves threads."""
    told = Told(folder)
    asks(host, told, "master", 2, "before ")
    stop = threading.Event()

    def calls_on() -> None:
        for n in range(1000):
            if stop.is_set():
                break
            asks(host, told, "busy", 1, f"{n}-")

    busy = threading.Thread(target=calls_on)
    busy.start()
    pids = []
    for worker in range(workers):
        for n in range(TOOLS):
            run = ToolRun("tool", {}, f"result {worker}-{n}", f"run-{worker}-{n}")
            host.engine.post_tool_run(Scope(session_id="master"), run)
        pid = os.fork()
        if pid == 0:
            in_child(host, partial(serve, host, folder, worker, calls))
        pids.append(pid)
    told.tools("master", TOOLS * workers)
    asks(host, told, "master", 2, "after ")
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    stop.set()
    busy.join()
    if any(statuses):
        raise RuntimeError(f"workers ended with {statuses}")


def in_child(host: Host, work: Callable[[], None]) -> None:
    """Do the work of a forked worker and end it."""
    code = 1
    try:
        work()
        code = 0 if host.engine.sync.flush(FLUSH_S) else 3
    except BaseException as error:
        print(f"worker {os.getpid()}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    os._exit(code)


def serve(host: Host, folder: Path, worker: int, calls: int) -> None:
    """Threads with a session each, one that all workers share, and one of many event loops."""
    told = Told(folder)
    own, shared = f"worker-{worker}", f"{worker}-"
    together(
        [
            lambda: asks(host, told, own, calls),
            lambda: asks(host, told, "shared", calls, shared),
            lambda: asyncio.run(aasks(host, told, f"{own}-async", calls)),
        ]
    )


def spawned(way: str, url: str, folder: Path, worker: int, calls: int) -> None:
    host = made_host(way, url)
    serve(host, folder, worker, calls)
    host.engine.sync.close(FLUSH_S)


def spawn(host: Host, folder: Path, workers: int, calls: int) -> None:
    """`multiprocessing` with fresh interpreters, while the parent calls on."""
    way = "by hand" if isinstance(host, HandHost) else "LangChain"
    context = multiprocessing.get_context("spawn")
    url = host.engine.store.url
    made = [
        context.Process(target=spawned, args=(way, url, folder, worker, calls))
        for worker in range(workers)
    ]
    for process in made:
        process.start()
    asks(host, Told(folder), "shared", calls, "parent ")
    for process in made:
        process.join()
    if any(process.exitcode for process in made):
        raise RuntimeError(f"workers ended with {[process.exitcode for process in made]}")


def notebook(host: Host, folder: Path, workers: int, calls: int) -> None:
    """Cells on one loop that runs: sync calls under it, awaited ones, many at once, and a loop run again inside."""
    told = Told(folder)

    async def cells() -> None:
        for n in range(calls):
            asks(host, told, "cells", 1, f"sync {n}-")
            await aasks(host, told, "cells", 1, f"async {n}-")
            nested(aasks(host, told, "cells", 1, f"nested {n}-"))
        each = [aasks(host, told, f"gathered-{n}", calls) for n in range(workers)]
        pending = asyncio.gather(*each)
        await asyncio.sleep(0)
        asks(host, told, "cells", calls, "while others wait ")
        await pending

    asyncio.run(cells())


def nested(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end on the loop that is running, as nest_asyncio does."""
    loop: Any = asyncio.get_running_loop()
    outer = asyncio.current_task()
    assert outer is not None
    task = loop.create_task(work)
    asyncio.tasks._leave_task(loop, outer)
    try:
        while not task.done():
            loop._run_once()
    finally:
        asyncio.tasks._enter_task(loop, outer)
        for _ in range(100):  # the round around this one takes as many as it had counted
            loop.call_soon(int)
    task.result()


def loops(host: Host, folder: Path, workers: int, calls: int) -> None:
    """A new loop for each request, in several threads, some of them closed with calls in flight."""
    told = Told(folder)

    def requests(worker: int) -> None:
        session = f"loops-{worker}"
        for n in range(calls):
            asyncio.run(aasks(host, told, session, 1, f"{n}-"))
            asyncio.run(aasks(host, told, "shared", 1, f"{worker}-{n}-"))
            left_behind(host, told, session, f"{session}: cancelled {n}?", cancels=True)
            left_behind(host, told, session, f"{session}: closed {n}?", cancels=False)

    together([partial(requests, worker) for worker in range(workers)])


LEFT: list[asyncio.Task[str]] = []
"""Tasks that never end: they are collected at the interpreter's end."""


def left_behind(host: Host, told: Told, session: str, question: str, *, cancels: bool) -> None:
    """Begin a call and leave it: cancelled, or with a loop that is closed under it."""
    told.begun(session, question)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, __: None)  # of the task that the app left pending
    task = loop.create_task(host.aask(session, question))
    loop.run_until_complete(asyncio.sleep(0.001))
    if cancels:
        task.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
    else:
        LEFT.append(task)
    loop.close()


APPS: dict[str, Callable[[Host, Path, int, int], None]] = {
    "prefork": prefork,
    "spawn": spawn,
    "notebook": notebook,
    "loops": loops,
    "locks": fork_with_locks_held,
}


def main(workers: str, calls: str, *apps: str) -> None:
    """Run each of (app, way, folder), one after the other in one process."""
    for app, way, folder in zip(apps[::3], apps[1::3], apps[2::3], strict=True):
        host = made_host(way, f"sqlite:///{folder}/ce.db")
        APPS[app](host, Path(folder), int(workers), int(calls))
        if not host.engine.sync.flush(FLUSH_S):
            raise RuntimeError("not everything was stored in time")
        host.engine.sync.close(FLUSH_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
