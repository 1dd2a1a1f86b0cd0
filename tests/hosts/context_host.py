"""A host with settings and sources, and what of them is collected for a call of its."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ce_engine import ContextEngine, ContextPiece, ModelCall, Scope
from ce_engine.prepare.blocks.material import CollectedContext
from ce_engine.testing.host import system, user
from ce_engine.text.tokens.call_tokens import Counter


SCOPE = Scope(session_id="s", user_id="u", account_id="a", project_id="p")


def call(scope: Scope = SCOPE, text: str = "What now?", **values: Any) -> ModelCall:
    return ModelCall(
        scope=scope, messages=[system("You help."), user(text)], request_id=text, **values
    )


async def collect(engine: ContextEngine, asked: ModelCall) -> CollectedContext:
    """What the engine collects for a call, as `prepare` does it."""
    config, collector = asked.config or engine.config, engine._collector

    async def work() -> CollectedContext:
        fetched = await collector.fetch(asked, config)
        view, _ = await engine._sessions.view(asked.scope, ephemeral=asked.ephemeral)
        owned = await collector.owned(asked, view)
        count = Counter(engine.estimator, None).text
        return collector.collect(
            asked, config, view, owned=owned, fetched=fetched, base=CollectedContext(), count=count
        )

    return await engine.loop.share(work())


def told(collected: CollectedContext) -> list[str]:
    return [material.text for material in collected.materials]


@dataclass
class Notes:
    """A source that answers what it was given, and remembers what it was asked."""

    answer: Any = ()
    name: str = "notes"
    section: str = "knowledge__context"
    asked: list[tuple[Scope, str, int]] = field(default_factory=list)

    async def fetch(self, scope: Scope, query: str, limit: int) -> Sequence[ContextPiece]:
        self.asked.append((scope, query, limit))
        if isinstance(self.answer, BaseException):
            raise self.answer
        found: Sequence[ContextPiece] = self.answer
        return found
