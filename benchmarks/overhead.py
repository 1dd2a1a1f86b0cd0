"""What context engineering adds to a call of a LangChain chain, beside the bare chain and what others add.

    pip install ".[langchain,bench]" && python benchmarks/overhead.py

Each variant (bare, a callback handler that does nothing, OpenInference with spans kept in memory, ours
on a SQLite file) asks the same fake model (5 ms) the same questions, in turn; printed are the medians of
what a call costs over the bare one: CPU of the calling thread, of the process, and wall time. A *short*
call has one question, each in a session of its own; a *long* one is a chat that begins with 60 messages
and grows by two a call, twenty calls long.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

from ce_engine import BudgetConfig, RuntimeConfig
from ce_integrations.langchain import install_ce


WORDS = [
    "the",
    "flight",
    "to",
    "Lisbon",
    "leaves",
    "at",
    "nine",
    "and",
    "the",
    "hotel",
    "is",
    "by",
    "the",
    "river",
    "with",
    "a",
    "view",
    "of",
    "the",
    "old",
    "bridge",
]
ANSWERS_AFTER_S = 0.005
"""A model that answers at once would let the bare app run from warm caches, as no app does."""

CHAT = 20
"""Calls of a long chat before another one begins."""


class NoOp(BaseCallbackHandler):
    """Hears everything and does nothing."""


def a_chain() -> Any:
    prompt = ChatPromptTemplate.from_messages(
        [("system", "You are a travel agent."), MessagesPlaceholder("talk"), ("human", "{q}")]
    )
    answer = " ".join(WORDS)
    return prompt | FakeListChatModel(responses=[answer], sleep=ANSWERS_AFTER_S) | StrOutputParser()


def talk(messages: int) -> list[BaseMessage]:
    kinds = (HumanMessage, AIMessage)
    return [kinds[n % 2](f"{n}: {' '.join(WORDS)}") for n in range(messages)]


class App:
    """Asks a chain, one question after the other; each is timed."""

    def __init__(self, messages: int) -> None:
        self.chain = a_chain()
        self.messages = messages
        self.calls = 0
        self.talk: list[BaseMessage] = []

    def given(self) -> tuple[dict[str, Any], Any]:
        calls_a_session = CHAT if self.messages else 1
        if self.calls % calls_a_session == 0:
            self.talk = talk(self.messages)
        thread = f"{self.messages}-{self.calls // calls_a_session}"
        self.calls += 1
        question = f"{self.calls}: when does {WORDS[self.calls % len(WORDS)]} begin?"
        return {"talk": self.talk, "q": question}, {"configurable": {"thread_id": thread}}

    def heard(self, given: dict[str, Any], answer: str) -> None:
        if self.messages:
            self.talk = [*self.talk, HumanMessage(given["q"]), AIMessage(answer)]

    def invoke(self) -> list[float]:
        given, config = self.given()
        start = clocks()
        answer = self.chain.invoke(given, config)
        took = since(start)
        self.heard(given, answer)
        return took

    async def ainvoke(self) -> list[float]:
        given, config = self.given()
        start = clocks()
        answer = await self.chain.ainvoke(given, config)
        took = since(start)
        self.heard(given, answer)
        return took


def clocks() -> tuple[float, float, float]:
    return time.thread_time(), time.process_time(), time.perf_counter()


def since(start: tuple[float, float, float]) -> list[float]:
    """Milliseconds of the calling thread's CPU, of the process's CPU, and of the clock."""
    return [(now - then) * 1000 for then, now in zip(start, clocks(), strict=True)]


# The variants


@contextmanager
def bare(_: App) -> Iterator[None]:
    yield


@contextmanager
def no_op(app: App) -> Iterator[None]:
    app.chain = app.chain.with_config(callbacks=[NoOp()])
    yield


@contextmanager
def open_inference(_: App) -> Iterator[None]:
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    LangChainInstrumentor().instrument(tracer_provider=provider)
    yield
    assert spans.get_finished_spans()


@contextmanager
def ours(app: App) -> Iterator[None]:
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=16_000))
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'ce.db'}"
        with install_ce(app.chain, store=url, config=config) as installed:
            yield
            assert installed.flush()
            assert not installed.faults, installed.faults
            recorded = len(
                installed.engine.loop.run(installed.engine.store.list_sessions(user_id=None))
            )
            assert recorded == -(-app.calls // (CHAT if app.messages else 1)), recorded


VARIANTS = {each.__name__: each for each in (bare, no_op, open_inference, ours)}


def measured(variant: str, mode: str, messages: int, calls: int) -> list[list[float]]:
    """What each call took, of one variant in this process; the first tenth warms up."""
    app = App(messages)
    with VARIANTS[variant](app):
        if mode == "invoke":
            took = [app.invoke() for _ in range(calls)]
        else:

            async def ask() -> list[list[float]]:
                return [await app.ainvoke() for _ in range(calls)]

            took = asyncio.run(ask())
    return took[calls // 10 :]


def apart(*arguments: object) -> list[list[float]]:
    """The same in a process of its own: what one variant patches, another one must not meet."""
    command = [sys.executable, __file__, "--child", *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: list[list[float]] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="What a call costs, beside others.")
    parser.add_argument("--calls", type=int, default=300, help="of each variant in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=VARIANTS, help="one variant beside the bare one")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        variant, mode, messages, calls = options.child
        print(json.dumps(measured(variant, mode, int(messages), int(calls))))
        return
    names = [n for n in VARIANTS if not options.only or n in ("bare", options.only)]
    print(f"{options.rounds} rounds of {options.calls} calls a variant; ms added at the median")
    print(f"{'call':18} {'variant':15} {'caller CPU':>11} {'process CPU':>12} {'wall':>8}")
    for mode in ("invoke", "ainvoke"):
        for messages in (0, 60):
            took: dict[str, list[list[float]]] = {name: [] for name in names}
            for _ in range(options.rounds):
                for name in names:
                    took[name] += apart(name, mode, messages, options.calls)
            print_rows(f"{mode} {'long' if messages else 'short'}", took)


def print_rows(call: str, took: dict[str, list[list[float]]]) -> None:
    medians = {
        name: [statistics.median(column) for column in zip(*rows, strict=True)]
        for name, rows in took.items()
    }
    base = medians["bare"]
    for name, row in medians.items():
        shown = row if name == "bare" else [a - b for a, b in zip(row, base, strict=True)]
        caller, process, wall = shown
        label = name if name == "bare" else f"+ {name}"
        print(f"{call:18} {label:15} {caller:11.2f} {process:12.2f} {wall:8.2f}", flush=True)


if __name__ == "__main__":
    main()
