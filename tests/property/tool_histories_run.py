"""Sends many random tool histories through the adapter: `python tests/property/tool_histories_run.py --cases 10000 --seed 1`."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path


if __name__ == "__main__":  # as a plain script, from any folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.property.tool_cases import Rig, run_case


EVERY = 20
"""One case of so many goes through `ChatOpenAI` to a strict server."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Judge random tool histories in random budgets by what reaches the model."
    )
    parser.add_argument("--cases", type=int, default=1000, help="how many random histories")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the run; case i has seed * 10^7 + i"
    )
    parser.add_argument("--case", type=int, help="run the one case with this seed")
    options = parser.parse_args(arguments)
    os.environ.setdefault("CE_GUARD", "raise")  # no fault of ours hides
    first = options.seed * 10_000_000
    seeds = [options.case] if options.case is not None else range(first, first + options.cases)
    done, failed = run(seeds)
    print(f"seed {options.seed}: {len(seeds)} cases, {failed} failed")
    for name, count in sorted(done.items()):
        print(f"{count:6}  {name}")
    return 1 if failed else 0


def run(seeds: Sequence[int]) -> tuple[Counter[str], int]:
    """Run the cases; what was called and done, and how many failed, which are told at once."""
    done: Counter[str] = Counter()
    failed = 0
    with Rig() as rig:
        for seed in seeds:
            over_wire = seed % EVERY == 0
            try:
                done += run_case(seed, rig, over_wire=over_wire)
                done["cases on the wire"] += over_wire
            except Exception as error:
                failed += 1
                print(f"FAILED --case {seed}: {type(error).__name__}: {str(error)[:300]}")
    return done, failed


if __name__ == "__main__":
    sys.exit(main())
