"""What a turn costs on disk, in bytes and milliseconds, while one session grows; beside LangGraph's SqliteSaver.

    python benchmarks/disk.py [--seed N] [--messages 100 1000 5000] [--tables]

A turn is a question of 100 to 200 characters and an answer of 300. Of each size the last turns before
it are measured: how much the database with its write-ahead log grew, emptied into it (text included);
how long a turn's transactions took, with what makes rows of its values, and of that the thread's own
CPU; and the whole turn, until it is stored. Milliseconds are medians.
Our sessions are talked from their first turn on. The peer's state is set to all but the last turns at
once: it writes the whole of it with every step, and to talk it would take an hour.
"""

from __future__ import annotations

import argparse
import gc
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from talk import Instant, Talk

from ce_engine import BudgetConfig, ContextEngine, RuntimeConfig, Scope, StoreConfig
from ce_engine.stores.tables import SqlStore
from ce_integrations.langchain import install_ce


OF_PEER = 10
"""Turns of the peer that are measured: it takes seconds. Of ours 200, or most that there are."""
CHAT, CHAIN, WHOLE = "app resends its list", "history kept for a chain", "resent, all goes out"
APPS = {CHAT: 4000, CHAIN: 4000, WHOLE: None}
"""Our apps with their budgets: within 4,000 tokens much is left out, and some of it found again."""
SYSTEM = "You answer questions about Python."


@dataclass
class Row:
    app: str
    messages: int
    turns: int
    text: float
    disk: float
    on_disk_ms: float
    on_disk_cpu: float
    turn_ms: float


class Watch:
    """Sums up how long the calls took that pass through it, by the clock and of their thread's CPU."""

    def __init__(self) -> None:
        self.seconds = self.cpu = 0.0

    def run(self, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        start, cpu = perf_counter(), thread_time()
        try:
            return call(*given, **named)
        finally:
            self.seconds += perf_counter() - start
            self.cpu += thread_time() - cpu


class WatchedStore(SqlStore):
    """Our store: what its threads do, from the beginning of a transaction to its end."""

    watch: Watch

    def _job(self, *given: Any) -> Callable[[Any], Any]:
        return partial(self.watch.run, super()._job(*given))


class WatchedSaver(SqliteSaver):
    watch: Watch

    def put(self, *given: Any, **named: Any) -> Any:
        return self.watch.run(super().put, *given, **named)

    def put_writes(self, *given: Any, **named: Any) -> Any:
        return self.watch.run(super().put_writes, *given, **named)

    def get_tuple(self, *given: Any, **named: Any) -> Any:
        return self.watch.run(super().get_tuple, *given, **named)


def size(path: Path) -> int:
    """Bytes of the file with its write-ahead log emptied into it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))


def measured(
    app: str, messages: int, turns: int, path: Path, watch: Watch, turn: Callable[[], int]
) -> Row:
    """Measure so many turns; `turn` gives the length of what was said in it."""
    before, text, figures = size(path), 0, []
    gc.collect()
    for _ in range(turns):
        watch.seconds = watch.cpu = 0.0
        start = perf_counter()
        text += turn()
        figures.append((watch.seconds, watch.cpu, perf_counter() - start))
    grew = size(path) - before
    on_disk, cpu, whole = (median(each) * 1000 for each in zip(*figures, strict=True))
    return Row(app, messages, turns, text / turns, grew / turns, on_disk, cpu, whole)


def configured(budget: int | None) -> RuntimeConfig:
    patient = StoreConfig(deadline_s=60)  # on a busy machine too, no turn is recorded late
    window = BudgetConfig(max_input_tokens=budget) if budget else BudgetConfig()
    return RuntimeConfig(budget=window, store=patient)


def stored(engine: ContextEngine) -> int:
    """How many messages there are; and the engine's end."""
    document = engine.loop.run(engine.store.get_session(Scope(session_id="s")))
    engine.sync.close()
    return len(document.session.messages) if document else 0


def ours(
    folder: Path, seed: int, sizes: Iterable[int], app: str, budget: int | None
) -> Iterable[Row]:
    """A chat app that resends its list, or a stateless chain whose history we keep."""
    path, talk, model = folder / f"{app}.db", Talk(seed), Instant(seed=seed)
    resends = app != CHAIN
    store = WatchedStore(f"sqlite:///{path}")
    store.watch = watch = Watch()
    chain: Any = ChatPromptTemplate([("system", SYSTEM), ("human", "{question}")]) | model
    config = configured(budget)
    said: list[BaseMessage] = [SystemMessage(SYSTEM)]
    target = model if resends else chain
    with install_ce(target, store=store, config=config, session_id="s") as installed:

        def turn(*, wait: bool = True) -> int:
            question = talk.question()
            if resends:
                said.append(HumanMessage(question))
                answer = model.invoke(said)
                said.append(answer)
            else:
                answer = chain.invoke({"question": question})
            assert not wait or installed.flush()
            return len(question) + len(answer.text)

        done = 0
        for messages in sizes:
            turns = min(200, messages * 2 // 5)
            while done < messages // 2 - turns:
                turn(wait=done % 20 == 0)
                done += 1
            assert installed.flush(60)
            yield measured(app, messages, turns, path, watch, turn)
            done += turns
        assert not installed.faults
    assert stored(installed.engine) == 2 * done, "not everything was stored"


def saver(folder: Path, seed: int, messages: int) -> Row:
    """A graph of one node that keeps its messages in a SqliteSaver."""
    path, talk, model = folder / f"saver{messages}.db", Talk(seed), Instant(seed=seed)
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        checkpointer = WatchedSaver(connection)
        checkpointer.watch = watch = Watch()
        graph: Any = StateGraph(MessagesState)
        system = SystemMessage(SYSTEM)
        graph.add_node("m", lambda state: {"messages": model.invoke([system, *state["messages"]])})
        graph.add_edge(START, "m")
        app: Any = graph.compile(checkpointer=checkpointer)
        config = {"configurable": {"thread_id": "s"}}
        pairs = [(talk.question(), talk.answer()) for _ in range(messages // 2 - OF_PEER)]
        before = [m for q, a in pairs for m in (HumanMessage(q), AIMessage(a))]
        app.update_state(config, {"messages": before})

        def turn() -> int:
            question = talk.question()
            found = app.invoke({"messages": [HumanMessage(question)]}, config)
            return len(question) + len(found["messages"][-1].text)

        turn()
        return measured("LangGraph SqliteSaver", messages, OF_PEER, path, watch, turn)


def tables(path: Path, turns: int) -> None:
    """Print where the bytes are."""
    sizes = "SELECT name, sum(pgsize), sum(payload) FROM dbstat GROUP BY name ORDER BY 2 DESC"
    with closing(sqlite3.connect(path)) as connection:
        for name, pages, payload in connection.execute(sizes):
            if pages > 5 * turns:
                print(
                    f"    {name:34} {pages / turns:8.0f} bytes a turn, filled {payload / turns:8.0f}"
                )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--messages", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--tables", action="store_true", help="say which tables hold the bytes")
    asked = parser.parse_args()
    sizes = sorted(asked.messages)
    print(f"{'':28}messages  turns  text  bytes a turn  ms on disk  of it CPU  ms a turn")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = [partial(ours, folder, asked.seed, sizes, *each) for each in APPS.items()]
        runs.append(lambda: (saver(folder, asked.seed, messages) for messages in sizes))
        for run in runs:
            for row in run():
                print(
                    f"{row.app:28}{row.messages:8}{row.turns:7}{row.text:6.0f}{row.disk:14,.0f}"
                    f"{row.on_disk_ms:12.2f}{row.on_disk_cpu:11.2f}{row.turn_ms:11.2f}",
                    flush=True,
                )
        if asked.tables:
            for path in (folder / f"{app}.db" for app in APPS):
                print(path.name)
                tables(path, sizes[-1] // 2)


if __name__ == "__main__":
    main()
