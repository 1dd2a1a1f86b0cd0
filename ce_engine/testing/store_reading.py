"""Reads of a session that is there, for tests of stores."""

from __future__ import annotations

from ce_engine.ports.store import Store
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.rows import SessionState
from ce_engine.schema.scope import Scope
from ce_engine.testing.samples import SCOPE


async def read_state(store: Store, scope: Scope = SCOPE, **after: int) -> SessionState:
    """The state of a session that is there."""
    state = await store.state(scope, **after)
    assert state is not None
    return state


async def read_document(store: Store, scope: Scope = SCOPE) -> SessionDocument:
    """The document of a session that is there."""
    document = await store.get_session(scope)
    assert document is not None
    return document


async def read_names(store: Store, scope: Scope = SCOPE) -> list[str | None]:
    """The ids of the session's messages, in order."""
    return [row.message.message_id for row in (await read_state(store, scope)).rows]
