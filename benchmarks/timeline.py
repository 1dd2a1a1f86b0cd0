"""How fast the page of a session is that has very many turns.

python benchmarks/timeline.py [--turns 5000]

At first nothing is known of the session; again nothing was written to it since.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from starlette.testclient import TestClient

from ce_engine import BudgetConfig, RuntimeConfig, Scope, create_context_engine
from ce_engine.apps.web.reading import Source
from ce_engine.apps.web.security import Access
from ce_engine.apps.web.server import create_app
from ce_engine.schema.rows import PutTurn
from ce_engine.testing.host import HostApp


SCOPE = Scope(session_id="long")
BATCH, TIMES, TALK = 500, 7, 120


def fill(url: str, turns: int) -> None:
    """A real talk of `TALK` turns far over its budget, whose turns are then repeated."""
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=2000))
    engine = create_context_engine(url, config=config)
    engine.sync.check()
    app = HostApp(engine, SCOPE)
    for number in range(TALK):
        app.ask(f"Where is invoice {number}? " * 3, f"Invoice {number} is in the blue folder. " * 6)
    rows = list(engine.sync.list_turns(SCOPE))
    more = [replace(rows[n % len(rows)], turn_id=f"t{n}") for n in range(turns - len(rows))]
    for at in range(0, len(more), BATCH):
        writes = [PutTurn(row) for row in more[at : at + BATCH]]
        engine.loop.run(engine.store.apply(SCOPE, writes))
    engine.sync.close()


def measured(client: TestClient, path: str, before: Callable[[], None]) -> tuple[float, ...]:
    """Of an answer: milliseconds (the median), those of CPU (the least), and its size."""
    walls, cpus, size = [], [], 0
    for _ in range(TIMES):
        before()
        wall, cpu = time.perf_counter(), time.process_time()
        answer = client.get(path)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        assert answer.status_code == 200, answer.text
        size = len(answer.content)
    return 1000 * statistics.median(walls), 1000 * min(cpus), size / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5000)
    wanted = parser.parse_args()
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'ce.db'}"
        fill(url, wanted.turns)
        source, access = Source(url), Access()
        app = create_app(source, access)
        with TestClient(app, base_url="http://127.0.0.1:8765") as client:
            client.get("/", params={"token": access.token})
            print(f"{'':32}{'ms':>8}{'ms CPU':>8}{'kB':>8}")
            for name, path in (
                ("the session", "/session?id=long"),
                ("what it cost", "/session/costs?id=long"),
                ("a word in it", "/session/find?id=long&find=invoice+7"),
                ("a turn", f"/turn?id=long&turn={TALK}"),
            ):
                for when, before in (
                    ("at first", app.state.reader.store.forget),
                    ("again", nothing),
                ):
                    figures = measured(client, path, before)
                    print(f"{name + ', ' + when:32}" + "".join(f"{each:8,.0f}" for each in figures))


def nothing() -> None:
    """Leave what is known of the session."""


if __name__ == "__main__":
    main()
