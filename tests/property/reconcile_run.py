"""Runs many random hosts against reconcile: `python tests/property/reconcile_run.py --cases 10000 --seed 1`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path


if __name__ == "__main__":  # as a plain script, from any folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.property.cases import run_case


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Judge reconcile by random hosts that know the truth."
    )
    parser.add_argument("--cases", type=int, default=1000, help="how many random hosts")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the run; case i has seed * 10^7 + i"
    )
    parser.add_argument(
        "--only", type=int, help="run the one case with this seed, and show its fault"
    )
    options = parser.parse_args(arguments)
    if options.only is not None:
        print(f"case {options.only}: {run_case(options.only)} holds")
        return 0
    mixes, faults = run(options.seed * 10_000_000, options.cases)
    print(f"seed {options.seed}: {options.cases} cases, {len(faults)} failed")
    for name, count in sorted(mixes.items()):
        print(f"{count:6}  {name}")
    for seed, fault in faults:
        print(f"FAILED --only {seed}: {fault}")
    return 1 if faults else 0


def run(first: int, cases: int) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Run the cases from seed `first` on; what ran, by mix, and what failed."""
    mixes: Counter[str] = Counter()
    faults: list[tuple[int, str]] = []
    for seed in range(first, first + cases):
        try:
            mixes[run_case(seed)] += 1
        except Exception as error:  # a crash is a fault like any other
            mixes["(failed)"] += 1
            faults.append((seed, f"{type(error).__name__}: {error}".splitlines()[0]))
    return mixes, faults


if __name__ == "__main__":
    sys.exit(main())
