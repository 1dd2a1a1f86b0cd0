"""Runs many random sequences of calls by hand: `python tests/property/by_hand_run.py --cases 1000 --seed 1`."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory


if __name__ == "__main__":  # as a plain script, from any folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.property.by_hand import run_case


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Judge the engine by hand: equal on three stores, and right by a small model."
    )
    parser.add_argument("--cases", type=int, default=100, help="how many random sequences")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the run; case i has seed * 10^7 + i"
    )
    parser.add_argument("--only", type=int, help="run the one case with this seed")
    options = parser.parse_args(arguments)
    os.environ.setdefault("CE_SECRET", "the same for all stores, and long enough")
    first = options.seed * 10_000_000
    seeds = [options.only] if options.only is not None else range(first, first + options.cases)
    ended, failed = run(seeds)
    print(f"seed {options.seed}: {len(seeds)} cases, {failed} failed")
    for name, count in sorted(ended.items()):
        print(f"{count:6}  {name}")
    return 1 if failed else 0


def run(seeds: Sequence[int]) -> tuple[Counter[str], int]:
    """Run the cases; how their calls ended, and how many failed, which are told at once."""
    ended: Counter[str] = Counter()
    failed = 0
    for seed in seeds:
        with TemporaryDirectory() as folder:
            try:
                ended += run_case(seed, Path(folder))
            except Exception as error:
                failed += 1
                print(f"FAILED --only {seed}: {type(error).__name__}: {str(error)[:500]}")
    return ended, failed


if __name__ == "__main__":
    sys.exit(main())
