"""What tests of AutoGen share: clients of a wire, and what is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest

from ce_engine import ContextEngine
from ce_integrations.testing.wire import Wire
from tests.adapters import stored
from tests.adapters.autogen.contract_apps import Client


class MakeClient(Protocol):
    """Makes a client that talks to the wire; `info` is of the model."""

    def __call__(self, wire: Wire, **info: Any) -> Client: ...


@pytest.fixture
async def client() -> AsyncIterator[MakeClient]:
    made: list[Client] = []

    def make(wire: Wire, **info: Any) -> Client:
        made.append(Client(wire, **info))
        return made[-1]

    yield make
    for each in made:
        await each.close()


class Stored(stored.Stored):
    """And who said what."""

    def said(self, session_id: str = "s", user_id: str = "") -> list[tuple[str, str, str]]:
        """(kind of the author, its name, content) of each message that has a content."""
        return [
            (str(m.author.kind), m.author.id or "", m.content) if m.author else ("", "", m.content)
            for m in self.document(session_id, user_id).session.messages
            if m.content
        ]


@pytest.fixture(name="stored")
def _stored(engine: ContextEngine) -> Stored:
    return Stored(engine)
