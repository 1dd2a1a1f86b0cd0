"""Attributes that are replaced while somebody needs it, and put back by identity."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ce_integrations.wrappers import as_function


Make = Callable[[Any], Any]
"""From the original attribute to its wrapper; a method of a class is given as a function of its object."""

Place = type | ModuleType

_NOTHING = object()


def put(
    place: MutableMapping[str, Any],
    key: str,
    add: Callable[[Any], Any],
    take_out: Callable[[Any], Any],
) -> Callable[[], None]:
    """Change a value under a key, such as in an object's `__dict__`, where no validation sees it.

    The way back takes out what is ours (`take_out` gives the very same object where nothing is) and
    leaves what others have put there since; if nobody has, it restores the very object that was
    there, or nothing where nothing was.
    """
    before = take_out(place[key]) if key in place else _NOTHING
    place[key] = add(None if before is _NOTHING else before)
    unchanged = take_out(place[key])

    def undo() -> None:
        now = place.get(key)
        after = take_out(now)
        if after is now:
            return
        if _is_same(after, unchanged):
            after = before
        if after is _NOTHING or (after is None and before is _NOTHING):
            del place[key]
        else:
            place[key] = after

    return undo


def _is_same(one: object, other: object) -> bool:
    """Whether two values hold the very same objects; nothing of the host is asked whether it is equal."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    return one is other


def definitions(
    makers: Mapping[type, Mapping[str, Make]], found: Iterable[object]
) -> Iterator[tuple[type, str, Make]]:
    """What to hold for methods of base classes: the bases' own, and overrides of `found` objects' classes."""
    classes = {*makers, *map(type, found)}
    for base, by_name in makers.items():
        for cls in {each for kind in classes for each in kind.__mro__ if issubclass(each, base)}:
            for name, make in by_name.items():
                if name in vars(cls):
                    yield cls, name, make


def all_definitions(makers: Mapping[type, Mapping[str, Make]]) -> Iterator[tuple[type, str, Make]]:
    """The same of every class that is loaded: objects may be made or exchanged while an app runs.

    Those that are abstract do nothing that a wrapper could be for.
    """
    for base, by_name in makers.items():
        for cls in _loaded(base):
            for name, make in by_name.items():
                if name in vars(cls) and not getattr(
                    vars(cls)[name], "__isabstractmethod__", False
                ):
                    yield cls, name, make


def _loaded(base: type) -> set[type]:
    return {base}.union(*map(_loaded, base.__subclasses__()))


@dataclass(slots=True)
class _Patch:
    original: Any
    wrapper: Any
    holders: int = 0


class ClassPatches:
    """Wraps methods once for all who hold them; the last one to let go restores the originals."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._patches: dict[tuple[Place, str], _Patch] = {}
        self._abandoned: deque[list[tuple[Place, str]]] = deque()

    def hold(self, wanted: Iterable[tuple[Place, str, Make]], holder: object) -> Callable[[], None]:
        """Wrap what is not wrapped yet: all of it or, if anything raises, nothing.

        Only attributes that the class defines itself may be named. Returns the way back; where the
        `holder` is gone without having gone it, the next one to come or go does so.
        """
        held: list[tuple[Place, str]] = []
        with self._lock:
            self._clear()
            try:
                for cls, name, make in wanted:
                    self._take(cls, name, make)
                    held.append((cls, name))
            except BaseException:
                self._give_back(held)
                raise

        # Garbage is collected at any moment, under our own lock too: no more than a note is made then.
        weakref.finalize(holder, self._abandoned.append, held).atexit = False

        def release() -> None:
            with self._lock:
                self._give_back(held)
                self._clear()

        return release

    def _clear(self) -> None:
        while self._abandoned:
            self._give_back(self._abandoned.popleft())

    def _take(self, cls: Place, name: str, make: Make) -> None:
        patch = self._patches.get((cls, name))
        if patch is None:
            original = vars(cls)[name]
            method = as_function(original) if isinstance(cls, type) else original
            patch = _Patch(original, make(method))
            setattr(cls, name, patch.wrapper)
            self._patches[cls, name] = patch
        patch.holders += 1

    def _give_back(self, held: list[tuple[Place, str]]) -> None:
        while held:
            cls, name = held.pop()
            patch = self._patches[cls, name]
            patch.holders -= 1
            if patch.holders:
                continue
            del self._patches[cls, name]
            # Somebody who wrapped it after us keeps our wrapper inside; it is silent by then.
            if vars(cls).get(name) is patch.wrapper:
                setattr(cls, name, patch.original)
