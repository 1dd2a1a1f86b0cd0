"""Ways to use a framework that few apps have: what an app gets is the same without us and with us."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import pytest

from ce_engine import ContextEngine
from tests.adapters.natives import Natives


class Use(NamedTuple):
    """How an app is made, what it does with what was made, awaited or not, and what comes of it."""

    make: Callable[[], Any]
    use: Callable[[Any], Any]
    expected: Any


class OddUseTests(Natives):
    """A framework has uses by name."""

    uses: ClassVar[dict[str, Use]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "name" in metafunc.fixturenames:
            metafunc.parametrize("name", self.uses)

    @pytest.mark.req("A-23", "A-24")
    def test_an_app_gets_the_same(self, name: str, engine: ContextEngine) -> None:
        make, use, expected = self.uses[name]
        assert done(use(make())) == expected
        target = make()
        with self.adapter.install_ce(target, engine=engine, session_id="s"):
            assert done(use(target)) == expected


def done(result: Any) -> Any:
    async def awaited() -> Any:
        return await result

    return asyncio.run(awaited()) if inspect.isawaitable(result) else result
