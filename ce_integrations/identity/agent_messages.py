"""What agents say to each other: frameworks let one speak to another in the role of the user."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from ce_engine import Author, AuthorKind, HostMessage, Origin, Role
from ce_integrations.mapping.message_adapter import MessageAdapter


Native = TypeVar("Native")


def host_message(
    adapter: MessageAdapter[Native], agents: Collection[str], native: Native
) -> HostMessage:
    """Map a message; what one of these agents says is no task."""
    host = adapter.to_schema(native)
    author = host.message.author
    if host.origin is not Origin.TASK or author is None or author.kind is AuthorKind.AGENT:
        return host  # an agent's request that the mapper knows for one stays a task
    if author.id in agents:
        host.origin = Origin.COLLEAGUE
        host.message.author = Author(kind=AuthorKind.AGENT, id=author.id)
    return host


def with_task(messages: list[HostMessage], agents: Collection[str]) -> list[HostMessage]:
    """The messages of a call: where nobody else asks for anything, an agent does."""
    if not agents or any(host.origin is Origin.TASK for host in messages):
        return messages
    return [_as_task(host, agents) for host in messages]


def _as_task(host: HostMessage, agents: Collection[str]) -> HostMessage:
    author = host.message.author
    if host.message.role is not Role.USER or author is None or author.id not in agents:
        return host
    return replace(host, origin=Origin.TASK)
