"""What a turn costs in the SQLite store: wall time of a group, of `version()`, of a view, and bytes.

    python benchmarks/store_writes.py [TURNS]

A turn is two messages, two events and the turn's row. Wall times are seen from the caller's event
loop, the hop to the writer's thread and back included.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import quantiles
from time import perf_counter

from ce_engine.schema.enums import TurnStatus
from ce_engine.schema.rows import AppendEvents, AppendMessages, PutTurn, Write
from ce_engine.stores import open_store
from ce_engine.testing import samples
from ce_engine.testing.samples import SCOPE, bare_row


def turn(n: int) -> list[Write]:
    names = [f"{kind}{n:035}" for kind in "qa"]  # as long as a UUID
    rows = [bare_row(name, "x" * 200) for name in names]
    for row in rows:
        row.key = row.loose_key = b"k" * 16
        row.turn_id = row.request_id = row.message.parent_id = names[0]
    events = [samples.event(f"v{name}", turn_id=names[0], request_id=names[0]) for name in names]
    done = TurnStatus.COMMITTED
    record = samples.turn(names[0], status=done, request_id=names[0], answer_message_id=names[1])
    return [AppendMessages(rows), AppendEvents(events), PutTurn(record)]


async def timed(call: Callable[[int], Awaitable[object]], count: int) -> str:
    seconds = []
    for n in range(count):
        start = perf_counter()
        await call(n)
        seconds.append(perf_counter() - start)
    cuts = quantiles(seconds, n=20)
    return f"p50 {cuts[9] * 1e3:6.3f} ms   p95 {cuts[18] * 1e3:6.3f} ms"


async def main(turns: int, path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    groups = [turn(n) for n in range(turns + 50)]
    start = perf_counter()
    await store.apply(SCOPE, groups[-1])
    print(f"first write, file made   {(perf_counter() - start) * 1e3:6.1f} ms")
    for group in groups[turns:-1]:
        await store.apply(SCOPE, group)
    print("a turn's group          ", await timed(lambda n: store.apply(SCOPE, groups[n]), turns))
    print("version()               ", await timed(lambda _: store.version(SCOPE), 1000))
    last = 2 * turns + 90
    print(
        "state(), nothing new    ",
        await timed(lambda _: store.state(SCOPE, after_seq=last), 200),
    )
    start = perf_counter()
    state = await store.state(SCOPE)
    assert state is not None
    print(f"state(), {len(state.rows)} rows     {(perf_counter() - start) * 1e3:6.1f} ms")
    await store.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        turns, path = int(sys.argv[1]) if sys.argv[1:] else 2000, Path(folder) / "ce.db"
        asyncio.run(main(turns, path))
        print(f"bytes a turn beside its content  {path.stat().st_size / (turns + 50) - 400:.0f}")
