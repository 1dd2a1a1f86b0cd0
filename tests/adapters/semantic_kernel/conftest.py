"""What tests of Semantic Kernel share: services at a wire, and what is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from ce_engine import ContextEngine
from ce_integrations.testing.wire import Wire
from tests.adapters import stored
from tests.adapters.semantic_kernel.contract_apps import Service


@pytest.fixture
async def service() -> AsyncIterator[Callable[[Wire], Service]]:
    """Makes services that talk to a wire."""
    made: list[Service] = []

    def make(wire: Wire) -> Service:
        made.append(Service(wire))
        return made[-1]

    yield make
    for each in made:
        await each.client.close()


class Stored(stored.Stored):
    """And who said what."""

    def said(self, session_id: str = "s", user_id: str = "") -> list[tuple[str, str]]:
        """(author, content) of each message that has a content; a person's is nobody's."""
        return [
            (m.author.id if m.author and m.role == "assistant" else "", m.content)
            for m in self.document(session_id, user_id).session.messages
            if m.content
        ]


@pytest.fixture(name="stored")
def _stored(engine: ContextEngine) -> Stored:
    return Stored(engine)
