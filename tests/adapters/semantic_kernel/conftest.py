"""What tests of Semantic Kernel share: services at a wire, and what is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ce_engine import ContextEngine, Scope, SessionDocument
from ce_engine.schema.rows import TurnRow
from ce_integrations.testing.wire import Wire
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


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store has of a session, once everything is stored."""

    engine: ContextEngine

    def document(self, session_id: str = "s", user_id: str = "") -> SessionDocument:
        assert self.engine.sync.flush()
        scope = Scope(session_id=session_id, user_id=user_id)
        found = self.engine.loop.run(self.engine.store.get_session(scope))
        assert found is not None, f"no session {session_id!r} of {user_id!r}"
        return found

    def turns(self, session_id: str = "s", user_id: str = "") -> list[TurnRow]:
        assert self.engine.sync.flush()
        scope = Scope(session_id=session_id, user_id=user_id)
        return list(self.engine.loop.run(self.engine.store.list_turns(scope)))

    def sessions(self) -> list[Any]:
        """All, ephemeral ones too."""
        assert self.engine.sync.flush()
        found = self.engine.store.list_sessions(user_id=None, ephemeral=True)
        return list(self.engine.loop.run(found))

    def said(self, session_id: str = "s", user_id: str = "") -> list[tuple[str, str]]:
        """(author, content) of each message that has a content; a person's is nobody's."""
        return [
            (m.author.id if m.author and m.role == "assistant" else "", m.content)
            for m in self.document(session_id, user_id).session.messages
            if m.content
        ]

    def runs(self, session_id: str = "s") -> list[tuple[str, Any, str]]:
        """(function, arguments, status) of each run."""
        calls = self.document(session_id).session.tool_state.tool_calls
        return [(call.tool, call.args_digest, str(call.status)) for call in calls]


@pytest.fixture
def stored(engine: ContextEngine) -> Stored:
    return Stored(engine)
