"""How much later an app is answered when the store is in trouble, beside the same app without us."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from ce_engine import MemoryStore, Store, StoreConfig, create_context_engine, open_store
from ce_engine.testing.faults import FAULTS, Fault
from ce_integrations.langchain import install_ce
from tests.faults.trouble_app import Teller
from tests.faults.trouble_store import AWAY, HALF, LOSES, Troubled


GOOD = 5
"""Calls before the trouble begins, where it does not begin before the first."""
DEADLINE_MS = StoreConfig().deadline_s * 1000
MARGIN_MS = 100.0
"""What the first call in trouble may take beside the wait itself."""
LATER_MS = 5.0
"""What the median of the calls after it may take."""
SLOW, SLOW_S = "slow, 200 ms", 0.2
"""A store that answers everything, after four fifths of the deadline."""
AGAIN = 5


@dataclass(frozen=True)
class Waits:
    """Milliseconds, the last three on top of the bare call's."""

    name: str
    bare: float
    first: float
    later: float
    worst: float

    def holds(self, without: Waits) -> bool:
        """Within decision 10, beside a store without trouble: one deadline for a call, then next to nothing.

        A slow store that stays below the deadline is waited for once to prepare, and where the model answers at once
        for both writes: of what the call brought, and of the answer.
        """
        if self.name.startswith("slow"):
            return max(self.first, self.later) <= 3 * SLOW_S * 1000 + MARGIN_MS
        first, later = DEADLINE_MS + MARGIN_MS, without.later + LATER_MS
        return self.first <= first and self.later < later


def measure(calls: int) -> Iterator[tuple[Waits, bool]]:
    """A row a trouble, and whether it holds: of an SQLite file, and of a store that answers badly.

    What is over the bounds is measured again, `AGAIN` times at most, and so is what stands beside it:
    the machine has others to serve.
    """
    without = _on_sqlite("none", None, calls, at_start=False)
    yield without, True
    for at_start in (False, True):
        for row in _rows(calls, at_start=at_start):
            found, again = row(), AGAIN
            while again and not found.holds(without):
                without = _on_sqlite("none", None, calls, at_start=False)
                found, again = row(), again - 1
            yield found, found.holds(without)


def _rows(calls: int, *, at_start: bool) -> Iterator[Callable[[], Waits]]:
    when = " from the start" if at_start else ""
    for fault in FAULTS:
        name = f"{fault.__name__}{when}"
        yield partial(_on_sqlite, name, fault, calls, at_start=at_start)
    for trouble in (*AWAY, *HALF, *LOSES, SLOW):
        yield partial(_troubled, f"{trouble}{when}", trouble, calls, at_start=at_start)


def _troubled(name: str, trouble: str, calls: int, *, at_start: bool) -> Waits:
    troubled = Troubled(MemoryStore())
    change = _put(troubled, trouble)
    return Waits(name, *_measured(name, calls, troubled.as_store, change, at_start))


@contextmanager
def _put(troubled: Troubled, trouble: str) -> Iterator[None]:
    if trouble == SLOW:
        troubled.pause_s = SLOW_S
    else:
        troubled.trouble = trouble
    yield
    troubled.trouble, troubled.pause_s = "", 0.0


def _on_sqlite(name: str, fault: Fault | None, calls: int, *, at_start: bool) -> Waits:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        path = Path(folder) / "ce.db"
        made = create_context_engine(f"sqlite:///{path}")
        made.sync.check()
        made.sync.close()
        trouble = fault(path) if fault is not None else ExitStack()
        store = open_store(f"sqlite:///{path}")
        return Waits(name, *_measured(name, calls, store, trouble, at_start))


def _measured(
    name: str,
    calls: int,
    store: Store,
    trouble: AbstractContextManager[Any],
    at_start: bool,
) -> tuple[float, float, float, float]:
    bare = statistics.median(_timed(Teller(), [], calls))
    model, said = Teller(), list[BaseMessage]()
    with ExitStack() as stack:
        installed = stack.enter_context(install_ce(model, store=store, session_id=name))
        if not at_start:
            _timed(model, said, GOOD)
            installed.flush()
        stack.enter_context(trouble)
        first, *later = _timed(model, said, calls)
    installed.engine.sync.close()
    return bare, first - bare, statistics.median(later) - bare, max(later) - bare


def _timed(model: Teller, said: list[BaseMessage], calls: int) -> list[float]:
    """Ask, sync and async by turns, resending the history; the milliseconds of each call."""
    times = []
    with asyncio.Runner() as runner:
        for n in range(calls):
            said.append(HumanMessage(f"question {len(said)}"))
            start = time.perf_counter()
            answer = runner.run(model.ainvoke(said)) if n % 2 else model.invoke(said)
            times.append((time.perf_counter() - start) * 1000)
            said.append(AIMessage(answer.content))
    return times
