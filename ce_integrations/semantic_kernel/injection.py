"""Puts the engine in front of every call of a chat service: the one place that all of the kernel's pass."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.contents import ChatHistory, ChatMessageContent

from ce_integrations.asking import Asked, Owner, governed, schema_of
from ce_integrations.base import CallInfo
from ce_integrations.patches import Make
from ce_integrations.semantic_kernel.mapper import whole
from ce_integrations.semantic_kernel.members import PLACE, is_agent, is_aside
from ce_integrations.steps import step_around


def _owner(service: Any) -> Owner | None:
    """Who governs a call: the outermost step's installation, else the service's own."""
    step = step_around()
    is_governed = step is not None and step.hooks is not None and step.hooks.active
    return step if is_governed else PLACE.mark_of(service)


def _described(asked: Asked) -> tuple[list[ChatMessageContent], CallInfo]:
    """The messages of a history, which stays as it is: agents count what is added to it."""
    step, service, history = step_around(), asked.subject, asked.given
    settings = asked.rest[0] if asked.rest else asked.named.get("settings")
    info = CallInfo(request_id=secrets.token_hex(8)) if step is None else step.info()
    info.takes_history = info.takes_history and step is not None and is_agent(step.subject)
    info.conversation = info.conversation or history
    info.purpose = "helper" if is_aside() else "chat"
    info.model = getattr(settings, "ai_model_id", None) or service.ai_model_id
    info.provider = str(getattr(service, "MODEL_PROVIDER_NAME", ""))
    tools = getattr(settings, "tools", None) or ()
    info.tools = [tool for tool in tools if isinstance(tool, Mapping)]
    info.response_format = schema_of(getattr(settings, "response_format", None))
    return history.messages, info


def _replaced(_: Asked, sent: list[ChatMessageContent]) -> ChatHistory:
    return ChatHistory.model_construct(messages=sent, system_message=None)


_call = governed(
    _owner,
    _described,
    names=("chat_history",),
    replace=_replaced,
    answers=lambda contents: ((content, None) for content in contents[:1]),
    text=lambda chunk: "".join(each.content for each in chunk if each.choice_index == 0),
    join=whole,
)
MAKERS: dict[type, dict[str, Make]] = {
    ChatCompletionClientBase: {
        "_inner_get_chat_message_contents": _call,
        "_inner_get_streaming_chat_message_contents": _call,
    }
}
"""What is wrapped of services: connectors override these, and the kernel's loop calls them at each step."""
