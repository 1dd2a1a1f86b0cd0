"""What one warm call passes and makes, until it is stored: nothing here is timed.

    python benchmarks/one_call.py                       # all of CASES
    python benchmarks/one_call.py --case eight --most 20 --all
    python benchmarks/one_call.py --case eight --case sixty --beside

A model of LangChain is asked again, on SQLite: one message in a session of its own (*short*), eight
(*eight*) and sixty or more (*sixty*) that are resent and within the budget; or the engine is asked by
hand, with some forty messages stored (*hand*). With `--beside` the model is also asked as it is, with a
callback that does nothing, and with OpenInference whose spans stay in memory. *ours* are calls of functions
of both packages, *caller*, *engine* and *writer* those of all functions on these threads; *rounds*, *handles* and *tasks* are of the engine's
event loop, *woken* how often another thread wakes it; *objects* are those that Python's collector has
more afterwards.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import ce_engine
from ce_engine import (
    BudgetConfig,
    Message,
    Role,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)


CASES = ("short", "eight", "sixty", "hand")
BESIDE = ("bare", "callback", "tracer")
CALLS = 10
"""Of which the mean is told, after as many that warm up."""

CONFIG = RuntimeConfig(
    budget=BudgetConfig(max_input_tokens=16_000),
    store=StoreConfig(deadline_s=30),  # who counts is slow
)
HOME = Path(ce_engine.__file__).parents[1]
OURS = tuple(str(HOME / name) for name in ("ce_engine", "ce_integrations"))
ROUND, HANDLE, WOKEN, TASK = "_run_once", "_run", "_write_to_self", "create_task"

Ask = Callable[[], None]


class Counts:
    """Counts what Python calls while it is `on`, by thread."""

    def __init__(self) -> None:
        self.on = False
        self.ours: Counter[tuple[str, str, int]] = Counter()
        self.python: Counter[str] = Counter()
        self.loop: Counter[str] = Counter()
        self.statements = 0
        self.by_all: Counter[tuple[str, str, int]] = Counter()

    def profile(self, frame: FrameType, event: str, given: Any) -> None:
        if not self.on:
            return
        if event == "call":
            code = frame.f_code
            place = code.co_filename, code.co_qualname, code.co_firstlineno
            self.by_all[place] += 1
            self.python[threading.current_thread().name] += 1
            if code.co_filename.startswith(OURS):
                self.ours[place] += 1
            elif "asyncio" in code.co_filename and code.co_name in (ROUND, HANDLE, WOKEN, TASK):
                self.loop[code.co_name] += 1
        elif event == "c_call" and given.__name__ in ("execute", "executemany", "commit"):
            self.statements += 1


@contextmanager
def hosted(case: str, url: str, beside: str = "") -> Iterator[tuple[Ask, Ask]]:
    """A chat of LangChain, with us or what is beside us: what asks once more, and what waits until all is stored."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
    from overhead_langchain import NoOp, open_inference

    from ce_integrations.langchain import install_ce

    model: Any = GenericFakeChatModel(messages=(AIMessage(f"pier {n} is free") for n in count()))
    number, length = count(), {"short": 0, "eight": 0, "sixty": 60}[case]
    talk: list[BaseMessage] = [
        (HumanMessage, AIMessage)[n % 2](f"{n}: the boat of pier {n} leaves at {n % 12} o'clock")
        for n in range(length)
    ]

    def ask() -> None:
        n = next(number)
        question = HumanMessage(f"{n}: when does boat {n} leave?")
        if case == "short":
            model.invoke([question])
            return
        if case == "eight":
            talk[:-6] = []
        talk.append(question)
        talk.append(model.invoke(list(talk)))

    def session(_: object) -> str:
        return f"s{next(number)}" if case == "short" else "s"

    if beside:
        with open_inference() if beside == "tracer" else nullcontext():
            model = model.with_config(callbacks=[NoOp()]) if beside == "callback" else model
            yield ask, lambda: None
        return
    with install_ce(model, store=url, session_id=session, config=CONFIG) as installed:
        yield ask, lambda: _true(installed.flush())
        assert not installed.faults, installed.faults


@contextmanager
def by_hand(url: str) -> Iterator[tuple[Ask, Ask]]:
    scope, number = Scope(session_id="s"), count()
    engine = create_context_engine(store=url, config=CONFIG)

    def ask() -> None:
        n = next(number)
        question = Message(role=Role.USER, content=f"{n}: when does boat {n} leave?")
        engine.sync.prepare_turn(scope, question)
        answer = Message(role=Role.ASSISTANT, content=f"pier {n} is free")
        engine.sync.commit_assistant_message(scope, answer)

    yield ask, lambda: _true(engine.sync.flush())
    engine.sync.close()


def _true(flushed: bool) -> None:
    assert flushed


def counted(case: str, beside: str, counts: Counts, warm: int) -> tuple[float, int]:
    """Count the calls of a case; how many objects Python's collector has more, and bytes on disk, a call."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ce.db"
        around = by_hand(url) if case == "hand" else hosted(case, url, beside)
        with around as (ask, flush):
            for _ in range(warm):
                ask()
            flush()
            counts.on = True
            for _ in range(CALLS):
                ask()
            flush()
            counts.on = False
            gc.collect()
            gc.disable()
            before, written = gc.get_count()[0], _written(folder)
            for _ in range(CALLS):
                ask()
            flush()
            objects = gc.get_count()[0] - before
            written = _written(folder) - written
            gc.enable()
    return objects / CALLS, written // CALLS


def _written(folder: str) -> int:
    """Bytes of the store's log of writes; it is longer than all of the calls, so that none is written over."""
    return sum(file.stat().st_size for file in Path(folder).glob("*-wal"))


def main() -> None:
    """Count, and print what was counted."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--case", choices=CASES, action="append")
    options.add_argument("--most", type=int, default=0, help="show so many functions")
    options.add_argument("--all", action="store_true", help="of them, others' too")
    options.add_argument("--beside", action="store_true", help="without us, and with others, too")
    given = options.parse_args()
    head = "case", "", "files", "functions", "ours", "caller", "engine", "writer", "rounds"
    more = "handles", "woken", "tasks", "statements", "objects", "WAL bytes"
    print(("{:>10} " * 15).format(*head, *more))
    cases = given.case or CASES
    others = [(case, each) for case in cases if case != "hand" for each in BESIDE]
    for case, beside in [*(others if given.beside else ()), *((case, "") for case in cases)]:
        counts = Counts()
        threading.setprofile(counts.profile)  # before the engine's threads begin
        sys.setprofile(counts.profile)
        objects, written = counted(case, beside, counts, 12 if case == "sixty" else CALLS)
        sys.setprofile(None)
        threading.setprofile(None)
        by_thread, loop = counts.python, counts.loop
        row = [
            case,
            beside or "ours",
            len({name for name, _, _ in counts.ours}),
            len(counts.ours),
            counts.ours.total() / CALLS,
            by_thread["MainThread"] / CALLS,
            by_thread["ce-engine"] / CALLS,
            sum(n for name, n in by_thread.items() if name.startswith("ce-store")) / CALLS,
            *(loop[name] / CALLS for name in (ROUND, HANDLE, WOKEN, TASK)),
            counts.statements / CALLS,
            objects,
            written,
        ]
        print(("{:>10} " * len(row)).format(*row))
        shown = counts.by_all if given.all else counts.ours
        for (name, function, line), times in shown.most_common(given.most):
            print(f"{times / CALLS:8.1f} {name.removeprefix(str(HOME) + '/')}:{line} {function}")


if __name__ == "__main__":
    main()
