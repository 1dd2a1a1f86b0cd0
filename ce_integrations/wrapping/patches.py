"""Attributes that are replaced while somebody needs it, and put back by identity."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from types import ModuleType
from typing import Any, TypeVar

from ce_integrations.wrapping.function_kinds import as_function
from ce_integrations.wrapping.guard import Guard


Make = Callable[[Any], Any]
"""From the original attribute to its wrapper; a method of a class is given as a function of its object."""

Place = type | ModuleType

Makers = Mapping[Place, Mapping[str, Make]]
"""The wrappers of methods by their names, by the class that defines them first; of a module's functions, too."""

Kind = type | Callable[[Any], bool]
"""What objects are of a kind: those of a class, or those of which a function says so, whatever their class."""

K = TypeVar("K", bound=Kind)
P = TypeVar("P", bound=Place)

_NOTHING = object()

_BORN = "__init_subclass__"
"""What Python calls of a class when another one is derived from it."""

_unowned = Guard()
"""For the app's own classes: a fault of ours is logged there, and in no installation's list."""


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


def _is_same(left: object, right: object) -> bool:
    """Whether two values hold the very same objects; nothing of the host is asked whether it is equal."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_is_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_is_same(left[key], right[key]) for key in left)
    return left is right


def is_of(subject: object, kind: Kind) -> bool:
    """Whether an object is of a kind; one that cannot even be asked is not."""
    if isinstance(kind, type):
        return isinstance(subject, kind)
    with suppress(Exception):
        return bool(kind(subject))
    return False


def definitions(
    makers: Mapping[K, Mapping[str, Make]], instances: Iterable[object]
) -> Iterator[tuple[type, str, Make]]:
    """What to hold for methods of these kinds: the classes' own, and those of the classes of `instances`."""
    subjects = list(instances)
    for kind, by_name in makers.items():
        if isinstance(kind, type):
            kinds: list[type] = [
                kind,
                *(type(subject) for subject in subjects if isinstance(subject, kind)),
            ]
            classes = {cls for base in kinds for cls in base.__mro__ if issubclass(cls, kind)}
        else:
            kinds = [type(subject) for subject in subjects if is_of(subject, kind)]
            classes = {cls for base in kinds for cls in base.__mro__}
        for cls in classes:
            yield from _own(cls, by_name)


def _own(cls: P, by_name: Mapping[str, Make]) -> Iterator[tuple[P, str, Make]]:
    return ((cls, name, make) for name, make in by_name.items() if name in vars(cls))


def all_definitions(makers: Makers) -> Iterator[tuple[Place, str, Make]]:
    """The same of every class that is loaded: objects may be made or exchanged while an app runs.

    Those that are abstract do nothing that a wrapper could be for.
    """
    for base, by_name in makers.items():
        for cls in _loaded(base):
            yield from _concrete(cls, by_name)


def _concrete(cls: P, by_name: Mapping[str, Make]) -> Iterator[tuple[P, str, Make]]:
    for definition in _own(cls, by_name):
        if not getattr(vars(cls)[definition[1]], "__isabstractmethod__", False):
            yield definition


def _loaded(base: Place) -> set[Place]:
    # Of a class of classes its own `__subclasses__` would be asked.
    derived: Iterable[type] = type.__subclasses__(base) if isinstance(base, type) else ()
    return {base}.union(*map(_loaded, derived))


@dataclass(slots=True)
class _Patch:
    original: Any
    wrapper: Any
    holders: int = 0


@dataclass(slots=True, eq=False)
class _Hold:
    """What one holder has wrapped, and what it wants wrapped of classes that are yet to come."""

    places: dict[tuple[Place, str], None] = field(default_factory=dict)
    makers: Makers = field(default_factory=dict)
    is_over: bool = False


class ClassPatches:
    """Wraps methods once for all who hold them; the last one to let go restores the originals."""

    def __init__(self) -> None:
        # A class may be made, and be seen to, while others are wrapped: to look for them may import it.
        self._lock = threading.RLock()
        self._patches: dict[tuple[Place, str], _Patch] = {}
        self._watching: list[_Hold] = []
        self._holds: weakref.WeakKeyDictionary[object, _Hold] = weakref.WeakKeyDictionary()
        self._abandoned: deque[_Hold] = deque()

    def hold(self, places: Iterable[tuple[Place, str, Make]], holder: object) -> Callable[[], None]:
        """Wrap what is not wrapped yet: all of it or, if anything raises, nothing.

        Only attributes that the class defines itself may be named. Returns the way back; where the
        `holder` is gone without having gone it, the next one to come or go does so.
        """
        return self._hold(places, holder, {})

    def hold_all(
        self, makers: Makers, holder: object, more: Iterable[tuple[Place, str, Make]] = ()
    ) -> Callable[[], None]:
        """Hold `all_definitions`, and those of classes that are derived from these later; and `more`.

        A class whose base has an `__init_subclass__` of its own that does not call the next one is not seen.
        """
        bases = [base for base in makers if isinstance(base, type)]
        born = ((base, _BORN, partial(_telling, base, self._born)) for base in bases)
        return self._hold(chain(all_definitions(makers), born, more), holder, makers)

    def extend(self, places: Iterable[tuple[Place, str, Make]], holder: object) -> None:
        """Wrap more for one who holds already, each thing once; it goes with what was held last."""
        with self._lock:
            hold = self._holds.get(holder)
            if hold is not None and not hold.is_over:
                self._take_all(places, hold)

    def _hold(
        self,
        methods: Iterable[tuple[Place, str, Make]],
        holder: object,
        makers: Makers,
    ) -> Callable[[], None]:
        hold = _Hold(makers=makers)
        with self._lock:
            self._clear()
            try:
                self._take_all(methods, hold)
            except BaseException:
                self._give_back(hold)
                raise
            if makers:
                self._watching.append(hold)
            self._holds[holder] = hold

        # Garbage is collected at any moment, under our own lock too: no more than a note is made then.
        weakref.finalize(holder, self._abandoned.append, hold).atexit = False

        def release() -> None:
            with self._lock:
                self._give_back(hold)
                self._clear()

        return release

    def _born(self, cls: type) -> None:
        """Wrap what is wanted of a class that was made just now."""
        with self._lock:
            for hold in list(self._watching):
                for base, by_name in hold.makers.items():
                    if isinstance(base, type) and issubclass(cls, base):
                        self._take_all(_concrete(cls, by_name), hold)

    def _clear(self) -> None:
        while self._abandoned:
            self._give_back(self._abandoned.popleft())

    def _take_all(self, methods: Iterable[tuple[Place, str, Make]], hold: _Hold) -> None:
        for cls, name, make in methods:
            if (cls, name) not in hold.places:
                self._take(cls, name, make)
                hold.places[cls, name] = None

    def _take(self, cls: Place, name: str, make: Make) -> None:
        patch = self._patches.get((cls, name))
        if patch is None or not (patch.holders or _goes_through(vars(cls).get(name), patch)):
            original = vars(cls).get(name, _NOTHING) if name == _BORN else vars(cls)[name]
            method = as_function(original) if isinstance(cls, type) and name != _BORN else original
            patch = _Patch(original, make(method))
            setattr(cls, name, patch.wrapper)
            self._patches[cls, name] = patch
        patch.holders += 1

    def _give_back(self, hold: _Hold) -> None:
        if hold in self._watching:
            self._watching.remove(hold)
        hold.is_over = True
        while hold.places:
            (cls, name), _ = hold.places.popitem()
            patch = self._patches[cls, name]
            patch.holders -= 1
            # Somebody who wrapped it after us keeps our wrapper inside: silent, until the next one holds it.
            if patch.holders or vars(cls).get(name) is not patch.wrapper:
                continue
            del self._patches[cls, name]
            if patch.original is _NOTHING:
                delattr(cls, name)
            else:
                setattr(cls, name, patch.original)


def _goes_through(current: Any, patch: _Patch) -> bool:
    """Whether what is there now calls our wrapper, as far as others say what they wrap (`__wrapped__`)."""
    with suppress(ValueError):  # it wraps itself
        return inspect.unwrap(current, stop=lambda each: each is patch.wrapper) is patch.wrapper
    return False


def _telling(base: Any, born: Callable[[type], None], original: Any) -> Any:
    """The `__init_subclass__` of a class that tells of classes that are derived from it."""

    def init_subclass(cls: Any, /, **kwargs: Any) -> None:
        if original is _NOTHING:
            super(base, cls).__init_subclass__(**kwargs)
        else:
            original.__get__(None, cls)(**kwargs)
        with _unowned("a new class"):
            born(cls)

    return classmethod(init_subclass)
