"""A call without a user id is given nobody's history (B-03)."""

from __future__ import annotations

import pytest

from ce_engine import (
    ContextEngine,
    MemoryStore,
    Message,
    ModelCall,
    Role,
    RuntimeConfig,
    Scope,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, user


NOBODY = Scope(session_id="s")


def talked(*, require_user: bool, scope: Scope = NOBODY) -> ContextEngine:
    config = RuntimeConfig(require_user=require_user)
    engine = create_context_engine(MemoryStore(), config=config)
    HostApp(engine, scope).ask("My number is 4711.", "Noted.")
    return engine


def given(engine: ContextEngine, scope: Scope = NOBODY) -> str:
    """What an app that keeps no history is given, and what one is that asks by hand."""
    asked = "What is my number?"
    made = engine.sync.prepare(ModelCall(scope, [user(asked)]))
    by_hand = engine.sync.prepare_turn(scope, Message(role=Role.USER, content=asked))
    return f"{made.plan} {made.assembled} {by_hand.assembled_input}"


@pytest.mark.req("B-03")
def test_nobody_is_given_what_somebody_said() -> None:
    engine = talked(require_user=True)
    assert "4711" not in given(engine)
    engine.sync.close()
    engine = talked(require_user=False)
    assert "4711" in given(engine)
    engine.sync.close()


@pytest.mark.req("B-03")
def test_who_has_an_id_is_given_their_own() -> None:
    mine = Scope(session_id="s", user_id="li")
    engine = talked(require_user=True, scope=mine)
    assert "4711" in given(engine, mine)
    assert "4711" not in given(engine)
    engine.sync.close()


def test_it_is_recorded_in_a_session_of_its_own() -> None:
    engine = talked(require_user=True)
    engine.sync.flush()
    assert engine.sync.get_session(NOBODY) is None
    (one,) = engine.sync.list_sessions(ephemeral=True)
    document = engine.sync.get_session(one.session_id)
    assert document is not None
    assert [m.content for m in document.session.messages] == ["My number is 4711.", "Noted."]
    engine.sync.close()
