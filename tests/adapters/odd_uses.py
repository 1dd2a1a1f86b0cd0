"""Ways to use a framework that few apps have: what an app gets is the same without us and with us."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import pytest

from ce_engine import ContextEngine
from tests.adapters.natives import Natives


TEXTS = ("one", "two")


class Use(NamedTuple):
    """How an app is made, what it does with what was made, awaited or not, and what comes of it."""

    make: Callable[[], Any]
    use: Callable[[Any], Any]
    expected: Any


class Mute:
    """What tells nothing of itself, as an array has no truth value."""

    def _refuse(self, *_: Any) -> Any:
        raise ValueError("ask me something else")

    __bool__ = __str__ = __eq__ = __ne__ = _refuse
    __hash__ = object.__hash__


class Pieces:
    """A stream that can be read, and is no iterator."""

    def __init__(self, *pieces: Any) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[Any]:
        yield from self.pieces

    async def __aiter__(self) -> AsyncIterator[Any]:
        for piece in self.pieces:
            yield piece


def once(
    make: Callable[[], Any], item: Callable[[str], Any], use: Callable[[Any, Any], Any]
) -> dict[str, Use]:
    """Uses of what is given items in a way that they can be read once; it gives `"one two"`."""

    def stopping() -> Iterator[Any]:
        yield item("one")
        raise LookupError

    def using(items: Callable[[], Any]) -> Callable[[Any], Any]:
        return lambda target: use(target, items())

    ways: dict[str, Callable[[], Any]] = {
        "a generator": lambda: (item(text) for text in TEXTS),
        "a map": lambda: map(item, TEXTS),
        "a list in reverse": lambda: reversed([item(text) for text in reversed(TEXTS)]),
        "a tuple": lambda: tuple(map(item, TEXTS)),
    }
    uses = {name: Use(make, using(items), "one two") for name, items in ways.items()}
    return {**uses, "a generator that fails": Use(make, using(stopping), LookupError)}


class OddUseTests(Natives):
    """A framework has uses by name."""

    uses: ClassVar[dict[str, Use]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "name" in metafunc.fixturenames:
            metafunc.parametrize("name", self.uses)

    @pytest.mark.req("A-23", "A-24")
    def test_an_app_gets_the_same(self, name: str, engine: ContextEngine) -> None:
        make, use, expected = self.uses[name]
        assert done(use, make()) == expected
        target = make()
        with self.adapter.install_ce(target, engine=engine, session_id="s"):
            assert done(use, target) == expected


def done(use: Callable[[Any], Any], target: Any) -> Any:
    """What a use gives, or the kind of what it raises."""

    async def awaited(result: Awaitable[Any]) -> Any:
        return await result

    try:
        result = use(target)
        return asyncio.run(awaited(result)) if inspect.isawaitable(result) else result
    except LookupError as error:
        return type(error)
