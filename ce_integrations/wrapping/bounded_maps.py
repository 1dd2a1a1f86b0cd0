"""Maps that forget, which any thread may use: by size, and by what lives."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from ce_engine.runtime.fork import renew_after_fork


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedMap(Generic[K, V]):
    """Forgets what was not touched for longest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[K, V] = OrderedDict()
        self._renew()
        renew_after_fork(self._renew)

    def _renew(self) -> None:
        """A new lock, for a forked child: a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        value = self._items.get(key)
        if value is not None and 2 * len(self._items) > self._size:  # else nothing goes soon
            with self._lock:
                if key in self._items:
                    self._items.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> V:
        """Keep `value` unless there is one already; return the one that is kept."""
        with self._lock:
            stored_value = self._items.setdefault(key, value)
            self._items.move_to_end(key)
            while len(self._items) > self._size:
                self._items.popitem(last=False)
            return stored_value

    def pop(self, key: K) -> V | None:
        with self._lock:
            return self._items.pop(key, None)

    def forget(self, is_gone: Callable[[K], bool]) -> None:
        """Drop the keys of which this is true."""
        with self._lock:
            for key in [key for key in self._items if is_gone(key)]:
                del self._items[key]


class ByIdentity(Generic[V]):
    """A value for an object as long as that lives, whatever it says of its equality."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[weakref.ref[Any], V]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: object) -> V | None:
        entry = self._held.get(id(key))
        return entry[1] if entry is not None and entry[0]() is key else None

    def items(self) -> list[tuple[Any, V]]:
        """Objects that live, with their values."""
        entries = ((ref(), value) for ref, value in list(self._held.values()))
        return [(key, value) for key, value in entries if key is not None]

    def put(self, key: object, value: V) -> bool:
        """Keep `value` in the place of another; false for what has no weak references."""
        entries, place = self._held, id(key)

        def forget(reference: weakref.ref[Any]) -> None:
            entry = entries.get(place)
            if entry is not None and entry[0] is reference:
                entries.pop(place, None)

        try:
            entries[place] = (weakref.ref(key, forget), value)
        except TypeError:  # a dict, or an object with slots
            return False
        return True

    def clear(self) -> None:
        self._held.clear()
