"""What context engineering adds to a call, beside the bare app and what others add.

    pip install ".[langchain,bench]" && python benchmarks/overhead.py
    pip install ".[demo-llamaindex]" && python benchmarks/overhead.py --framework llamaindex
    pip install ".[demo-autogen]" && python benchmarks/overhead.py --framework autogen

Each variant (bare, a handler of the framework's events that does nothing, for LangChain OpenInference
with spans kept in memory, ours on a SQLite file) asks the same fake model (5 ms) the same questions, in
turn; printed are the medians of what a call costs over the bare one: CPU of the calling thread, of the
process, and wall time. A *short* call has one question, each in a session of its own; a *long* one is a
chat that begins with 60 messages and grows by two a call, twenty calls long.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any


sys.path.insert(0, str(Path(__file__).resolve().parent))

from overhead_talk import App

from ce_engine import BudgetConfig, RuntimeConfig


FRAMEWORKS = ("langchain", "llamaindex", "autogen")


def part_of(framework: str) -> Any:
    """The module with a framework's app, and with the variants beside ours."""
    return import_module(f"overhead_{framework}")


@contextmanager
def ours(app: App, install_ce: Any) -> Iterator[None]:
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=16_000))
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'ce.db'}"
        with install_ce(app.target, store=url, config=config) as installed:
            yield
            assert installed.flush()
            assert not installed.faults, installed.faults
            recorded = len(
                installed.engine.loop.run(installed.engine.store.list_sessions(user_id=None))
            )
            assert recorded == app.sessions, recorded


def measured(
    framework: str, variant: str, mode: str, messages: int, calls: int
) -> list[list[float]]:
    """What each call took, of one variant in this process; the first tenth warms up."""
    part = part_of(framework)
    app = part.APP(messages)
    call = getattr(app, mode)
    around = ours(app, part.install_ce) if variant == "ours" else part.VARIANTS[variant](app)

    async def ask() -> list[list[float]]:
        return [await call() for _ in range(calls)]

    with around:
        is_async = inspect.iscoroutinefunction(call)
        took = asyncio.run(ask()) if is_async else [call() for _ in range(calls)]
    return took[calls // 10 :]


def apart(*arguments: object) -> list[list[float]]:
    """The same in a process of its own: what one variant patches, another one must not meet."""
    command = [sys.executable, __file__, "--child", *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: list[list[float]] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="What a call costs, beside others.")
    parser.add_argument("--calls", type=int, default=300, help="of each variant in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--framework", choices=FRAMEWORKS, default="langchain")
    parser.add_argument("--only", help="one variant beside the bare one, such as ours")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        framework, variant, mode, messages, calls = options.child
        print(json.dumps(measured(framework, variant, mode, int(messages), int(calls))))
        return
    part = part_of(options.framework)
    names = [n for n in (*part.VARIANTS, "ours") if options.only in (None, n) or n == "bare"]
    print(
        f"{options.framework}, {options.rounds} rounds of {options.calls} calls a variant;", end=""
    )
    print(" ms added at the median")
    print(f"{'call':18} {'variant':15} {'caller CPU':>11} {'process CPU':>12} {'wall':>8}")
    for mode in part.MODES:
        for messages in (0, 60):
            took: dict[str, list[list[float]]] = {name: [] for name in names}
            for _ in range(options.rounds):
                for name in names:
                    took[name] += apart(options.framework, name, mode, messages, options.calls)
            print_rows(f"{mode} {'long' if messages else 'short'}", took)


def print_rows(call: str, took: dict[str, list[list[float]]]) -> None:
    medians = {
        name: [statistics.median(column) for column in zip(*rows, strict=True)]
        for name, rows in took.items()
    }
    base = medians["bare"]
    for name, row in medians.items():
        shown = row if name == "bare" else [a - b for a, b in zip(row, base, strict=True)]
        caller, process, wall = shown
        label = name if name == "bare" else f"+ {name}"
        print(f"{call:18} {label:15} {caller:11.2f} {process:12.2f} {wall:8.2f}", flush=True)


if __name__ == "__main__":
    main()
