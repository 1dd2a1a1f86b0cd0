"""Messages of the host that are mapped already, recognised by what they say or by identity."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ce_engine import HostMessage
from ce_integrations.wrapping.bounded_maps import ByIdentity


Native = TypeVar("Native")

Mapped = tuple[HostMessage, ...]
"""What a native stands for, most often one message."""

MAX_STRONG = 4096
"""Mapped messages that are held strongly, where the host's objects have no weak references."""

MAX_CHARS, MAX_EQUALS = 4_000_000, 6_000
"""Text and messages in one generation of those that are recognised by what they say; two are held."""


def _raised(_: object, error: Exception) -> Mapped:
    raise error


class KnownMessages(Generic[Native]):
    """Mapped messages of natives that have not changed; the same `HostMessage` objects every time.

    Plain messages are known by all that is mapped of them: many hosts make new objects for each call.
    Others count as known only while they live and their parts are the same: an id alone would also
    name whatever takes its place in memory. Parts that are the same objects are not looked into.

    Args:
        to_schema: maps a native.
        parts: what tells that it is unchanged.
        alike: all that is mapped of a plain one, as one value.
        unread: what stands for one of which any of these raised; without it that is raised.
    """

    def __init__(
        self,
        to_schema: Callable[[Native], Mapped],
        parts: Callable[[Native], tuple[object, ...]],
        alike: Callable[[Native], Hashable | None] = lambda _: None,
        unread: Callable[[Native, Exception], Mapped] = _raised,
    ) -> None:
        self._to_schema = to_schema
        self._parts = parts
        self._alike = alike
        self._unread = unread
        self._equal: dict[Hashable, Mapped] = {}
        self._equal_before: dict[Hashable, Mapped] = {}
        self._chars = 0
        self._weak: ByIdentity[tuple[tuple[object, ...], Mapped]] = ByIdentity()
        self._strong: OrderedDict[int, tuple[Native, tuple[object, ...], Mapped]]
        self._strong = OrderedDict()

    def __call__(self, native: Native) -> Mapped:
        try:
            return self._map_native(native)
        except Exception as error:  # noqa: BLE001 - what an app's objects say may raise anything
            return self._unread(native, error)  # each time: it may be read then

    def _map_native(self, native: Native) -> Mapped:
        key = self._alike(native)
        if key is None:
            return self._by_identity(native)
        hosts = self._equal.get(key)
        return self._put(key, native) if hosts is None else hosts

    def clear(self) -> None:
        """Forget all of them, such as when somebody's words were deleted."""
        self._equal, self._equal_before, self._chars = {}, {}, 0
        self._weak.clear()
        self._strong.clear()

    def _put(self, key: Hashable, native: Native) -> Mapped:
        """Keep a message by what it says; those that nobody asked for during a generation are forgotten."""
        hosts = self._equal_before.get(key) or self._to_schema(native)
        self._chars += sum(len(host.message.content) for host in hosts)
        if self._chars > MAX_CHARS or len(self._equal) > MAX_EQUALS:
            self._equal_before, self._equal, self._chars = self._equal, {}, 0
        self._equal[key] = hosts
        return hosts

    def _by_identity(self, native: Native) -> Mapped:
        parts, weak = self._parts(native), self._weak.get(native)
        if weak is not None and weak[0] == parts:
            return weak[1]
        strong = self._strong.get(id(native))
        if strong is not None and strong[0] is native and strong[1] == parts:
            return strong[2]
        hosts = self._to_schema(native)
        if not self._weak.put(native, (parts, hosts)):
            self._strong[id(native)] = (native, parts, hosts)
            while len(self._strong) > MAX_STRONG:
                self._strong.popitem(last=False)
        return hosts
