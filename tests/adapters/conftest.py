"""What tests of every adapter get: an app run without us and with us, what was stored, none of what a release lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

import pytest

from ce_engine import ContextEngine, MemoryStore, Scope, SessionDocument, create_context_engine
from ce_integrations.install.adapter import Installation
from ce_integrations.testing.answers import JsonObject, Script
from ce_integrations.testing.wire import Wire


SHARED = ("canary", "demos", "examples", "pairs")
pytest.register_assert_rewrite(*(f"tests.adapters.{name}" for name in SHARED))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect, and count as such, what needs a thing that the installed release does not have."""
    lacking = [item for item in items if not all(_has(item, need) for need in _needs(item))]
    items[:] = [item for item in items if item not in lacking]
    config.hook.pytest_deselected(items=lacking)


@pytest.fixture(scope="session", autouse=True)
def clients_end_in_nobody_elses_loop() -> None:
    """A client of OpenAI's that a test left would close itself in the loop of the test that collects it."""
    try:
        wrapper: Any = import_module("openai._base_client").AsyncHttpxClientWrapper
    except (ImportError, AttributeError):  # not every framework's environment has it
        return
    if "__del__" in vars(wrapper):
        del wrapper.__del__


def _needs(item: pytest.Item) -> Iterator[str]:
    for mark in item.iter_markers("needs"):
        yield from mark.args


def _has(item: pytest.Item, need: str) -> bool:
    """Whether the framework has it: `releases.py`, beside the test, tells."""
    found: bool = import_module(f"tests.adapters.{item.path.parent.name}.releases").HAS[need]
    return found


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


@pytest.fixture
def stored(engine: ContextEngine) -> Callable[..., SessionDocument]:
    """The document of a session, once everything is stored."""

    def read(session_id: str, user_id: str = "") -> SessionDocument:
        assert engine.sync.flush()
        scope = Scope(session_id=session_id, user_id=user_id)
        found = engine.loop.run(engine.store.get_session(scope))
        assert found is not None, f"no session {session_id!r} of {user_id!r}"
        return found

    return read


@pytest.fixture
def sessions(engine: ContextEngine) -> Callable[[], list[Any]]:
    """All sessions, ephemeral ones too."""

    def read() -> list[Any]:
        assert engine.sync.flush()
        found = engine.loop.run(engine.store.list_sessions(user_id=None, ephemeral=True))
        return list(found)

    return read


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for the whole test, as an app has."""
    with asyncio.Runner() as made:
        yield made


@dataclass
class Twins:
    """What the app without us and the app with us sent and got."""

    plain: list[bytes] = field(default_factory=list)
    ours: list[bytes] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    bodies: list[JsonObject] = field(default_factory=list)
    installation: Installation[Any, Any] | None = None


class Compare(Protocol):
    def __call__(
        self,
        build: Callable[[Wire], Any],
        drive: Callable[[Any], Any],
        script: Script = None,
        **options: Any,
    ) -> Twins: ...


@pytest.fixture
def twins(engine: ContextEngine, install: Callable[..., Any]) -> Compare:
    """Build the app and drive it twice, `install`ed the second time; asserts that no request was refused."""

    def compare(
        build: Callable[[Wire], Any],
        drive: Callable[[Any], Any],
        script: Script = None,
        **options: Any,
    ) -> Twins:
        found = Twins()
        with Wire(script) as wire:
            found.results.append(drive(build(wire)))
            found.plain = [sent.raw for sent in wire.requests]
            assert wire.refusals == []
        with Wire(script) as wire:
            app = build(wire)
            found.installation = install(app, engine=engine, **options)
            try:
                found.results.append(drive(app))
            finally:
                found.installation.uninstall()
            found.ours = [sent.raw for sent in wire.requests]
            found.bodies = wire.bodies
            assert wire.refusals == []
        return found

    return compare
