"""A client that asks another one has that one's window, model and provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from autogen_core import InMemoryStore
from autogen_core.models import ChatCompletionClient
from autogen_ext.models.cache import ChatCompletionCache

from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.autogen.configurations import agent


pytestmark = pytest.mark.req("A-08", "A-24")

LONG = "word " * 900


class Delegating(ChatCompletionClient):
    """A client of the app's own, as one writes it to count or to try again."""

    def __init__(self, inner: ChatCompletionClient) -> None:
        self.inner = inner

    async def create(self, messages: Any, **options: Any) -> Any:
        return await self.inner.create(messages, **options)

    async def create_stream(self, messages: Any, **options: Any) -> AsyncIterator[Any]:  # type: ignore[override]  # the base says nothing of its being a generator
        async for chunk in self.inner.create_stream(messages, **options):
            yield chunk

    async def close(self) -> None:
        await self.inner.close()

    def actual_usage(self) -> Any:
        return self.inner.actual_usage()

    def total_usage(self) -> Any:
        return self.inner.total_usage()

    def count_tokens(self, messages: Any, **options: Any) -> int:
        return self.inner.count_tokens(messages, **options)

    def remaining_tokens(self, messages: Any, **options: Any) -> int:
        return self.inner.remaining_tokens(messages, **options)

    @property
    def capabilities(self) -> Any:
        return self.inner.capabilities

    @property
    def model_info(self) -> Any:
        return self.inner.model_info


def cached(inner: ChatCompletionClient) -> ChatCompletionClient:
    return ChatCompletionCache(inner, InMemoryStore())


@pytest.mark.parametrize(
    "around",
    [lambda own: own, cached, Delegating, lambda own: Delegating(cached(own))],
    ids=["plain", "cached", "delegating", "both"],
)
async def test_the_window_is_the_one_of_who_asks_the_provider(
    around: Any, client: Any, engine: Any, stored: Any
) -> None:
    with Wire("ok") as wire:
        ann = agent("ann", around(client(wire)))
        with install_ce(ann, engine=engine) as installation, ce_session("s"):
            for n in range(12):
                await ann.run(task=f"task {n} {LONG}")
            report = installation.last_report("s")
        assert installation.faults == ()
        asked = [m for m in wire.bodies[-1]["messages"] if m["role"] == "user"]
    assert "task 11" in asked[-1]["content"]
    assert len(asked) < 12, "nothing was cut"
    assert report is not None
    assert report.token_budget == 7168, "gpt-4 has 8,192, and an answer needs its room"
    used = stored.document().session.model_usage
    assert {(usage.provider, usage.model) for usage in used} == {("openai", "gpt-4")}
