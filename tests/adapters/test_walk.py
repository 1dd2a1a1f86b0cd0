"""What is found of an object: all that it holds or calls, and nothing is evaluated for it."""

from __future__ import annotations

from functools import partial
from typing import Any

from ce_integrations.wrapping.walk import walk
from tests.adapters.test_base import Note


def test_the_walk_evaluates_nothing() -> None:
    class Lazy:
        __slots__ = ("set_one", "unset")

        def __init__(self) -> None:
            self.set_one = target

        @property
        def expensive(self) -> None:
            raise AssertionError("a property was evaluated")

        def __getattr__(self, name: str) -> None:
            raise RuntimeError(f"a proxy was asked for its {name} outside of a request")

    target = Note("user", "found me")
    helper = Lazy()

    def uses(default: Any = helper) -> Any:
        return default

    cyclic: dict[str, Any] = {"f": [uses]}
    cyclic["self"] = cyclic
    assert target in [each for each in walk(cyclic, ("no_such_package",)) if isinstance(each, Note)]


def test_the_walk_reads_no_vector() -> None:
    """An index in memory holds millions of numbers, and is a part of every engine over it."""

    class Vector(list[float]):
        def __iter__(self) -> Any:
            raise AssertionError("a vector was read")

    target = Note("user", "found me")
    held = {"vectors": {"a": Vector([0.5] * 64)}, "model": [Vector([1.0] * 64), target]}
    assert target in list(walk(held, ("no_such_package",)))


def test_the_walk_reads_what_merely_begins_with_a_number() -> None:
    target, empty = Note("user", "found me"), list[Any]()
    found = list(walk([partial(print, 3, target), empty], ("no_such_package",)))
    assert target in found
    assert any(each is empty for each in found)


def test_the_walk_goes_where_it_is_told() -> None:
    target = Note("user", "found me")
    registered: dict[int, list[Any]] = {}

    class Flow:
        """Knows its steps by a registry only."""

    def step() -> Any:
        return target

    flow = Flow()
    registered[id(flow)] = [step]
    assert target not in list(walk([flow], ("no_such_package",)))
    found = list(walk([flow], ("no_such_package",), lambda each: registered.get(id(each), ())))
    assert found.count(target) == 1
