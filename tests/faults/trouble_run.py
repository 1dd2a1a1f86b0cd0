"""Puts the store into trouble of every kind, many times: `python tests/faults/trouble_run.py --seed 1`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path


if __name__ == "__main__":  # as a plain script, from any folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ce_engine import MemoryStore, RuntimeConfig, StoreConfig, open_store
from ce_engine.testing.faults import full
from tests.faults import trouble_cases as cases
from tests.faults.fault_stores import url_at
from tests.faults.trouble_judge import Outcome
from tests.faults.trouble_waits import DEADLINE_MS, LATER_MS, MARGIN_MS, measure


USUAL = RuntimeConfig()
QUICK = RuntimeConfig(store=StoreConfig(deadline_s=0.05, breaker_s=0.1))
SMALL = RuntimeConfig(
    store=StoreConfig(deadline_s=0.05, breaker_s=0.1, buffer_bytes=100_000),
)
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=5, breaker_s=0.1))
DISK = "16m"
"""The size of the file system that is filled up: SQLite's write-ahead log alone takes 4 MB."""
CALLS_A_RUN = 100

Case = Callable[[int, int, Path], Outcome]


def _coming(seed: int, calls: int, folder: Path) -> Outcome:
    kinds = ("memory", "sqlite", "postgresql", "redis")
    kind = kinds[seed % len(kinds)]
    store = MemoryStore() if kind == "memory" else open_store(url_at(folder / "ce", kind))
    return cases.comes_and_goes(seed, calls, QUICK, store)[0]


def _full(seed: int, calls: int, folder: Path) -> Outcome:
    """SQLite is told that it may have no page more."""
    path = folder / "ce.db"
    switch: list[object] = []

    def fill() -> None:
        if not switch:
            trouble = full(path)
            trouble.__enter__()
            switch.append(trouble)

    def free() -> None:
        while switch:
            switch.pop().__exit__(None, None, None)  # type: ignore[attr-defined]  # what was entered

    return cases.fills_up(seed, calls, QUICK, path, fill, free)


def _full_disk(seed: int, calls: int, folder: Path) -> Outcome:
    """A file system of our own, which nobody needs to be root for, is filled up by a file of zeros."""
    run = f"mount -t tmpfs -o size={DISK} none {folder} && exec {sys.executable} {__file__} "
    command = ["unshare", "-rm", "sh", "-c", f"{run} --on {folder} --seed {seed} --calls {calls}"]
    outcome = Outcome()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        outcome.failed.append(f"on a disk of its own: {done.stderr[-500:] or done.stdout[-500:]}")
        return outcome
    told = json.loads(done.stdout.splitlines()[-1])
    return Outcome(Counter(told["counts"]), told["failed"])


def on_disk(folder: Path, seed: int, calls: int) -> Outcome:
    """Fill the disk that the folder is on, and free it, in turns."""
    zeros = folder / "zeros"
    refused = 0

    def fill() -> None:
        nonlocal refused
        with zeros.open("ab", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                refused += 1

    def free() -> None:
        zeros.unlink(missing_ok=True)

    outcome = cases.fills_up(seed, calls, QUICK, folder / "ce.db", fill, free)
    outcome.counts["times that a disk was filled"] += refused
    outcome.check(refused, "the disk was never full")
    return outcome


CASES: dict[str, Case] = {
    "comes and goes": _coming,
    "the buffer is full": lambda s, n, _: cases.loses(s, n, SMALL, MemoryStore(), ("refuses",)),
    "loses what it is given": lambda s, n, _: cases.loses(s, n, QUICK, MemoryStore()),
    "told in reports": lambda s, n, _: cases.told_in_reports(s, n, SMALL, MemoryStore()),
    "by hand": lambda s, n, _: cases.by_hand(s, n, QUICK, MemoryStore()),
    "no page more": _full,
    "a full disk": _full_disk,
    "a damaged record": lambda s, n, f: cases.damaged_record(s, n, PATIENT, f / "ce.db"),
    "overwritten bytes": lambda s, n, f: cases.overwritten(s, n, QUICK, f / "ce.db"),
}


def run(seed: int, calls: int) -> int:
    """Run every case until so many calls are made; tell the counts; how many comparisons failed."""
    failed = 0
    for name, case in CASES.items():
        total = Outcome()
        for place in range(-(-calls // CALLS_A_RUN)):
            with tempfile.TemporaryDirectory() as folder:
                made = min(CALLS_A_RUN, calls)
                total.add(case(seed * 1000 + place, made, Path(folder)), f"run {place}")
        failed += len(total.failed)
        counts = ", ".join(f"{count} {what}" for what, count in total.counts.items() if count)
        print(f"{name}: {counts}", flush=True)
        for what in total.failed:
            print(f"FAILED {name}: {what[:1000]}", flush=True)
    return failed


def waits(calls: int) -> int:
    """Measure what the app waits; how many rows are over the bounds of decision 10."""
    failed = 0
    print(
        f"\nms on top of the bare call; the first at most {DEADLINE_MS:.0f} + {MARGIN_MS:.0f}, "
        f"the median of {calls - 1} later ones {LATER_MS:.0f} over that without trouble"
    )
    print(f"{'trouble':34} {'bare':>6} {'first +':>9} {'later p50 +':>12} {'later max +':>12}")
    for row, holds in measure(calls):
        failed += not holds
        figures = f"{row.bare:6.2f} {row.first:9.2f} {row.later:12.2f} {row.worst:12.2f}"
        print(f"{row.name:34} {figures}{'' if holds else '  FAILED'}", flush=True)
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Put the store into trouble; compare the app's answers and what is recorded."
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=int, default=400, help="of each kind of trouble")
    parser.add_argument(
        "--measured", type=int, default=40, help="calls of each measurement; 0: none"
    )
    parser.add_argument("--on", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)  # that the store is away is the point here
    os.environ.pop("CE_GUARD", None)
    if options.on is not None:
        outcome = on_disk(options.on, options.seed, options.calls)
        print(json.dumps({"counts": outcome.counts, "failed": outcome.failed}))
        return 0
    if shutil.which("unshare") is None:
        del CASES["a full disk"]
        print("a full disk: not tried, there is no `unshare` here to make one")
    failed = run(options.seed, options.calls)
    failed += waits(options.measured) if options.measured else 0
    print(f"\nseed {options.seed}: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
