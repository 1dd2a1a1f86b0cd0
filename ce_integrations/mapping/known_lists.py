"""Lists of the host whose messages are mapped already: of the next one only what holds something else is mapped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeVar

from ce_engine import HostMessage
from ce_integrations.mapping.known_messages import MAX_CHARS, MAX_EQUALS, KnownMessages, Mapped
from ce_integrations.mapping.unmapped import is_unmapped


Native = TypeVar("Native")

LEAST = 8
"""Messages of a list that is worth being remembered."""

LARGE = 20_000
"""Characters that a message may hold beside its text: with pictures and artifacts it is mapped each time."""


@dataclass(frozen=True, slots=True)
class _List:
    """What the messages of a list are, what they held, as copies, and what they are mapped to.

    `chars` are those of the copies.
    """

    kinds: list[type]
    states: list[_Copy | None]
    mapped: list[Mapped]
    chars: int = 0


_NONE = _List([], [], [])


class KnownLists(Generic[Native]):
    """The last list of each line of conversation.

    Hosts change messages in place, and make new objects of the same: so all that a message holds is compared
    with what it held, which costs a comparison of dicts. One that holds more than text and plain data is
    mapped as if there were no list.

    Args:
        messages: maps messages, and knows them one by one.
        states: gives all that natives hold, live; `None` where that is no plain data.
    """

    def __init__(
        self,
        messages: KnownMessages[Native],
        states: Callable[[Sequence[Native]], Sequence[Mapping[str, Any]] | None],
    ) -> None:
        self._messages = messages
        self._states = states
        self._lists: OrderedDict[Hashable, _List] = OrderedDict()
        self._count = self._chars = 0  # of all lists

    def __call__(self, natives: Sequence[Native], line: Hashable) -> list[HostMessage]:
        """Map the list that goes out on a line of conversation."""
        live = self._live(natives) if len(natives) >= LEAST else None
        if live is None:
            return [*chain.from_iterable(map(self._messages, natives))]
        entry = self._lists.get(line)
        now = self._next(_NONE if entry is None else entry, natives, live)
        self._keep(line, now)
        return [*chain.from_iterable(now.mapped)]

    def _live(self, natives: Sequence[Native]) -> Sequence[Mapping[str, Any]] | None:
        try:
            return self._states(natives)
        except Exception:  # noqa: BLE001 - one of them is no message of the framework's
            return None

    def clear(self) -> None:
        """Forget all of them, such as when somebody's words were deleted."""
        self._lists.clear()
        self._count = self._chars = 0

    def _keep(self, line: Hashable, now: _List) -> None:
        """Keep a list; the oldest go while all are too much together, and so does one that is too much alone."""
        if line in self._lists:
            self._drop(line)
        self._lists[line] = now
        self._count += len(now.mapped)
        self._chars += now.chars
        while self._count > 2 * MAX_EQUALS or self._chars > 2 * MAX_CHARS:
            self._drop(next(iter(self._lists)))

    def _drop(self, line: Hashable) -> None:
        entry = self._lists.pop(line)
        self._count -= len(entry.mapped)
        self._chars -= entry.chars

    def _next(
        self, entry: _List, natives: Sequence[Native], live: Sequence[Mapping[str, Any]]
    ) -> _List:
        kinds, end = [*map(type, natives)], min(len(natives), len(entry.mapped))
        if _is_same(entry.kinds[:end], kinds[:end]) and _is_same(entry.states[:end], live[:end]):
            mapped, states, chars = entry.mapped[:end], entry.states[:end], entry.chars
        else:  # somewhere in the midst one is another, or all stand in other places
            pairs = zip(kinds, live, entry.kinds, entry.states, strict=False)
            same = [kind is before and _is_same(state, now) for kind, now, before, state in pairs]
            mapped = [
                entry.mapped[n] if same[n] else self._messages(natives[n]) for n in range(end)
            ]
            states = [
                entry.states[n] if same[n] else _copied(live[n], mapped[n]) for n in range(end)
            ]
            chars = sum(map(_chars, states))
        new = [*map(self._messages, natives[end:])]
        copies = [*map(_copied, live[end:], new)]
        return _List(kinds, states + copies, mapped + new, chars + sum(map(_chars, copies)))


def _is_same(before: object, now: object) -> bool:
    try:
        return bool(before == now)
    except Exception:  # noqa: BLE001 - what a host's objects say of their equality may raise anything
        return False


def _chars(copy: _Copy | None) -> int:
    return 0 if copy is None else copy.chars


class _NotPlainError(Exception):
    """A value that is neither text nor plain data, or that is too much to be kept twice."""


@dataclass(slots=True, eq=False)
class _Copy:
    """What a message held, to be compared with what it holds; `chars` counts its texts, and 8 for all else."""

    most: int
    chars: int = 0
    state: Any = None

    def __eq__(self, other: object) -> bool:
        return bool(self.state == other)

    __hash__ = None  # type: ignore[assignment]

    def plain(self, value: Any, *, listed: bool = False) -> Any:
        """A copy; numbers in lists, such as arguments of calls, are told apart by their types."""
        kind = type(value)
        self.chars += len(value) if kind is str else 8
        if self.chars > self.most:
            raise _NotPlainError
        if kind is str or value is None:
            return value
        if kind is dict:
            return {key: self.plain(item, listed=listed) for key, item in value.items()}
        if kind is list:
            return [self.plain(item, listed=True) for item in value]
        if kind in (int, float, bool):
            return _Number(value) if listed else value
        raise _NotPlainError


def _copied(state: Mapping[str, Any], mapped: Mapped) -> _Copy | None:
    """What a message holds, to be compared with; `None`, which equals nothing, for what cannot be."""
    if len(mapped) != 1 or is_unmapped(mapped[0]):
        return None
    copy = _Copy(2 * len(mapped[0].message.content) + LARGE)
    try:
        copy.state = copy.plain(state)
    except (_NotPlainError, RecursionError):  # data may be nested deeper than Python's stack
        return None
    return copy


@dataclass(frozen=True, slots=True)
class _Number:
    """A number that equals none of another type: `1`, `1.0` and `True` are written in three ways."""

    value: float

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self.value) and other == self.value

    __hash__ = None  # type: ignore[assignment]
