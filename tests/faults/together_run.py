"""Many writers on one store: `python tests/faults/together_run.py --seed 1 --store redis`."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory


if __name__ == "__main__":  # as a plain script, from any folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ce_engine import Scope
from tests.faults.fault_stores import KINDS, seal, url_at
from tests.faults.ledger import Found, compare
from tests.faults.together_replacing import Replacing, compare_replaced
from tests.faults.together_talks import AS_SHIPPED, PATIENT, Heard, Rig, Talk, Waits, ledgers
from tests.postgres_server import with_connections


FORK = get_context("fork")
SHARED = "all"
"""The session that all writers of a part are in at once."""

WRITERS = 4
"""Writers of a session of threads: two by the sync facade, two by the model."""


@dataclass(frozen=True)
class Size:
    """How much: the full run, and less of it for the tests."""

    threads: int = 16
    sessions: int = 40
    tasks: int = 200
    processes: int = 8
    own: int = 5
    turns: int = 4
    replaced: int = 5


@dataclass
class Told:
    """What one process tells its parent at its end."""

    acked: list[tuple[Talk, str]] = field(default_factory=list)
    heard: Heard = field(default_factory=Heard)
    made: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class Run:
    """The three parts of one run, each on a file of its own."""

    def __init__(self, size: Size, seed: int, folder: Path, kind: str = "sqlite") -> None:
        self.kind = kind
        self.size, self.rng, self.folder = size, random.Random(seed), folder
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def all_parts(self) -> None:
        self.threads()
        self.tasks()
        self.processes(PATIENT)
        self.processes(AS_SHIPPED)

    def url(self, part: str) -> str:
        return url_at(self.folder / part, self.kind)

    def threads(self) -> None:
        """The writers of a session are on several threads, and every thread is in one session, too."""
        size = self.size
        talks = [
            Talk(f"session-{n}", f"writer {w}", w % 2 == 1, size.turns)
            for n in range(size.sessions)
            for w in range(WRITERS)
        ]
        self.rng.shuffle(talks)
        shared = [Talk(SHARED, f"writer {w}", w % 2 == 1, size.turns) for w in range(size.threads)]
        told = Told()
        with closing(Rig(self.url("threads"))) as rig:
            rig.in_threads(shared, size.threads)
            rig.in_threads(talks, size.threads)
            self.flushed(rig)
            told.acked, told.heard = rig.acked, rig.heard
        self.counts["threads: writers"] = len(talks) + len(shared)
        self.compare("threads", [told])

    def tasks(self) -> None:
        size = self.size
        talks = [
            Talk(f"session-{n % size.sessions}", f"task {n}", n % 2 == 1, size.turns)
            for n in range(size.tasks)
        ]
        told = Told()
        with closing(Rig(self.url("tasks"))) as rig:
            rig.in_tasks(talks)
            self.flushed(rig)
            told.acked, told.heard = rig.acked, rig.heard
        self.counts["tasks: writers"] = len(talks)
        self.compare("tasks", [told])

    def processes(self, waits: Waits) -> None:
        """Each in sessions of its own, all in one, and all replace the same things meanwhile."""
        part, ends = f"processes, {waits.name}", []
        for number in range(self.size.processes):
            receiving, sending = FORK.Pipe(duplex=False)
            process = FORK.Process(
                target=_one_process, args=(self.url(part), number, self.size, waits, sending)
            )
            process.start()
            sending.close()
            ends.append((process, receiving))
        told = []
        for process, receiving in ends:
            try:
                told.append(receiving.recv())
            except EOFError:
                self.wrong.append("a process ended by itself")
            process.join()
        self.counts[f"{part}: writers"] = len(told) * (self.size.own + 2)
        self.compare(part, told, waits, replaced=True)

    def flushed(self, rig: Rig) -> None:
        if not rig.installed.flush(60):
            self.wrong.append("not everything was stored in time")

    def compare(
        self, part: str, told: Sequence[Told], waits: Waits = PATIENT, *, replaced: bool = False
    ) -> None:
        acked = [each for one in told for each in one.acked]
        found = Found()
        with closing(Rig(self.url(part))) as rig:
            for session, ledger in ledgers(acked, waits).items():
                compare(rig.engine, Scope(session_id=session), ledger, found)
            if replaced:
                made = [text for one in told for text in one.made]
                times = len(told) * self.size.replaced
                compare_replaced(rig.engine, Scope(session_id=SHARED), made, times, found)
        found.expect(not found.open, "turns are open", len(found.open))
        mixed = [text for one in told for text in one.heard.mixed]
        found.expect(not mixed, "a model was shown words of another session", mixed)
        found.counts["messages shown to models"] = sum(one.heard.messages for one in told)
        found.counts["turns acknowledged"] = len(acked)
        for one in told:
            found.counts += one.counts
        self.counts += Counter({f"{part}: {name}": n for name, n in found.counts.items()})
        self.wrong += [f"{part}: {each}" for each in found.wrong]


def _one_process(url: str, number: int, size: Size, waits: Waits, sending: Connection) -> None:
    """One of many: its writers are threads, and what it replaces goes on beside them."""
    code = 1
    try:
        writer = f"process {number}"
        talks = [Talk(f"own-{number}-{n}", writer, n % 2 == 1, size.turns) for n in range(size.own)]
        talks += [Talk(SHARED, f"{writer}, {n}", n == 1, size.turns) for n in range(2)]
        rig = Rig(url, waits)
        replacing = Replacing(url, writer, size.replaced, Scope(session_id=SHARED))
        with ThreadPoolExecutor(1) as beside:
            replaced = beside.submit(lambda: asyncio.run(replacing.run()))
            rig.in_threads(talks, len(talks))
            replaced.result()
        assert rig.installed.flush(60)
        rig.close()
        sending.send(Told(rig.acked, rig.heard, replacing.made, replacing.counts))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def run(size: Size, seed: int, kind: str) -> tuple[Counter[str], list[str]]:
    with TemporaryDirectory() as name:
        made = Run(size, seed, Path(name), kind)
        made.all_parts()
        return made.counts, made.wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Threads, tasks and processes write at once; judge what is stored."
    )
    parser.add_argument("--seed", type=int, default=1, help="of the run")
    parser.add_argument("--store", choices=KINDS, default="sqlite")
    parser.add_argument("--sealed", action="store_true", help="with CE_ENCRYPTION_KEY")
    options = parser.parse_args(arguments)
    os.environ.setdefault("CE_GUARD", "raise")  # no fault of ours hides
    if options.sealed:
        seal()
    # PostgreSQL's own default is 100 connections; each of eight processes with two stores has up to 16.
    own = with_connections(300) if options.store == "postgresql" else nullcontext()
    with own:
        counts, wrong = run(Size(), options.seed, options.store)
    for each in wrong:
        print(f"FAILED {each}")
    print(f"seed {options.seed}: {len(wrong)} failed")
    for name, count in counts.items():
        print(f"{count:8,}  {name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
