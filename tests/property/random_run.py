"""The command of properties over random cases: `main` judges many of them, in processes side by side."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from typing import Any


Block = tuple["Counter[str]", list[str]]
"""What was called and done, and what failed."""

BLOCK = 200
"""Cases of one task of a process."""


Judge = Callable[[Any], "Counter[str]"]
"""Counts what a case did, and raises where something does not hold; a module's function."""


def run_case(case: Any) -> Counter[str]:
    """The judge of cases that judge themselves."""
    return Counter(case.run())


def main(
    description: str,
    modules: Mapping[str, str],
    arguments: Sequence[str] | None = None,
    judge: Judge = run_case,
) -> int:
    """Run cases of one framework; `modules` has the module of each, imported when it is asked for.

    A module has a `Rig`, which all cases of a process share, and `Case.of(seed, rig)`.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cases", type=int, default=1000, help="how many random cases")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the run; case i has seed * 10^7 + i"
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    parser.add_argument("--framework", choices=sorted(modules), default="langchain")
    parser.add_argument("--case", type=int, help="run the one case with this seed")
    options = parser.parse_args(arguments)
    os.environ.setdefault("CE_GUARD", "raise")  # no fault of ours hides
    first = options.seed * 10_000_000
    seeds = range(first, first + options.cases)
    if options.case is not None:
        seeds = range(options.case, options.case + 1)
    done, failed = run(seeds, options.jobs, partial(run_block, modules[options.framework], judge))
    print(f"seed {options.seed}: {len(seeds)} cases, {failed} failed")
    for name, count in sorted(done.items()):
        print(f"{count:6}  {name}")
    return 1 if failed else 0


def run(seeds: range, jobs: int, block: Callable[[range], Block]) -> tuple[Counter[str], int]:
    """Run the cases; what was called and done, and how many failed, which are told at once."""
    done: Counter[str] = Counter()
    failed = 0
    blocks = [seeds[n : n + BLOCK] for n in range(0, len(seeds), BLOCK)]
    with ExitStack() as stack:
        each: Iterable[Block]
        if jobs == 1 or len(blocks) == 1:
            each = map(block, blocks)
        else:
            each = stack.enter_context(ProcessPoolExecutor(jobs, get_context("spawn"))).map(
                block, blocks
            )
        for counts, faults in each:
            done += counts
            failed += len(faults)
            for fault in faults:
                print(f"FAILED {fault}", flush=True)
    return done, failed


def run_block(name: str, judge: Judge, seeds: range) -> Block:
    """Run some cases; what was called and done, and what failed."""
    done: Counter[str] = Counter()
    faults: list[str] = []
    module = import_module(name)
    with module.Rig() as rig:
        for seed in seeds:
            try:
                done += judge(module.Case.of(seed, rig))
            except Exception as error:
                faults.append(f"--case {seed}: {type(error).__name__}: {str(error)[:300]}")
    return done, faults
