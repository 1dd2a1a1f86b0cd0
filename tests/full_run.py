"""Runs what takes long in `tox -m full`, two at a time: `python tests/full_run.py faults --logs FOLDER`.

Each command has a log of its own. What failed is told at the end, with the last lines of its log.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path


ROOT = Path(__file__).resolve().parents[1]
FRAMEWORKS = ("autogen", "haystack", "langchain", "llamaindex", "semantic_kernel")
"""Those that are installed side by side; CrewAI is alone."""

LAST_LINES = 20
"""Of the log of a command that failed."""

FAULTS = """
extremes_run.py --seed 1 --sessions 0
extremes_run.py --seed 1 --no-inputs --ways LangChain
extremes_run.py --seed 1 --no-inputs --ways "by hand"
crash_run.py --times 200 --seed 1
crash_run.py --times 100 --seed 1 --store postgresql
crash_run.py --times 100 --seed 1 --store redis
crash_run.py --times 100 --seed 1 --store file
crash_run.py --times 40 --seed 2 --sealed
crash_run.py --times 20 --seed 2 --sealed --store file
crash_run.py --times 20 --seed 2 --sealed --store postgresql
together_run.py --seed 1
together_run.py --seed 1 --store redis
together_run.py --seed 1 --store postgresql
workers_run.py --times 2
"""
MEASURED = "trouble_run.py --seed 1"
"""Milliseconds that an app waits, among others: nothing else is to run beside it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Commands that may run side by side, the longest first, and those that run alone when all of them are through."""

    together: Sequence[str]
    alone: Sequence[str] = ()


def lines(folder: str, commands: str) -> list[str]:
    return [f"tests/{folder}/{command}" for command in commands.strip().splitlines()]


def histories(framework: str) -> list[str]:
    """Random histories and apps of one framework; of the histories more than 10,000 go through all six together."""
    return lines(
        "property",
        f"tool_histories_run.py --framework {framework} --cases 1700 --seed 1 --jobs 1\n"
        f"room_run.py --framework {framework} --cases 100 --seed 1 --jobs 1\n"
        f"tight_run.py --framework {framework} --cases 100 --seed 1 --jobs 1",
    )


RANDOM = """
by_hand_run.py --cases 250 --seed 1
reconcile_run.py --cases 10000 --seed 1
forged_reads_run.py --cases 10000 --seed 1
report_run.py --cases 300 --seed 1 --jobs 1
"""  # 250 cases are more than 10,000 calls by hand

PLANS = {
    "faults": Plan(lines("faults", FAULTS), lines("faults", MEASURED)),
    "random": Plan(
        [*lines("property", RANDOM), *(run for each in FRAMEWORKS for run in histories(each))]
    ),
    "crewai": Plan(histories("crewai")),
}


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that came to its end, with its exit code and its seconds by the clock."""

    command: str
    code: int
    seconds: float
    log: Path

    def __str__(self) -> str:
        return f"{'FAILED' if self.code else 'ok':6} {self.seconds:6.0f} s  {self.command}"


def run(plan: Plan, logs: Path, workers: int) -> Iterator[Ended]:
    """Run the commands of a plan; each as it ends."""
    logs.mkdir(parents=True, exist_ok=True)
    numbered = {command: n for n, command in enumerate([*plan.together, *plan.alone])}

    def ended(command: str) -> Ended:
        script = Path(shlex.split(command)[0]).stem
        log = logs / f"{numbered[command]:02}-{script}.log"
        return _run(command, log)

    for commands, at_once in ((plan.together, workers), (plan.alone, 1)):
        yield from _each(ended, commands, at_once)


def _each(
    run_one: Callable[[str], Ended], commands: Sequence[str], at_once: int
) -> Iterator[Ended]:
    with ThreadPoolExecutor(at_once) as pool:
        futures = [pool.submit(run_one, command) for command in commands]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _run(command: str, log: Path) -> Ended:
    start = time.perf_counter()
    with log.open("w", encoding="utf-8") as told:
        code = subprocess.run(
            [sys.executable, *shlex.split(command)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    return Ended(command, code, time.perf_counter() - start, log)


def summary(ended: Sequence[Ended]) -> Iterator[str]:
    """What failed, with the end of its log, and the counts."""
    failed = [each for each in ended if each.code]
    for each in failed:
        yield f"\n{each.command} ended with {each.code}; the end of {each.log}:"
        yield from each.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
    yield f"\n{len(ended)} commands, {len(failed)} failed"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=PLANS, help="what to run")
    parser.add_argument("--logs", type=Path, required=True, help="the folder of the logs")
    parser.add_argument("--workers", type=int, default=2, help="commands at once")
    options = parser.parse_args(arguments)
    ended: list[Ended] = []
    for each in run(PLANS[options.name], options.logs, options.workers):
        print(each, flush=True)
        ended.append(each)
    print(*summary(ended), sep="\n")
    return 1 if any(each.code for each in ended) else 0


if __name__ == "__main__":
    sys.exit(main())
