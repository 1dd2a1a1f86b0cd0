"""What a test of an adapter looks for in the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ce_engine import ContextEngine, Scope, SessionDocument
from ce_engine.schema.rows import TurnRow


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

    def people_in(self, people: Sequence[str]) -> list[list[str]]:
        """Who of them is in each session, whatever of it has their name."""
        documents = (self.document(each.session_id) for each in self.sessions())
        texts = [document.model_dump_json() for document in documents]
        return [[name for name in people if name in text] for text in texts]

    def runs(self, session_id: str = "s") -> list[tuple[str, Any, str]]:
        """(tool, arguments, status) of each run of a tool."""
        calls = self.document(session_id).session.tool_state.tool_calls
        return [(call.tool, call.args_digest, str(call.status)) for call in calls]
