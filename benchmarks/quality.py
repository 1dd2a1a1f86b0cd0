"""What goes in: recall, cost, prefix and speed on public data, beside what others do, in one command.

    pip install ".[langchain,llamaindex]" langchain && python benchmarks/quality.py --data FOLDER

The default configuration, no language model. Without --data, QUALITY_DATA names the folder; --help tells
what belongs into it and where to get it. `--every 10 --sessions 1 --runs 10` gives a first impression in minutes.

*Recall*: of the messages that a question needs, the share that stands in the input, in percent; an input over its
budget has none. *Cost* is beside the same run untouched, with what the provider has in its cache at a tenth; less
is better. *Prefix* is the share of what is sent with which the call before began.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


sys.path.insert(0, str(Path(__file__).resolve().parent))

import quality_data as data
import quality_recall as recall
import quality_runs as runs


HERE = Path(__file__).resolve().parent
LOCOMO, CMRC, ALL_IN_ONE = (1000, 2000, 4000, 8000), (1000, 2000), (2000,)


def show(cells: Sequence[object], widths: Sequence[int]) -> None:
    print(
        "  ".join(f"{cell!s:>{width}}" for cell, width in zip(cells, widths, strict=True)),
        flush=True,
    )


def percent(values: Sequence[float]) -> str:
    return f"{100 * statistics.fmean(values):.1f}" if values else "-"


def recall_rows(
    title: str, sessions: Sequence[data.Session], budgets: Sequence[int], options: Any
) -> None:
    """A row a way: recall at each budget, their mean, and multi-hop at the one next to the least."""
    several = any(asked.kind == "multi-hop" for each in sessions for asked in each.questions)
    asked = sum(len(each.questions[:: options.every]) for each in sessions)
    sizes = ", ".join(str(len(each.messages)) for each in sessions)
    print(f"\n{title}: {asked} questions; messages {sizes}")
    heads = [
        *(f"{budget:,}" for budget in budgets),
        "mean",
        *(["multi-hop"] if several else []),
        "over",
    ]
    widths = [24, *([9] * len(heads))]
    show(["recall, %", *heads], widths)
    for name, make in chosen({**recall.OURS, **recall.OTHERS}, options).items():
        scores = [
            s for each in sessions for s in recall.measure(make, each, budgets, options.every)
        ]
        at = {budget: [s.recall for s in scores if s.budget == budget] for budget in budgets}
        means = [statistics.fmean(found) for found in at.values() if found]
        cells = [*(percent(found) for found in at.values()), percent(means)]
        if several:
            place = budgets[min(1, len(budgets) - 1)]
            cells.append(
                percent([s.recall for s in scores if (s.kind, s.budget) == ("multi-hop", place)])
            )
        show([name, *cells, sum(s.over for s in scores)], widths)


def run_rows(found: Sequence[Sequence[runs.Plain]], options: Any) -> None:
    """A row a way and limit."""
    print(f"\ntau-bench: {len(found)} tool runs, replayed call by call")
    widths = [24, 14, 16, 8, 10, 10, 13, 8]
    show(
        ["", "limit", "tool results", "cost %", "dearer %", "kept %", "broken pairs", "prefix %"],
        widths,
    )
    kinds: list[dict[str, Any]] = [{}]
    if runs.has_compact():
        kinds.append({"tool_results": "compact"})
    for share in (None, 0.6):
        for name, make in chosen(runs.APPS, options).items():
            for more in kinds if name.startswith("ours") else kinds[:1]:
                made = runs.measure(make, found, share, more)
                limit = "none" if share is None else f"{share:.0%} of most"
                how = more.get("tool_results", "as they are")
                cells = (f"{made.cost:+.1f}", f"{made.dearer:.0f}", f"{made.kept:.1f}", made.broken)
                show([name, limit, how, *cells, f"{made.prefix:.0f}"], widths)


def other(title: str, script: str, *arguments: str) -> None:
    """The rows of another benchmark, in a process of its own."""
    print(f"\n{title}: python benchmarks/{script} {' '.join(arguments)}", flush=True)
    done = subprocess.run([sys.executable, str(HERE / script), *arguments], check=False)
    if done.returncode:
        print("  (it needs more than is installed here)")


def chosen(ways: dict[str, Callable[..., Any]], options: Any) -> dict[str, Callable[..., Any]]:
    return {name: way for name, way in ways.items() if not options.way or name in options.way}


def all_in_one(path: Path, options: Any) -> None:
    sessions = [data.one(data.locomo(path)[: options.sessions])]
    recall_rows("LoCoMo, all in one session", sessions, ALL_IN_ONE, options)


SETS: dict[str, tuple[str, Callable[[Path, Any], None]]] = {
    "locomo": (
        "locomo",
        lambda path, o: recall_rows("LoCoMo", data.locomo(path)[: o.sessions], LOCOMO, o),
    ),
    "one": ("locomo", all_in_one),
    "cmrc": (
        "cmrc",
        lambda path, o: recall_rows("CMRC (Chinese)", data.cmrc(path)[: o.sessions], CMRC, o),
    ),
    "tau": ("tau", lambda path, o: run_rows(data.runs(path)[: o.runs], o)),
}
"""The sets by their word for --only: the beginning of their file's name, and their rows."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description="What goes in, on public data.",
        epilog=data.WHERE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("QUALITY_DATA"))
    parser.add_argument("--every", type=int, default=1, help="only every so many-th question")
    parser.add_argument("--sessions", type=int, default=1000, help="so many of each set")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--way", action="append", help="one row, such as 'BM25'; again for more")
    parser.add_argument("--only", choices=(*SETS, "speed", "prefix"))
    options = parser.parse_args()
    if options.data is None or not Path(options.data).is_dir():
        parser.error(
            f"no data: {options.data or 'neither --data nor QUALITY_DATA is given'}\n{data.WHERE}"
        )
    for part, (name, rows) in SETS.items():
        if options.only not in (None, part):
            continue
        path = data.found(Path(options.data), name)
        if path is None:
            print(f"\nno {name}*.json in the folder: its rows are left out")
        else:
            rows(path, options)
    if options.only in (None, "speed"):
        other("assemble", "prepare.py", "--sizes", "700", "5900", "--calls", "20")
    if options.only in (None, "prefix"):
        other("prefix of a chat", "prefix_reuse.py", "--turns", "60")


if __name__ == "__main__":
    main()
