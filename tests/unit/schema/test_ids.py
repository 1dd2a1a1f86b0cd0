"""Ids, time and hashes: defaults that can be exchanged (A-04, A-26)."""

from __future__ import annotations

import hashlib
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from ce_engine import MemoryStore, Message, Role, Scope, create_context_engine
from ce_engine.schema.ids import Sha256Hasher, SystemClock, UuidV4Generator
from ce_engine.testing import IdsInOrder


class Noon:
    """A clock that stands still."""

    def now_iso(self) -> str:
        return "2026-01-01T12:00:00Z"


@pytest.mark.req("A-04")
def test_the_defaults_are_uuid_4_utc_and_sha_256() -> None:
    made = {UuidV4Generator().generate() for _ in range(100)}
    assert len(made) == 100
    assert {uuid.UUID(one).version for one in made} == {4}
    now = SystemClock().now_iso()
    assert now.endswith("Z")
    assert abs(datetime.fromisoformat(now) - datetime.now(UTC)) < timedelta(minutes=1)
    assert Sha256Hasher().digest("上下文") == hashlib.sha256("上下文".encode()).hexdigest()


@pytest.mark.req("A-04", "A-26")
def test_others_are_used_everywhere() -> None:
    engine = create_context_engine(MemoryStore(), clock=Noon(), id_generator=IdsInOrder("id-"))
    engine.sync.prepare_turn("s", Message(role=Role.USER, content="hello"))
    engine.sync.commit_assistant_message("s", Message(role=Role.ASSISTANT, content="hi"))
    scope = Scope(session_id="s")
    document = engine.loop.run(engine.store.get_session(scope))
    events = engine.loop.run(engine.store.list_events(scope))
    assert document is not None
    assert {m.at for m in document.session.messages} == {"2026-01-01T12:00:00Z"}
    assert {e.ts for e in events} == {"2026-01-01T12:00:00Z"}
    ids = [m.message_id or "" for m in document.session.messages]
    assert all(one.startswith("id-") for one in [*ids, *(e.event_id for e in events)])
    engine.sync.close()
