"""What tests of Haystack share: models of a wire, and what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from ce_engine import ContextEngine
from ce_integrations.haystack import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.haystack.contract_apps import Model
from tests.adapters.stored import Stored


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


@pytest.fixture
def kept(engine: ContextEngine) -> Stored:
    return Stored(engine)
