"""Kills a writing process at random moments: `python tests/faults/crash_run.py --times 200 --seed 1`."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import IO, Any


if __name__ == "__main__":  # as a plain script, from any folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.faults.crash_child import CHAIN, HAND, LIST, WORK, WORKED, Kill, Talk, write_on
from tests.faults.crash_judge import Line, copied, judge, note, url_of
from tests.faults.fault_stores import seal
from tests.faults.ledger import Found, Ledger
from tests.postgres_server import with_connections


FORK = get_context("fork")
"""A child has everything imported: what it does from its first moment on is write."""

LASTING = 2
"""Sessions of each way that all rounds go on with; each round begins one more of each, too."""

WRITES = 60
"""A process is killed in one of so many of its first transactions, or soon after."""

SPREADS_S = (0.0003, 0.001, 0.003, 0.03)
"""So long after that transaction began, at most, the parent kills it."""

CALLS = 1500
"""In every other round it kills itself instead, so many calls of functions later, at most."""

CHAIN_EVERY = 3
"""One round of so many has a LangChain model."""


class Run:
    """The rounds of one run on one store."""

    def __init__(self, kind: str, seed: int, folder: Path) -> None:
        self.kind, self.seed, self.folder = kind, seed, folder
        self.talks: dict[str, Talk] = {}
        self.known: dict[str, Ledger] = {}
        self.open: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def rounds(self, times: int) -> None:
        """Kill so many processes; the last of all is in every session, and ends well."""
        for number in range(times):
            rng = random.Random(self.seed * 1_000_000 + number)
            lines = self.killed(number, rng)
            self.count(lines)
            touched = note(lines, self.known)
            self.learn(lines)
            self.compare(copied(self.folder, self.kind), touched, f"round {number}")
        with self.started(times, list(self.talks.values()), 0, 1, Kill()) as (process, told):
            lines = [json.loads(raw) for raw in told]
        self.ended(process, 0)
        note(lines, self.known)
        found = self.compare(self.folder, set(self.known), "at the end")
        found.expect(not found.open, "turns are open", len(found.open))
        found.expect(found.abandoned == self.open, "not the turns that were left open")
        self.counts["turns left open by the killed"] = len(self.open)
        self.counts["turns abandoned at the end"] = len(found.abandoned)

    def sessions(self, number: int) -> list[Talk]:
        """What a process goes on with: sessions of all rounds, that of its forerunner, and a new one."""
        ways = (CHAIN,) if number % CHAIN_EVERY == CHAIN_EVERY - 1 else (HAND, LIST)
        names = []
        for way in ways:
            before = [name for name in self.talks if name.startswith(f"{way}-from")]
            names += [f"{way}-{n}" for n in range(LASTING)]
            names += [*before[-1:], f"{way}-from-{number}"]
        return [self.talks.setdefault(name, Talk(name)) for name in names]

    @contextmanager
    def started(
        self, number: int, talks: Sequence[Talk], seed: int, turns: int, kill: Kill
    ) -> Iterator[tuple[Any, IO[bytes]]]:
        """A process that writes, and what it says."""
        reading, writing = pipe = os.pipe()
        url = url_of(self.folder, self.kind)
        process = FORK.Process(target=write_on, args=(url, number, talks, seed, pipe, turns, kill))
        process.start()
        os.close(writing)
        with os.fdopen(reading, "rb") as told:
            yield process, told
        process.join()

    def killed(self, number: int, rng: random.Random) -> list[Line]:
        """Let a process write, kill it at a random moment, and give what it said."""
        kill = Kill(rng.randint(1, WRITES), rng.randint(1, CALLS) if number % 2 else 0)
        wait_s, left = rng.uniform(0, rng.choice(SPREADS_S)), kill.transaction
        seed, talks, lines = rng.randrange(1 << 30), self.sessions(number), list[Line]()
        with self.started(number, talks, seed, 1000, kill) as (process, told):
            for raw in told:
                lines.append(json.loads(raw))
                left -= lines[-1][0] == WORK
                if left == 0 and not kill.calls:
                    break
            until = perf_counter() + wait_s
            while perf_counter() < until:  # a sleep is too coarse
                pass
            process.kill()
            lines += [json.loads(raw) for raw in told]
        self.ended(process, -signal.SIGKILL)
        return lines

    def ended(self, process: Any, code: int) -> None:
        if process.exitcode != code:
            self.wrong.append(f"a process ended with {process.exitcode}, expected {code}")

    def count(self, lines: list[Line]) -> None:
        """Where the kill found the process."""
        self.counts["killed"] += 1
        under_way = Counter(line[1] for line in lines if line[0] == "begin")
        under_way -= Counter(line[1] for line in lines if line[0] == "end")
        for phase in under_way:
            self.counts[f"killed during {phase}"] += 1
        said = Counter(line[0] for line in lines)
        self.counts["killed inside a transaction"] += said[WORK] > said[WORKED]
        self.counts["transactions"] += said[WORK]
        self.counts["acknowledged"] += said["ack"]

    def learn(self, lines: list[Line]) -> None:
        """What the host remembers, as its own disk would have it."""
        for what, kind, session, *texts in lines:
            if (what, kind) == ("ack", "turn"):
                question, answer = texts
                self.talks[session].turns.append((question, answer))

    def compare(self, folder: Path, sessions: set[str], when: str) -> Found:
        """Compare what is stored of the sessions with what was said of them."""
        found = judge(folder, self.kind, self.known, sessions)
        self.counts += found.counts
        self.open |= found.open
        self.wrong += [f"{when}: {each}" for each in found.wrong]
        found.wrong = self.wrong
        return found


def run(times: int, seed: int, store: str) -> tuple[Counter[str], list[str]]:
    with TemporaryDirectory() as name:
        folder = Path(name) / "store"
        folder.mkdir()
        made = Run(store, seed, folder)
        made.rounds(times)
        return made.counts, made.wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Kill a writing process again and again; judge what is stored by what it said."
    )
    parser.add_argument("--times", type=int, default=200, help="how many processes are killed")
    parser.add_argument("--seed", type=int, default=1, help="of the run")
    parser.add_argument("--store", choices=("sqlite", "file", "redis", "postgresql"))
    parser.add_argument("--sealed", action="store_true", help="with CE_ENCRYPTION_KEY")
    parser.set_defaults(store="sqlite")
    options = parser.parse_args(arguments)
    os.environ.setdefault("CE_GUARD", "raise")  # no fault of ours hides
    if options.sealed:
        seal()
    # Other tests of this machine may end the server that they share.
    own = with_connections(100) if options.store == "postgresql" else nullcontext()
    with own:
        counts, wrong = run(options.times, options.seed, options.store)
    for each in wrong:
        print(f"FAILED {each}")
    print(f"{options.store}, seed {options.seed}: {options.times} times, {len(wrong)} failed")
    for name, count in sorted(counts.items()):
        print(f"{count:8,}  {name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
