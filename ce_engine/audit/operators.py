"""What an operator reads: sessions of every project, as the store lists them."""

from __future__ import annotations

from ce_engine.ports.store import Store
from ce_engine.schema.rows import HEAD_ONLY, SessionInfo
from ce_engine.schema.scope import Scope


async def operators_scope(store: Store, info: SessionInfo) -> Scope:
    """The scope of a session that is listed, of whichever project it is (D-10)."""
    key = info.account_id, info.user_id, info.session_id
    scope = Scope.of_stored(*key)
    state = await store.state(scope, after_seq=HEAD_ONLY, after_evidence=HEAD_ONLY)
    return scope if state is None else Scope.of_stored(*key, state.head.project_id)
