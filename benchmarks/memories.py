"""What goes out of a long conversation within 4,000 tokens: AutoGen's and LlamaIndex's own memories, and ours.

    pip install ".[demo-autogen]" && python benchmarks/memories.py --framework autogen
    pip install ".[demo-llamaindex]" && python benchmarks/memories.py --framework llamaindex

Ten facts are said in the first half of a talk of questions, answers and calls of a tool; then each is
asked for. Timed is what stands between the question and the list that goes out (medians: the clock, the
process's CPU); then the framework's own client sends that list to a server that refuses what providers
refuse. Printed are the tokens of the bodies (the largest), how many were taken, and how many of the
facts were in the body that asked for them.

Where a list takes longer than three seconds and does not depend on the question, it is made once: at
5,000 messages `ChatMemoryBuffer` takes minutes. AutoGen's `TokenLimited...` counts by its client's
counter: here one that keeps what it has counted, which the real one does not.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any


sys.path.insert(0, str(Path(__file__).resolve().parent))

from memories_talk import BUDGET, Fact, Memory, Said, answer, encode, facts, talk
from openai import BadRequestError

from ce_integrations.testing.body_tokens import count_body_tokens
from ce_integrations.testing.wire import Wire


SLOW_MS = 3_000


@dataclass
class Figures:
    """Of one memory at one size."""

    took: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    found: int = 0
    asked: int = 0

    def row(self) -> str:
        ms, cpu, most = statistics.median(self.took), statistics.median(self.cpu), max(self.tokens)
        taken = f"{len(self.tokens) - len(self.refused)} of {len(self.tokens)}"
        return (
            f"{ms:10.2f} ms, CPU {cpu:10.2f} ({len(self.took):2} calls)  {most:5} tokens  {taken:>8} taken  "
            f"{self.found:2} of {self.asked} facts"
        )


async def measured(
    part: Any, memory: Memory, said: list[Said], told: list[Fact], seed: int
) -> Figures:
    rng, figures, bodies = random.Random(seed), Figures(asked=len(told)), list[dict[str, Any]]()
    warm = Said("user", "Good morning, is anybody there?")
    await memory.fill([part.native(each) for each in [*said, warm]])
    with Wire("-") as wire:
        sender = part.Sender(wire.base_url)
        for fact in told:
            question = part.native(Said("user", fact.question))
            start, cpu = time.perf_counter(), time.process_time()
            sent = await memory.ask(question)
            figures.took.append((time.perf_counter() - start) * 1000)
            figures.cpu.append((time.process_time() - cpu) * 1000)
            with suppress(BadRequestError):  # the wire knows of it
                await sender.send(sent)
            text = answer(rng)
            await memory.answered(part.native(Said("assistant", text)), part.result(text))
            if figures.took[-1] > SLOW_MS and not memory.reads:
                break
        await sender.close()
        bodies = wire.bodies
        figures.refused = [refusal.message for refusal in wire.refusals]
    assert len(bodies) == len(figures.took)
    figures.tokens = [count_body_tokens(body, encode) for body in bodies]
    lists = [repr(body["messages"]) for body in bodies]
    lists += lists[-1:] * (len(told) - len(lists))
    figures.found = sum(fact.value in sent for fact, sent in zip(told, lists, strict=True))
    return figures


async def main() -> None:
    parser = argparse.ArgumentParser(description="Memories within 4,000 tokens.")
    parser.add_argument("--framework", choices=("autogen", "llamaindex"), default="autogen")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--only", help="a memory whose name begins so")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    part = import_module(f"memories_{options.framework}")
    print(f"{options.framework}, seed {options.seed}, within {BUDGET} tokens")
    for size in options.sizes:
        rng = random.Random(options.seed)
        told = facts(rng)
        said = talk(rng, size, told)
        with tempfile.TemporaryDirectory() as folder:
            for name, memory in part.memories(f"sqlite:///{Path(folder) / 'ce.db'}").items():
                if name.startswith(options.only or ""):
                    figures = await measured(part, memory, said, told, options.seed)
                    print(f"{size:6} messages  {name:34} {figures.row()}", flush=True)
                    for message in figures.refused[:1]:
                        print(f"{'':16}  refused: {message}")


if __name__ == "__main__":
    asyncio.run(main())
