"""By hand: how long it takes to prepare a turn of a long conversation that goes out whole.

    python benchmarks/by_hand.py [--messages 840] [--times 15]

The messages have about 80 tokens each and are in an SQLite file. *Warm*: the engine has held the
conversation; *cold*: another engine meets it first. Medians in milliseconds of wall time and of CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    Message,
    Role,
    RuntimeConfig,
    Scope,
    create_context_engine,
)


CONFIG = RuntimeConfig(budget=BudgetConfig(max_input_tokens=120_000))
SCOPE = Scope(session_id="talk")
COLD = 5


def said(n: int) -> str:
    """A message of about 80 tokens."""
    towns = (
        f"the harbour of town {n + k} opens at {(n + k) % 12} o'clock and boat {7 * n + k} leaves from pier {n % 9};"
        for k in range(3)
    )
    return f"message {n}: {' '.join(towns)}"


def ask(engine: ContextEngine, n: int) -> tuple[float, float]:
    """One turn; wall time and CPU of its preparation, in ms."""
    wall, cpu = perf_counter(), process_time()
    engine.sync.prepare_turn(SCOPE, Message(role=Role.USER, content=said(n)))
    took = 1e3 * (perf_counter() - wall), 1e3 * (process_time() - cpu)
    engine.sync.commit_assistant_message(SCOPE, Message(role=Role.ASSISTANT, content=said(n + 1)))
    engine.sync.flush()
    return took


def main() -> None:
    """Measure, and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--messages", type=int, default=840)
    options.add_argument("--times", type=int, default=15)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'ce.db'}"
        engine = create_context_engine(url, config=CONFIG)
        for n in range(0, asked.messages, 2):
            ask(engine, n)
        warm = [ask(engine, 10_000 + n) for n in range(asked.times)]
        report = engine.last_report(SCOPE)
        engine.sync.close()
        cold = []
        for n in range(COLD):
            engine = create_context_engine(url, config=CONFIG)
            asyncio.run(engine.check())  # the file is open: no call pays for that
            cold.append(ask(engine, 20_000 + n))
            engine.sync.close()
    assert report is not None
    print(f"{report.messages_sent} messages, {report.token_used:,} tokens go out; ms: wall, CPU")
    for name, rows in (("warm", warm), ("cold", cold)):
        wall, cpu = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"{name}  {wall:6.1f} {cpu:6.1f}")


if __name__ == "__main__":
    main()
