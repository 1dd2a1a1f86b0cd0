"""Messages of the host that are mapped already, recognised by identity."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ce_engine import HostMessage


Native = TypeVar("Native")

MAX_STRONG = 4096
"""Mapped messages that are held strongly, where the host's objects have no weak references."""


class KnownMessages(Generic[Native]):
    """Mapped messages of natives that have not changed; the same `HostMessage` object every time.

    A native counts as known only while it lives and its parts are the same: an id alone would also
    name whatever takes its place in memory. Parts that are the same objects are not looked into.
    """

    def __init__(
        self,
        to_schema: Callable[[Native], HostMessage],
        parts: Callable[[Native], tuple[object, ...]],
    ) -> None:
        self._to_schema = to_schema
        self._parts = parts
        self._weak: dict[int, tuple[weakref.ref[Any], tuple[object, ...], HostMessage]] = {}
        self._strong: OrderedDict[int, tuple[Native, tuple[object, ...], HostMessage]]
        self._strong = OrderedDict()

    def __call__(self, native: Native) -> HostMessage:
        key, parts = id(native), self._parts(native)
        weak = self._weak.get(key)
        if weak is not None and weak[0]() is native and weak[1] == parts:
            return weak[2]
        strong = self._strong.get(key)
        if strong is not None and strong[0] is native and strong[1] == parts:
            return strong[2]
        host = self._to_schema(native)
        self._keep(key, native, parts, host)
        return host

    def _keep(self, key: int, native: Native, parts: tuple[object, ...], host: HostMessage) -> None:
        entries = self._weak

        def forget(gone: weakref.ref[Any]) -> None:
            entry = entries.get(key)
            if entry is not None and entry[0] is gone:
                entries.pop(key, None)

        try:
            entries[key] = (weakref.ref(native, forget), parts, host)
        except TypeError:  # a dict, or an object with slots
            self._strong[key] = (native, parts, host)
            while len(self._strong) > MAX_STRONG:
                self._strong.popitem(last=False)
