"""How fast the pages of `ce ui` are over very many sessions.

python benchmarks/page.py [--sessions 100000] [--store FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from starlette.testclient import TestClient

from ce_engine import BudgetConfig, RuntimeConfig, Scope, create_context_engine, open_store
from ce_engine.apps.web.reading import Source
from ce_engine.apps.web.security import Access
from ce_engine.apps.web.server import create_app
from ce_engine.schema.rows import AppendMessages, CreateSession, PutTurn, TurnRow, Write
from ce_engine.testing import samples
from ce_engine.testing.host import HostApp


BASE = "http://127.0.0.1:8765"
FRAMEWORKS = ("autogen", "crewai", "haystack", "langchain", "llamaindex", "semantic_kernel")
PAGES = {
    "the first page": "/",
    "page 1,000": "/?page=1000",
    "search for a session": "/?q=chat-0999",
    "one user's": "/?user=user-0042",
    "one framework's, by turns": "/?framework=langchain&sort=turns",
    "by name, the last page": "/?sort=session&turned=1",
    "dearer ones": "/?mark=dearer",
}
TIMES = 7


def template() -> TurnRow:
    """A turn as an app leaves it, over its budget."""
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=400))
    engine = create_context_engine("memory://", config=config)
    app = HostApp(engine, Scope(session_id="s"))
    for number in range(30):
        app.ask(f"Where is invoice {number}?", "In the blue folder. " * 9)
    row = asyncio.run(engine.store.list_turns(app.scope))[-1]
    engine.sync.close()
    return row


async def fill(url: str, sessions: int, row: TurnRow) -> None:
    """Small sessions of 5,000 users: two messages and a turn with its report each."""
    store, rng = open_store(url), random.Random(1)
    for number in range(sessions):
        scope = Scope(session_id=f"chat-{number:06}", user_id=f"user-{rng.randrange(5000):04}")
        question = samples.bare_row("m1", f"Where is invoice {number}?")
        answer = samples.bare_row("m2", "In the blue folder.")
        turn = TurnRow(
            f"t{number}",
            status=row.status,
            framework=rng.choice(FRAMEWORKS),
            opened_at=row.opened_at,
            closed_at=row.closed_at,
            tip_message_id="m1",
            answer_message_id="m2",
            report=row.report,
        )
        writes: list[Write] = [
            CreateSession(b"salt", "key"),
            AppendMessages([question, answer]),
            PutTurn(turn),
        ]
        await store.apply(scope, writes)
    await store.close()


def measured(client: TestClient, address: str) -> tuple[float, float]:
    """The median of the wall clock and the least CPU of this process, in milliseconds."""
    walls, cpus = [], []
    for _ in range(TIMES):
        wall, cpu = time.perf_counter(), time.process_time()
        assert client.get(address).status_code == 200
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return 1000 * sorted(walls)[TIMES // 2], 1000 * min(cpus)


def run(url: str) -> None:
    access = Access()
    with TestClient(create_app(Source(url), access), base_url=BASE) as client:
        client.get(f"/?token={access.token}")
        began = time.perf_counter()
        client.get("/")
        print(f"there first: {1000 * (time.perf_counter() - began):.0f} ms")
        while "being listed" in (html := client.get("/").text):
            time.sleep(0.2)
        count = re.search(r'role="status">\s*(\S+ sessions?)', html)
        print(f"all listed: {time.perf_counter() - began:.1f} s, {count[1] if count else ''}")
        for name, address in PAGES.items():
            wall, cpu = measured(client, address)
            print(f"{name:28} {wall:6.0f} ms, {cpu:4.0f} ms CPU")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--store", help="a file that is kept, and used again")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = Path(given.store or f"{folder}/ce.db").absolute()
        url = f"sqlite:///{path}"
        if not path.exists():
            began = time.perf_counter()
            asyncio.run(fill(url, given.sessions, template()))
            print(f"made in {time.perf_counter() - began:.0f} s")
        run(url)


if __name__ == "__main__":
    main()
