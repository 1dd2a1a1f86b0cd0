"""Thousands of sessions in one process, and huge and odd inputs: `python tests/faults/extremes_run.py --help`."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from ce_engine import RuntimeConfig, StoreConfig, create_context_engine, open_store
from ce_integrations.langchain import install_ce


sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.faults.extremes import STORES, Judged, by_hand, through_langchain
from tests.faults.oddities import Oddity, deep, huge, texts
from tests.faults.sessions import (
    ask,
    chat,
    come_back,
    fake_model,
    some,
    talk,
    watch,
)


WAYS = ("by hand", "LangChain", "one call")
"""Two turns by hand or through LangChain, which may come back; or one call through LangChain."""

MARKS = 5
"""How often memory is looked at; it is to stay as it is from the first time on."""

NEVER_ENDED = 3
"""Of so many sessions by hand one leaves a turn open: those fill what is kept of them before memory is to stay as it is."""

MOST_TIMES, FIXED_MB = 1.5, 64
"""So many times the bound of the views, and so much whatever that is, may all be that sessions need."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of which sessions come back")
    parser.add_argument("--sessions", type=int, default=20_000, help="on each way")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS[:2], help="how to talk")
    parser.add_argument("--view-mb", type=float, default=16.0, help="the bound of the views")
    parser.add_argument(
        "--chars", type=int, default=1_000_000, help="of an odd text; a huge one: 10 times"
    )
    parser.add_argument("--messages", type=int, default=100_000, help="of a long list")
    parser.add_argument("--tools", type=int, default=1_000, help="schemas beside one call")
    parser.add_argument("--no-inputs", action="store_true", help="sessions only")
    options = parser.parse_args(arguments)
    os.environ.pop("CE_GUARD", None)  # the guard that users have
    failed = 0
    for way in options.ways if options.sessions else ():
        failed += many_sessions(way, options.sessions, options.view_mb, options.seed)
    if not options.no_inputs:
        large = huge(10 * options.chars, options.messages, options.tools)
        failed += odd_inputs([*texts(options.chars), *large, *deep()])
    print(f"{failed} failed")
    return 1 if failed else 0


def many_sessions(way: str, sessions: int, view_mb: float, seed: int) -> int:
    """Talk in so many sessions, two turns each; how much is wrong with memory or with what is stored."""
    views = StoreConfig(view_bytes=int(view_mb * 1e6), deadline_s=60)
    wrong: list[str] = []
    memory: list[float] = []
    print(
        f"{sessions} sessions, {way}, views of {view_mb:g} MB\n{'sessions':>10} {'MB':>7} {'objects':>10}"
    )
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        store = open_store(f"sqlite:///{folder}/ce.db")
        engine = create_context_engine(store, config=RuntimeConfig(store=views))
        stack.callback(engine.sync.close)
        watch(engine)
        model = fake_model()
        if way != "by hand":
            stack.enter_context(install_ce(model, engine=engine))
        for n in range(sessions):
            if way == "LangChain":
                chat(model, n)
            elif way == "one call":
                ask(model, n)
            else:
                talk(engine, n, ends=n % NEVER_ENDED > 0)
            if n in (sessions // 100, *(at * sessions // MARKS - 1 for at in range(1, MARKS + 1))):
                engine.sync.flush(60)
                gc.collect()
                memory.append(resident())
                print(f"{n + 1:10} {memory[-1]:7.1f} {sys.getallocatedblocks():10}", flush=True)
        # Before, views fill up, and what is remembered of a framework's newest 20,000 runs.
        if memory[-1] - memory[2] > view_mb:
            wrong.append(
                f"from {2 * sessions // MARKS} sessions on, {memory[-1] - memory[2]:.1f} MB more"
            )
        if memory[-1] - memory[0] > MOST_TIMES * view_mb + FIXED_MB:
            wrong.append(f"{memory[-1] - memory[0]:.1f} MB for views of {view_mb:g}")
        back = some(100 if way != "one call" else 0, sessions, seed)
        wrong += filter(None, (come_back(engine, n) for n in back))
        print(f"{len(back)} of them came back and were compared")
    return told(wrong)


def resident() -> float:
    """Megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def judgements(oddities: Sequence[Oddity]) -> Iterator[Judged]:
    for oddity in oddities:
        for store in STORES:
            for judge in (by_hand, through_langchain):
                with tempfile.TemporaryDirectory() as folder:
                    yield judge(oddity, store, Path(folder))


def odd_inputs(oddities: Sequence[Oddity]) -> int:
    """Judge them on every store and way; how many went wrong or took too long."""
    failed = count = 0
    print(f"{'CPU s':>7} {'most':>7}  what, how")
    for one in judgements(oddities):
        count += 1
        what, most = f"{one.oddity.name}, {one.way}", one.oddity.most_seconds
        print(f"{one.seconds:7.2f} {most:7.2f}  {what}", flush=True)
        late = f"{one.seconds:.1f} s, expected {most:.1f} at most" if one.seconds > most else ""
        failed += told([f"{what}: {wrong}" for wrong in (one.wrong, late) if wrong])
    print(f"{len(oddities)} inputs, {count} judged")
    return failed


def told(wrong: Sequence[str]) -> int:
    for each in wrong:
        print(f"FAILED {each}", flush=True)
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
