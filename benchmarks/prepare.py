"""How long a preparation within 4,000 tokens takes as a conversation grows, beside `trim_messages`.

    pip install ".[langchain]" && python benchmarks/prepare.py

Three kinds of app: *stored*, a stateless chain that sends its question and whose history we keep;
*resent*, an agent that sends all its messages, the very same objects, each time; *copies*, the same with
new message objects at every call. Ours is the whole of what stands before the model call (mapping,
recognising, choosing, the plan as messages), called as an adapter calls it; what is new is written to a
SQLite file meanwhile, and waited for between two calls. Medians in milliseconds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    trim_messages,
)
from langchain_core.messages.utils import count_tokens_approximately

from ce_engine import BudgetConfig, RuntimeConfig
from ce_engine.text.tokens import default_estimator
from ce_integrations.install.adapter import CallInfo
from ce_integrations.langchain import install_ce


BUDGET = 4_000
COUNT = default_estimator()
WORDS = [
    "flight",
    "hotel",
    "river",
    "bridge",
    "ticket",
    "museum",
    "station",
    "harbour",
    "market",
    "castle",
    "garden",
    "square",
    "tower",
    "breakfast",
    "luggage",
    "passport",
    "window",
    "coffee",
    "island",
    "ferry",
    "tram",
    "museum",
    "concert",
    "theatre",
    "library",
]
SYSTEM = "You are a travel agent. Answer from what was said before."


def sentence(rng: random.Random, words: int) -> str:
    return " ".join([*rng.choices(WORDS, k=words), str(rng.randrange(10_000))])


def question(rng: random.Random) -> HumanMessage:
    return HumanMessage(sentence(rng, 20))


def answer(rng: random.Random) -> AIMessage:
    return AIMessage(sentence(rng, 90))


def talk(rng: random.Random, messages: int) -> list[BaseMessage]:
    return [SystemMessage(SYSTEM), *((question, answer)[n % 2](rng) for n in range(messages))]


def copied(messages: list[BaseMessage]) -> list[BaseMessage]:
    return [message.model_copy() for message in messages]


class Ours:
    """Our preparation of a model's input, as its adapter asks for it, a turn at a time."""

    def __init__(self, url: str) -> None:
        config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=BUDGET))
        self.installed = install_ce(FakeListChatModel(responses=["-"]), store=url, config=config)

    def turn(self, session: str, given: list[BaseMessage], answer: AIMessage) -> float:
        """Milliseconds of one preparation; its answer is recorded, and all is stored, before the next."""
        hooks = self.installed.hooks
        start = time.perf_counter()
        sent, turn = hooks.before_model(given, CallInfo(session_id=session))
        took = (time.perf_counter() - start) * 1000
        assert turn is not None
        assert sum(len(str(m.content)) for m in sent) < 8 * BUDGET
        hooks.after_model(turn, answer)
        assert self.installed.flush()
        return took


def stored(ours: Ours, rng: random.Random, messages: int, calls: int) -> list[float]:
    took = [
        ours.turn("stored", [SystemMessage(SYSTEM), question(rng)], answer(rng))
        for _ in range(messages // 2 + calls)
    ]
    return took[-calls:]


def resent(
    ours: Ours, rng: random.Random, messages: int, calls: int, *, copies: bool = False
) -> list[float]:
    said, took = talk(rng, messages), []
    for _ in range(calls + 1):
        said = [*said, question(rng)]
        answered = answer(rng)
        took.append(ours.turn(f"resent {copies}", copied(said) if copies else said, answered))
        said = [*said, answered]
    return took[1:]


def trimmed(
    rng: random.Random, messages: int, calls: int, count: Callable[[list[BaseMessage]], int]
) -> list[float]:
    said, took = talk(rng, messages), []
    for _ in range(calls):
        said = [*said, question(rng)]
        start = time.perf_counter()
        sent = trim_messages(
            said, max_tokens=BUDGET, token_counter=count, strategy="last", include_system=True
        )
        took.append((time.perf_counter() - start) * 1000)
        assert 0 < len(sent) <= len(said)
        said = [*said, answer(rng)]
    return took


def exactly(messages: list[BaseMessage]) -> int:
    return sum(COUNT.estimate_text(str(m.content), "gpt-4o") + 3 for m in messages)


def row(messages: int, calls: int, seed: int) -> dict[str, float]:
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(f"sqlite:///{Path(folder) / 'ce.db'}")
        kinds: dict[str, Callable[[random.Random], list[float]]] = {
            "stored": lambda rng: stored(ours, rng, messages, calls),
            "resent": lambda rng: resent(ours, rng, messages, calls),
            "copies": lambda rng: resent(ours, rng, messages, calls, copies=True),
            "trim approx.": lambda rng: trimmed(rng, messages, calls, count_tokens_approximately),
            "trim exact": lambda rng: trimmed(rng, messages, min(calls, 5), exactly),
        }
        for name, took in kinds.items():
            found[name] = statistics.median(took(random.Random(seed)))
        assert not ours.installed.faults
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Preparing within 4,000 tokens.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--calls", type=int, default=50, help="of each kind, at each size")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rows: dict[int, dict[str, Any]] = {}
    print(f"seed {options.seed}, {options.calls} calls of each kind; ms at the median")
    for size in options.sizes:
        rows[size] = found = row(size, options.calls, options.seed)
        cells = "  ".join(f"{name} {ms:8.2f}" for name, ms in found.items())
        print(f"{size:6} messages:  {cells}", flush=True)
    first, last = rows[options.sizes[0]], rows[options.sizes[-1]]
    print(
        f"stored: {options.sizes[-1]} messages take {last['stored'] / first['stored']:.2f} times as long"
    )


if __name__ == "__main__":
    main()
