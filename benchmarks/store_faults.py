"""How much later an app is answered when the store is in trouble, beside the same app without us.

    python benchmarks/store_faults.py

Prints, a fault a line: the bare call, what the first call in trouble costs on top, and the median and
the worst of the calls after it, in milliseconds of one run. Trouble begins after five good calls, or
before the first.
"""

from __future__ import annotations

import logging
import statistics
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage

from ce_engine import Store, create_context_engine, open_store
from ce_engine.testing.faults import FAULTS, Fault, SwitchStore
from ce_integrations.langchain import install_ce


CALLS = 60


def none(_: Path) -> AbstractContextManager[None]:
    return nullcontext()


def timed(model: Any, said: list[HumanMessage]) -> float:
    said.append(HumanMessage(f"question {len(said)}"))
    start = time.perf_counter()
    model.invoke(said)
    return (time.perf_counter() - start) * 1000


def measure(fault: Fault, path: Path, store: Store, *, at_start: bool) -> list[float]:
    bare_model = FakeListChatModel(responses=["ok"])
    said: list[HumanMessage] = []
    bare = statistics.median(timed(bare_model, said) for _ in range(CALLS))
    model = FakeListChatModel(responses=["ok"])
    with ExitStack() as stack:
        installed = stack.enter_context(install_ce(model, store=store, session_id="s"))
        said = []
        if at_start:
            stack.enter_context(fault(path))
        else:
            for _ in range(5):
                timed(model, said)
            installed.flush()
            stack.enter_context(fault(path))
        first = timed(model, said)
        later = [timed(model, said) for _ in range(CALLS)]
    return [bare, first - bare, statistics.median(later) - bare, max(later) - bare]


def on_sqlite(fault: Fault, *, at_start: bool) -> list[float]:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        path = Path(name) / "ce.db"
        made = create_context_engine(f"sqlite:///{path}")
        made.sync.check()
        made.sync.close()
        return measure(fault, path, open_store(f"sqlite:///{path}"), at_start=at_start)


def hung() -> list[float]:
    store = SwitchStore()

    class Hang:
        def __enter__(self) -> None:
            store.hangs = True

        def __exit__(self, *_: object) -> None:
            store.hangs = False

    return measure(lambda _: Hang(), Path(), store, at_start=False)


def main() -> None:
    logging.disable(logging.WARNING)  # that the store is away is the point here
    print(f"{'fault':24} {'bare':>6} {'first +':>9} {'later p50 +':>12} {'later max +':>12}   ms")
    for at_start in (False, True):
        for fault in (none, *FAULTS):
            name = fault.__name__ + (" from the start" if at_start else "")
            print_row(name, on_sqlite(fault, at_start=at_start))
    print_row("hung", hung())


def print_row(name: str, figures: list[float]) -> None:
    bare, first, median, worst = figures
    print(f"{name:24} {bare:6.2f} {first:9.2f} {median:12.2f} {worst:12.2f}", flush=True)


if __name__ == "__main__":
    main()
