"""Embedders that know a few subjects, and those that fail."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ce_engine import (
    BudgetConfig,
    CollectConfig,
    ContextEngine,
    Message,
    PrepareResult,
    Role,
    RuntimeConfig,
    StoreConfig,
    create_context_engine,
)


SUBJECTS = (
    ("married", "spouse", "husband", "wedding", "结婚", "丈夫", "配偶"),
    ("pets", "dog", "cat", "kitten", "狗"),
    ("europe", "spain", "lisbon", "西班牙", "欧洲"),
    ("money", "bank", "interest", "salary", "工资"),
    ("astronomy", "telescope", "stars", "望远镜"),
)


@dataclass
class Subjects:
    """An embedder whose vectors are what a text is about; it remembers what it was asked."""

    name: str = "subjects"
    asked: list[list[str]] = field(default_factory=list)

    async def embed(self, texts: Sequence[str]) -> Any:
        self.asked.append(list(texts))
        return [self.vector(text) for text in texts]

    @property
    def texts(self) -> list[str]:
        return [text for texts in self.asked for text in texts]

    @staticmethod
    def vector(text: str) -> list[float]:
        low = text.lower()
        about = [float(sum(word in low for word in words)) for words in SUBJECTS]
        return [*about, 0.1, 0.01 * (sum(map(ord, low)) % 7)]


@dataclass
class EnglishOnly(Subjects):
    """It has no vector for a text without a Latin letter."""

    async def embed(self, texts: Sequence[str]) -> Any:
        found = await super().embed(texts)
        can = [any(c.isascii() and c.isalpha() for c in text) for text in texts]
        return [vector if reads else [] for vector, reads in zip(found, can, strict=True)]


@dataclass
class Failing(Subjects):
    """It answers what it is told to, or raises it."""

    answer: Any = None

    async def embed(self, texts: Sequence[str]) -> Any:
        found = await super().embed(texts)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(found)


@dataclass
class Slow(Subjects):
    """It answers when it may."""

    may: asyncio.Event = field(default_factory=asyncio.Event)

    async def embed(self, texts: Sequence[str]) -> Any:
        await self.may.wait()
        return await super().embed(texts)


WRONG: dict[str, Any] = {
    "it raises": RuntimeError("My SECRET husband"),
    "one too few": lambda found: found[1:],
    "of two sizes": lambda found: [vector[: 3 + n % 2] for n, vector in enumerate(found)],
    "not a number": lambda found: [[math.nan for _ in vector] for vector in found],
    "no vectors": lambda found: [None for _ in found],
    "words": lambda found: ["abc" for _ in found],
    "one number each": lambda found: [1.0 for _ in found],
}

FACTS = (
    "My husband is called Luis.",
    "I bought a telescope to look at the stars.",
    "The bank raised its interest rates.",
    "The dog ate the carpet.",
)
ASKED = "Who is she married to?"
FACTS_ZH = (
    "我的丈夫叫路易斯。",
    "我买了一台望远镜。",
    "银行提高了利率,工资没有变。",
    "狗把地毯吃了。",
)
ASKED_ZH = "她和谁结婚了?"


def settings(tokens: int = 420, deadline_s: float = 30.0, **more: Any) -> RuntimeConfig:
    limits = BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0)
    collect, store = CollectConfig(deadline_s=deadline_s), StoreConfig(deadline_s=30.0)
    # A busy machine is no fault here, and the vocabulary of this model is on every machine that tests.
    return RuntimeConfig(model_hint="gpt-4", budget=limits, collect=collect, store=store, **more)


def engine_with(embedder: Any, url: Any = "memory://", **config: Any) -> ContextEngine:
    return create_context_engine(url, embedder=embedder, config=settings(**config))


def talk(engine: ContextEngine, facts: Sequence[str] = FACTS, more: int = 40) -> None:
    """A session in which much is said after the facts."""
    for text in [
        *facts,
        *(f"Thing number {n} was dull, and it took a while." for n in range(more)),
    ]:
        ask(engine, text)
        engine.sync.commit_assistant_message("s", Message(role=Role.ASSISTANT, content="I see."))


def ask(engine: ContextEngine, text: str, config: RuntimeConfig | None = None) -> PrepareResult:
    return engine.sync.prepare_turn("s", Message(role=Role.USER, content=text), config)


def sent(found: PrepareResult) -> str:
    """What goes out, without numbers that are others each time: of the fence, and ids."""
    texts = "\n".join(part.content for part in found.assembled_input.parts)
    return re.sub(r"\[/?\d{6}\]|evidence \w{8}", "", texts)
