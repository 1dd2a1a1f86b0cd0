"""What the readers share: JSON data with its place in the file, and messages in OpenAI's form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn

from ce_engine import HostMessage, Message, Origin, Role, SchemaValidationError, ToolRequest
from ce_integrations.mapping.content_blocks import call_args, other_blocks
from ce_integrations.mapping.messages import ROLES, host_message


__all__ = ["NAMES_OF_TIME", "Conversation", "Node", "mapped", "requests"]

NAMES_OF_TIME = ("at", "created_at", "createdAt", "timestamp", "created", "create_time", "time")
_MILLISECONDS = 1e11
"""From here on a number is a time in milliseconds: in seconds it would be after the year 5000."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation of a file; `name` is empty where the file gives it none."""

    name: str
    messages: list[HostMessage]


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the file's JSON, and where it stands: `messages[3].role`."""

    value: Any
    place: str = ""

    def wrong(self, expected: str) -> NoReturn:
        """Refuse it.

        Raises:
            SchemaValidationError: always; it names the place and the cure, never the value.
        """
        kind = "nothing" if self.value is None else type(self.value).__name__
        where = self.place or "the file"
        raise SchemaValidationError(f"{where}: found {kind}, expected {expected}")

    def has(self, *keys: str) -> bool:
        """Whether it is an object with all of these keys."""
        return isinstance(self.value, Mapping) and all(key in self.value for key in keys)

    def __getitem__(self, key: str) -> Node:
        value = self.value.get(key) if isinstance(self.value, Mapping) else None
        return Node(value, f"{self.place}.{key}" if self.place else key)

    def items(self, expected: str) -> Iterator[Node]:
        """The parts of a list."""
        if not isinstance(self.value, list):
            self.wrong(expected)
        for n, value in enumerate(self.value):
            yield Node(value, f"{self.place or 'messages'}[{n}]")

    def first(self) -> Node:
        """The first part of a list; nothing where it is none."""
        return Node(self.value[0] if isinstance(self.value, list) and self.value else None)

    def text(self) -> str:
        """A text, empty where there is none."""
        if self.value is not None and not isinstance(self.value, str):
            self.wrong("a text")
        return self.value or ""

    def fields(self, expected: str) -> Mapping[str, Any]:
        """An object."""
        if not isinstance(self.value, Mapping):
            self.wrong(expected)
        return self.value

    def content(self) -> Any:
        """The content of a message: a text, or a list of parts."""
        value = self.value
        if value is None or isinstance(value, str):
            return value or ""
        if not isinstance(value, list):
            self.wrong('a text, or a list of parts such as {"type": "text", "text": "..."}')
        for part in self.items("a list of parts"):
            if not isinstance(part.value, str | Mapping):
                part.wrong('a part such as {"type": "text", "text": "..."}')
            part["type"].text()
        return value

    def time(self) -> str | None:
        """The time of a message, if it says one."""
        for key in NAMES_OF_TIME:
            value = self[key].value
            if isinstance(value, int | float) and not isinstance(value, bool):
                return self[key].moment()
            if isinstance(value, str) and value:
                return value
        return None

    def moment(self) -> str:
        """A number of seconds, or of milliseconds, since 1970 as a time."""
        try:
            seconds = self.value / 1000 if self.value >= _MILLISECONDS else self.value
            return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
        except (ValueError, OverflowError, OSError):
            self.wrong("a time: ISO 8601, or seconds since 1970")


def mapped(node: Node, message: Message, content: object, host_id: object = None) -> HostMessage:
    """A message of a file as an adapter would map it."""
    origin = dict(ROLES.values())[message.role]
    if message.tool_calls:
        origin = Origin.TOOL_CALL
    message.at = node.time()
    lone = message.role is Role.TOOL and not message.tool_call_id  # nothing but its place pairs it
    valid_id = host_id if isinstance(host_id, str) else None
    beside = list(other_blocks(content))
    return host_message(message, origin, beside, host_id=valid_id, protected=lone)


def requests(calls: Iterable[Node], expected: str) -> list[ToolRequest]:
    """Calls of tools, in the forms of providers: named here, or in a `function` inside."""
    tool_requests: list[ToolRequest] = []
    for call in calls:
        call.fields(expected)
        function = call["function"] if call.has("function") else call
        fields = function.fields(expected)
        name = function["name"].text() or function["tool_name"].text()
        if not name:
            function["name"].wrong("the name of the tool that is called")
        call_id = call["id"].text() or call["call_id"].text() or call["tool_id"].text()
        args = {"args": fields["tool_kwargs"]} if "tool_kwargs" in fields else fields
        tool_requests.append(ToolRequest(name=name, id=call_id or None, args=call_args(args)))
    return tool_requests
