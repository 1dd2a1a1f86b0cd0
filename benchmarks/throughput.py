"""Sessions a second on one SQLite file: 50 at once, each a short talk, as async tasks and as threads.

    python benchmarks/throughput.py [--sessions 400] [--at-once 50] [--turns 4] [--seed 1]

The model answers at once, so that nothing is measured but us; beside it the same app without us. A
session is so many turns, its whole list resent with every one. Sessions count when they are stored.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from talk import Instant, Talk

from ce_engine import BudgetConfig, RuntimeConfig, Scope
from ce_integrations.langchain import install_ce


CONFIG = RuntimeConfig(budget=BudgetConfig(max_input_tokens=4000))
DEADLINE_S = CONFIG.store.deadline_s


class Waits(logging.Handler):
    """Counts how often a call went on because the store took longer than it may (decision 10)."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        del record
        self.count += 1


def configured(session: str) -> Any:
    return {"configurable": {"session_id": session}}


async def talk(model: Any, session: str, questions: list[str]) -> None:
    said: list[BaseMessage] = []
    for question in questions:
        said.append(HumanMessage(question))
        said.append(await model.ainvoke(said, configured(session)))


def talk_in_thread(model: Any, session: str, questions: list[str]) -> None:
    said: list[BaseMessage] = []
    for question in questions:
        said.append(HumanMessage(question))
        said.append(model.invoke(said, configured(session)))


async def as_tasks(model: Any, talks: dict[str, list[str]], at_once: int) -> None:
    free = asyncio.Semaphore(at_once)

    async def one(session: str, questions: list[str]) -> None:
        async with free:
            await talk(model, session, questions)

    await asyncio.gather(*(one(*each) for each in talks.items()))


def tasks(model: Any, talks: dict[str, list[str]], at_once: int) -> None:
    asyncio.run(as_tasks(model, talks, at_once))


def threads(model: Any, talks: dict[str, list[str]], at_once: int) -> None:
    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(talk_in_thread, model, *each) for each in talks.items()]:
            done.result()


Way = Callable[[Any, dict[str, list[str]], int], None]


def told(
    name: str, talks: dict[str, list[str]], start: tuple[float, float], more: str = ""
) -> float:
    seconds, cpu = perf_counter() - start[0], process_time() - start[1]
    turns = sum(map(len, talks.values()))
    print(
        f"{name:24}{len(talks) / seconds:9.1f} sessions a second{turns / seconds:9.0f} turns a second"
        f"{cpu / turns * 1000:8.2f} ms CPU a turn{more}",
        flush=True,
    )
    return len(talks) / seconds


def run(way: Way, talks: dict[str, list[str]], at_once: int, seed: int) -> None:
    bare = Instant(seed=seed)
    start = perf_counter(), process_time()
    way(bare, talks, at_once)
    without = told(f"{way.__name__}, bare", talks, start)
    model, waits = Instant(seed=seed), Waits()
    logger = logging.getLogger("ce_engine.store")
    logger.addHandler(waits)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'ce.db'}"
        installed = install_ce(model, store=url, config=CONFIG)
        try:
            model.invoke("warm", configured("warm"))
            installed.flush()
            start = perf_counter(), process_time()
            way(model, talks, at_once)
            assert installed.flush(60)
            with_us = told(f"{way.__name__}, with us", talks, start, "  (all stored)")
            print(f"{'':24}{with_us / without:9.1%} of bare; {checked(installed, talks)}")
            print(f"{'':24}the store took longer than {DEADLINE_S} s {waits.count} times")
        finally:
            logger.removeHandler(waits)
            installed.uninstall()
            installed.engine.sync.close()


def checked(installed: Any, talks: dict[str, list[str]]) -> str:
    """Count what is stored, and what we were spared."""
    engine, messages, missing = installed.engine, 0, 0
    for session, questions in talks.items():
        document = engine.loop.run(engine.store.get_session(Scope(session_id=session)))
        found = len(document.session.messages) if document else 0
        messages += found
        missing += max(0, 2 * len(questions) - found)
    faults = len(installed.faults)
    return f"{len(talks)} sessions, {messages} messages stored, {missing} missing, {faults} faults"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=400)
    parser.add_argument("--at-once", type=int, default=50)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    said = Talk(asked.seed)
    for way in (tasks, threads):
        talks = {
            f"{way.__name__}-{n}": [said.question() for _ in range(asked.turns)]
            for n in range(asked.sessions)
        }
        run(way, talks, asked.at_once, asked.seed)


if __name__ == "__main__":
    main()
