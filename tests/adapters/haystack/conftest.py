"""What tests of Haystack share: models of a wire, and what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from ce_engine import ContextEngine, Scope, SessionDocument
from ce_engine.schema.rows import TurnRow
from ce_integrations.haystack import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.haystack.contract_apps import Model


class MakeModel(Protocol):
    """Makes a model that talks to the wire."""

    def __call__(self, wire: Wire, **settings: Any) -> Model: ...


@pytest.fixture
def install() -> Any:
    return install_ce


@pytest.fixture
def model(runner: asyncio.Runner) -> Iterator[MakeModel]:
    made: list[Model] = []

    def make(wire: Wire, **settings: Any) -> Model:
        made.append(Model(wire, **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()
        runner.run(each.close_async())


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


@pytest.fixture
def kept(engine: ContextEngine) -> Stored:
    return Stored(engine)
