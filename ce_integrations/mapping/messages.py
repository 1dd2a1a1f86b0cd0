"""What mappers share: roles by their names, authors, and messages whose content is in blocks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ce_engine import Answer, Author, AuthorKind, HostMessage, Message, Origin, Role
from ce_integrations.mapping.content_blocks import beside_text


__all__ = ["ROLES", "answer_from", "author_of", "host_message", "is_framework_s", "valid_name"]

_SYSTEM = (Role.SYSTEM, Origin.SYSTEM)
_USER = (Role.USER, Origin.TASK)
_ASSISTANT = (Role.ASSISTANT, Origin.ANSWER)
_TOOL = (Role.TOOL, Origin.TOOL_RESULT)

ROLES: Mapping[str, tuple[Role, Origin]] = {
    **dict.fromkeys(("system", "developer"), _SYSTEM),
    **dict.fromkeys(("user", "human"), _USER),
    **dict.fromkeys(("assistant", "ai", "model", "chatbot"), _ASSISTANT),
    **dict.fromkeys(("tool", "function"), _TOOL),
}
"""The names that frameworks and providers have for a role, and what a message of it is as a rule."""


def author_of(name: str | None, role: Role) -> Author | None:
    """Who a message says that it is from; a system message is nobody's."""
    if not name or role is Role.SYSTEM:
        return None
    kinds = {Role.USER: AuthorKind.USER, Role.TOOL: AuthorKind.TOOL}
    return Author(kind=kinds.get(role, AuthorKind.AGENT), id=name)


def host_message(
    message: Message,
    origin: Origin,
    content: object = None,
    *,
    host_id: str | None = None,
    protected: bool = False,
) -> HostMessage:
    """A mapped message with what its content has beside text, in the forms of `blocks`."""
    # An answer is recognised by its text and calls alone: so it was recorded.
    beside = beside_text(content)
    return HostMessage(
        message,
        origin,
        host_id=host_id,
        media=() if message.role is Role.ASSISTANT else beside.digests,
        media_tokens=beside.tokens,
        attachments=beside.attachments,
        error=message.status == "error",
        protected=protected,
    )


def answer_from(
    host: HostMessage, *, model: object = "", provider: object = "", finish_reason: object = ""
) -> Answer:
    """A model's answer, mapped as a message, with what it says of itself; what it does not say is `None`."""
    return Answer(
        host.message,
        host.host_id,
        model=str(model or ""),
        provider=str(provider or ""),
        finish_reason=str(finish_reason or ""),
        attachments=host.attachments,
    )


def valid_name(message: Message, default: str = "") -> str:
    """The name of who said a message, if every provider takes it: others raise for any sign beside these."""
    name = message.author.id if message.author is not None else ""
    valid = 0 < len(name) <= 64 and name.isascii() and name.replace("-", "_").isidentifier()
    return name if valid else default


@lru_cache(1024)
def is_framework_s(kind: type, module: str, names: frozenset[str]) -> bool:
    """Whether a class is one of these of a framework's module, and nobody's own of the same name.

    For `Adapter.alike`: what users derive may say more than its base.
    """
    return kind.__name__ in names and f"{kind.__module__}.".startswith(f"{module}.")
