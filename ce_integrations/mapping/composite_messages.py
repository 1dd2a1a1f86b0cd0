"""Messages of a framework that stand for several: mapped part by part, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Any, TypeVar

from ce_engine import Extend, HostMessage, Keep, Prepared, Shorten, Step
from ce_integrations.mapping.message_adapter import MessageAdapter


Native = TypeVar("Native")

_OBJECT: Callable[[HostMessage], object] = attrgetter("obj")


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the `count` messages that a native stands for; the `HostMessage` of each holds its own."""

    native: Any
    place: int
    count: int


def mapped(
    adapter: MessageAdapter[Native], native: Native, to_schema: Callable[[Native], HostMessage]
) -> tuple[HostMessage, ...]:
    """What a native stands for, message by message."""
    parts = adapter.split(native)
    if len(parts) == 1:
        return (to_schema(native),)
    hosts = tuple(map(to_schema, parts))
    for place, (host, part) in enumerate(zip(hosts, parts, strict=True)):
        host.obj = _Part(part, place, len(parts))
    return hosts


def natives_of(
    adapter: MessageAdapter[Native], natives: Sequence[Native], prepared: Prepared
) -> list[Native]:
    """The plan's steps as natives; what is kept whole is the very same object.

    `natives` are those that were prepared, and perhaps others that the app has added since.
    """
    hosts = prepared.call.messages
    if _Part not in map(type, map(_OBJECT, hosts)):  # most often
        whole: Sequence[int] = range(len(hosts))
    else:  # one that is a later part has the native of the message before it
        whole = list(accumulate((not _is_later_part(host) for host in hosts), initial=-1))[1:]

    def native_of(step: Step) -> int | None:
        return whole[step.index] if isinstance(step, Keep | Shorten | Extend) else None

    outgoing: list[Native] = []
    for n, steps in groupby(prepared.plan, native_of):
        if n is None:
            outgoing += [adapter.to_native(step, None) for step in steps]
        else:
            outgoing.append(_rebuild(adapter, natives[n], list(steps), hosts))
    return outgoing


def _is_later_part(host: HostMessage) -> bool:
    return isinstance(host.obj, _Part) and host.obj.place > 0


def _rebuild(
    adapter: MessageAdapter[Native], native: Native, steps: list[Any], hosts: Sequence[HostMessage]
) -> Native:
    """A native of which these steps are left."""
    part = hosts[steps[0].index].obj
    count = part.count if isinstance(part, _Part) else 1
    if len(steps) == count and all(isinstance(step, Keep) for step in steps):
        return native
    if count == 1:
        return adapter.to_native(steps[0], native)
    parts: list[tuple[Step, Any]] = [(step, hosts[step.index].obj) for step in steps]
    return adapter.join(
        native,
        [
            part.native if isinstance(step, Keep) else adapter.to_native(step, part.native)
            for step, part in parts
        ],
    )
