"""Messages that cannot be read: what stands for one, so that it costs nothing but itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ce_engine import Attachment, HostMessage, Message, Origin, Role
from ce_engine.schema.call import UNREADABLE
from ce_integrations.mapping.content_blocks import BYTES_PER_TOKEN
from ce_integrations.mapping.messages import ROLES


__all__ = ["is_unmapped", "paired", "unmapped"]

MAX_VALUES, MAX_OBJECTS = 50_000, 4
"""Values of a message that are looked at for their size, and how far an object is looked into from another."""

_TOLD_BY = ("role", "_role", "type")
"""Where frameworks say whose a message is."""


def unmapped(native: object) -> HostMessage:
    """What stands for a message whose mapper raised: its kind and about what it costs, none of its text.

    It is protected: it goes out as the app's own object, in its place.
    """
    name = type(native).__name__
    role, origin = ROLES.get(_role_word(native), (Role.USER, Origin.TASK))
    tokens = -(-sum(_sizes(native)) // BYTES_PER_TOKEN)
    return HostMessage(
        Message(role=role, content=""),
        origin,
        media=(f"{UNREADABLE} {name} {tokens}",),
        protected=True,
        attachments=(Attachment(UNREADABLE, name=name, tokens=tokens),),
    )


def is_unmapped(host: HostMessage) -> bool:
    """Whether it stands for a message that could not be read."""
    return bool(host.attachments) and host.attachments[0].kind == UNREADABLE


def paired(messages: list[HostMessage]) -> list[HostMessage]:
    """A call's messages, with what cannot be read as the result or the call that its neighbours want.

    No provider takes a call without its results, or results without their call: what stands right behind a
    call answers what nobody else does, and results right behind it stay where they are.
    """
    if not any(map(is_unmapped, messages)):
        return messages
    result = list(messages)
    for start, end in _runs(result):
        _pair(result, start, end)
    return result


def _runs(messages: Sequence[HostMessage]) -> Iterator[tuple[int, int]]:
    """Neighbours that are results, or cannot be read: where such a run begins and ends."""
    start = None
    for n, host in enumerate([*messages, None]):
        is_inside = host is not None and (host.message.role is Role.TOOL or is_unmapped(host))
        if is_inside and start is None:
            start = n
        elif not is_inside and start is not None:
            yield start, n
            start = None


def _pair(messages: list[HostMessage], start: int, end: int) -> None:
    """Pair one run in place: with the calls of the message before it."""
    run = range(start, end)
    if not any(is_unmapped(messages[n]) for n in run):
        return
    requests = (messages[start - 1].message.tool_calls or ()) if start else ()
    calls = [call.id or "" for call in requests]
    ids = {i for n in run for i in (messages[n].message.tool_call_id, *messages[n].more_call_ids)}
    waiting = [call for call in calls if call not in ids]
    for n in run:
        host = messages[n]
        if is_unmapped(host) and waiting:
            first, *more = waiting
            waiting = []
            result = host.message.model_copy(update={"role": Role.TOOL, "tool_call_id": first})
            messages[n] = replace(
                host, message=result, origin=Origin.TOOL_RESULT, more_call_ids=tuple(more)
            )
        elif not is_unmapped(host) and host.message.tool_call_id not in calls:
            messages[n] = replace(host, protected=True)


def _role_word(native: object) -> str:
    """Whose a message says that it is, as `ROLES` has it; `""` where it does not."""
    for name in _TOLD_BY:
        value = _read_field(native, name)
        word = str(getattr(value, "value", value)).lower() if isinstance(value, str) else ""
        if word in ROLES:
            return word
    kind = type(
        native
    ).__name__.lower()  # UserMessage, AIMessageChunk, FunctionExecutionResultMessage
    return next((word for word in ROLES if kind.startswith(word)), "")


def _read_field(native: object, name: str) -> object:
    try:
        return native.get(name) if isinstance(native, Mapping) else getattr(native, name, None)
    except Exception:  # noqa: BLE001 - it is a message of which something raises
        return None


def _sizes(native: object) -> Iterator[int]:
    """UTF-8 bytes of all texts in it, as far as they can be read, and bytes; without recursion."""
    ahead: list[tuple[Any, int]] = [(native, 0)]
    seen: set[int] = set()
    for _ in range(MAX_VALUES):
        if not ahead:
            return
        value, depth = ahead.pop()
        if isinstance(value, str):
            yield len(value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, bytes | bytearray):
            yield len(value)
        elif isinstance(value, int | float) or value is None:
            yield 4
        elif id(value) not in seen:
            seen.add(id(value))
            inner, step = _inside(value)
            if depth + step <= MAX_OBJECTS:
                ahead += [(item, depth + step) for item in inner]


def _inside(value: Any) -> tuple[Iterable[Any], int]:
    """What a value holds, and whether that is one object further."""
    try:
        if isinstance(value, Mapping):
            return [item for pair in value.items() for item in pair], 0
        if isinstance(value, list | tuple | set | frozenset):
            return list(value), 0
        if isinstance(value, type) or callable(value):
            return (), 0
        return [*getattr(value, "__dict__", {}).values(), *_slots(value)], 1
    except Exception:  # noqa: BLE001 - as in `_read_field`
        return (), 0


def _slots(value: Any) -> Iterator[Any]:
    for kind in type(value).__mro__:
        names = vars(kind).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if not name.startswith("__"):
                yield _read_field(value, name)
