"""What tests of AutoGen share: clients of a wire, and what is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from ce_engine import ContextEngine, Scope, SessionDocument
from ce_engine.schema.rows import TurnRow
from ce_integrations.testing.wire import Wire
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

    def said(self, session_id: str = "s", user_id: str = "") -> list[tuple[str, str, str]]:
        """(kind of the author, its name, content) of each message that has a content."""
        return [
            (str(m.author.kind), m.author.id or "", m.content) if m.author else ("", "", m.content)
            for m in self.document(session_id, user_id).session.messages
            if m.content
        ]

    def runs(self, session_id: str = "s") -> list[tuple[str, Any, str]]:
        """(tool, arguments, status) of each run of a tool."""
        calls = self.document(session_id).session.tool_state.tool_calls
        return [(call.tool, call.args_digest, str(call.status)) for call in calls]


@pytest.fixture
def stored(engine: ContextEngine) -> Stored:
    return Stored(engine)
