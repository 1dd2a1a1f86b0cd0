"""So many calls at once, each of a session of its own: how long each takes, and what of it is waiting (D-13).

    python benchmarks/load.py [--calls 500] [--messages 20] [--source-ms 0] [--rounds 3]

Sessions are on one SQLite file. Cold, none of them was read by this process; warm, all were. Beside the
calls at once stand the same calls one after the other: what these take together is work, which one
process can do no faster. What the calls at once take longer than that is waiting for something else.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    ContextPiece,
    Message,
    Role,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)


CONFIG = RuntimeConfig(budget=BudgetConfig(max_input_tokens=4000), store=StoreConfig(deadline_s=60))


def said(text: str, role: Role = Role.USER) -> Message:
    return Message(role=role, content=text)


async def fill(engine: ContextEngine, session: str, messages: int) -> None:
    for n in range(messages // 2):
        question = said(f"Parcel {session}-{n}: when does it arrive? 包裹什么时候到?")
        turn = await engine.prepare_turn(session, question)
        answer = said(f"Parcel {session}-{n} arrives on day {n}.", Role.ASSISTANT)
        await engine.commit_assistant_message(session, answer, turn_id=turn.report.turn_id)


async def ask(engine: ContextEngine, session: str) -> float:
    """Seconds until an input is there; its turn is closed afterwards, beside the clock."""
    start = perf_counter()
    turn = await engine.prepare_turn(
        session, said("And which of them was the first? 第一个是哪个?")
    )
    seconds = perf_counter() - start
    await engine.fail_turn(session, "measured", turn_id=turn.report.turn_id)
    return seconds


Way = Callable[[ContextEngine, Sequence[str]], Any]


async def at_once(engine: ContextEngine, sessions: Sequence[str]) -> list[float]:
    return await asyncio.gather(*(ask(engine, session) for session in sessions))


async def in_turn(engine: ContextEngine, sessions: Sequence[str]) -> list[float]:
    return [await ask(engine, session) for session in sessions]


def tell(name: str, way: Way, engine: ContextEngine, sessions: Sequence[str]) -> None:
    start, cpu = perf_counter(), process_time()
    seconds = asyncio.run(way(engine, sessions))
    wall, cpu = perf_counter() - start, process_time() - cpu
    cuts = quantiles(seconds, n=100)
    print(
        f"{name:18}p50 {median(seconds) * 1e3:7.0f} ms  p95 {cuts[94] * 1e3:7.0f}  p99 {cuts[98] * 1e3:7.0f}"
        f"   all {wall:5.2f} s, CPU {cpu:5.2f} s ({cpu / wall:4.0%} of a core), "
        f"{cpu / len(sessions) * 1e3:5.1f} ms a call",
        flush=True,
    )


class Slow:
    """A source that takes its time, as a search over a network does."""

    name, section = "slow", "knowledge__context"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def fetch(self, scope: Scope, query: str, limit: int) -> Sequence[ContextPiece]:
        del scope, query, limit
        await asyncio.sleep(self._seconds)
        return [ContextPiece("Parcels of today arrive tomorrow. 今天的包裹明天到。")]


def made(url: str, source_ms: int) -> ContextEngine:
    sources = [Slow(source_ms / 1e3)] if source_ms else []
    return create_context_engine(url, config=CONFIG, sources=sources)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--messages", type=int, default=20, help="of each session")
    parser.add_argument("--source-ms", type=int, default=0, help="a source that takes as long")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sessions = [f"s{n}" for n in range(options.calls)]
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'ce.db'}"
        engine = made(url, 0)
        for session in sessions:
            engine.loop.run(fill(engine, session, options.messages))
        engine.sync.close()
        for way, name in ((in_turn, "one by one"), (at_once, "at once")):
            engine = made(url, options.source_ms)
            tell(f"cold, {name}", way, engine, sessions)
            for _ in range(options.rounds):
                tell(f"warm, {name}", way, engine, sessions)
            engine.sync.close()


if __name__ == "__main__":
    main()
