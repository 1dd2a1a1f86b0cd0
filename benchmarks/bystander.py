"""How long a call of one session waits while another session stores hostile texts of 1 MB.

    pip install . && python benchmarks/bystander.py

One engine, one SQLite file. The bystander asks a short question in a session of its own and commits the
answer, again and again: first alone, then while another thread stores one hostile text after the other
in sessions of its own, as the result of a tool. Milliseconds of the bystander's `prepare_turn` and
`commit_assistant_message` together, and how much longer the slowest of them took than the slowest alone.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from ce_engine import Message, RedactionConfig, RedactionRules, Role, RuntimeConfig, ToolRun
from ce_engine.create import create_context_engine
from ce_engine.sync import SyncEngine


def shapes(size: int, seed: int) -> dict[str, str]:
    """Hostile texts by name."""
    rng = random.Random(seed)

    def again(text: str) -> str:
        return (text * (size // len(text) + 1))[:size]

    base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    people = [{"name": f"n{n}", "mail": f"u{n}@x.com", "password": f"hunter{n}"} for n in range(9)]
    return {
        "prose": again("The quick brown fox jumps over the lazy dog, and then it rests. "),
        "`password:` again": again("password:"),
        "`token=` again": again("token="),
        "`a@a@a@`": again("a@"),
        "digits": "".join(rng.choices("0123456789", k=size)),
        "phones": again("138-0013-8000 "),
        "accounts": again("DE89370400440532013000 "),
        "nested JSON": "[" * (size // 2) + "]" * (size // 2),
        "JSON of people": again(json.dumps(people)),
        "Chinese": "".join(map(chr, rng.choices(range(0x4E00, 0x9FA5), k=size))),
        "base64": "".join(rng.choices(base64, k=size)),
        "one letter": "a" * size,
    }


def asked(engine: SyncEngine, number: int) -> float:
    """Milliseconds of one call of the bystander's."""
    start = time.perf_counter()
    engine.prepare_turn("bystander", Message(role=Role.USER, content=f"Is it {number} o'clock?"))
    engine.commit_assistant_message("bystander", Message(role=Role.ASSISTANT, content="It is."))
    return (time.perf_counter() - start) * 1000


def while_it_runs(engine: SyncEngine, work: Future[None] | None, least: int) -> list[float]:
    """The bystander's calls until the work is done, and `least` at any rate."""
    took: list[float] = []
    while len(took) < least or (work is not None and not work.done()):
        took.append(asked(engine, len(took)))
        time.sleep(0.002)
    return took


def stored(engine: SyncEngine, text: str, times: int, name: str) -> float:
    """Store a text in sessions of its own; seconds of one."""
    start = time.perf_counter()
    for n in range(times):
        with suppress(Exception):  # an engine of before may refuse what is nested too deep
            engine.record_tool_run(f"hostile {name} {n}", ToolRun("read", {}, text))
    return (time.perf_counter() - start) / times


def told(name: str, took: list[float], alone: list[float], seconds: float) -> str:
    longer = max(took) - max(alone)
    ratio = statistics.median(took) / statistics.median(alone)
    return (
        f"{name:22} {seconds:7.2f} s to store   bystander: median {statistics.median(took):7.1f} "
        f"({ratio:.1f} times)  slowest {max(took):8.1f}  longer by {longer:8.1f} ms"
    )


def measured(engine: SyncEngine, name: str, text: str, times: int) -> Iterator[str]:
    while_it_runs(engine, None, 20)
    alone = while_it_runs(engine, None, 100)
    with ThreadPoolExecutor(1) as pool:
        seconds: list[float] = []
        store: Callable[[], None] = lambda: seconds.append(stored(engine, text, times, name))  # noqa: E731
        took = while_it_runs(engine, pool.submit(store), 1)
    yield told(name, took, alone, seconds[0])


def run(size: int, times: int, seed: int, only: list[str]) -> None:
    texts = {name: text for name, text in shapes(size, seed).items() if not only or name in only}
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'ce.db'}"
        engine = create_context_engine(url).sync
        for name, text in texts.items():
            print(*measured(engine, name, text, times), sep="\n", flush=True)
        engine.close()
        if only:
            return
        rules = RedactionRules(patterns={"employee": r"(a|aa)+\d"})
        config = RuntimeConfig(redaction=RedactionConfig(rules=rules))
        engine = create_context_engine(url, config=config).sync
        text = "a" * 60 + "!"
        print(*measured(engine, "owner's `(a|aa)+\\d`", text, times), sep="\n", flush=True)
        engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="A bystander beside hostile texts.")
    parser.add_argument("--size", type=int, default=1_000_000, help="characters of a text")
    parser.add_argument("--times", type=int, default=3, help="how often each is stored")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="names of texts")
    options = parser.parse_args()
    print(f"{options.size} characters, each {options.times} times; ms; {threading.active_count()}")
    run(options.size, options.times, options.seed, options.only)


if __name__ == "__main__":
    main()
