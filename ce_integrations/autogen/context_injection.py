"""Puts the engine in front of every call of a model client: the one place that all of AutoGen's pass."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage

from ce_integrations.autogen.agent_tool_messages import with_tellers, without_tellers
from ce_integrations.autogen.framework_prompts import prompt_of
from ce_integrations.calls.agent_steps import Step, step_around
from ce_integrations.calls.model_methods import ModelMethodCall, Owner, governed, schema_of
from ce_integrations.install.adapter import CallInfo, call_around
from ce_integrations.install.class_adapter import Entry, loaded
from ce_integrations.install.marks import Governor


NAME = "autogen"
CACHE = "autogen_ext.models.cache._chat_completion_cache.ChatCompletionCache"
MODELS = "autogen_ext.models."
"""Where AutoGen's own clients are, one package a provider."""

_governor = Governor(NAME)


def _owner(client: Any) -> Owner | None:
    """Who governs a call. Nobody does inside another one's: clients ask clients, and their bases."""
    around = call_around()
    if around is not None and around.adapter == NAME and around.is_here:
        return None
    return _governor(client)


def _describe(call: ModelMethodCall) -> tuple[list[LLMMessage], CallInfo]:
    step, natives = step_around(), call.messages
    info = _info(call.subject, step, call.keywords)
    subject = None
    if step is not None:
        subject = step.subject
        call.owner.hooks.agents.update(filter(None, [info.agent, *step.speakers]))
    call.memo = prompt_of(subject, natives, info)
    return with_tellers(call.memo.natives or natives), info


def _replace(call: ModelMethodCall, messages: list[LLMMessage]) -> list[LLMMessage]:
    natives = without_tellers(messages, call.memo.natives or call.messages)
    result: list[LLMMessage] = call.memo.compose(call.messages, natives)
    return result


def _info(client: Any, step: Step | None, keywords: Mapping[str, Any]) -> CallInfo:
    """What is known of a call: of its step, and of what goes out with the messages."""
    info = CallInfo(request_id=secrets.token_hex(8)) if step is None else step.info()
    extra = keywords.get("extra_create_args") or {}
    asks = _asking(client)
    info.takes_history = info.takes_history and not _has_cache(client)
    info.model = extra.get("model") or _settings(asks).get("model")
    module = _module(asks)
    info.provider = module.removeprefix(MODELS).partition(".")[0]
    info.context_window = _window(module, info.model)
    tools = keywords.get("tools") or ()
    info.tools = [tool if isinstance(tool, Mapping) else tool.schema for tool in tools]
    info.response_format = schema_of(keywords.get("json_output"))
    return info


def _has_cache(client: Any) -> bool:
    """Whether it answers from a cache, or a client in it does: the key is to be what the app sends."""
    cache = loaded(CACHE)
    return any(isinstance(candidate, cache) for candidate in _clients(client))


def _clients(client: Any) -> list[Any]:
    """A client and those that it may ask, each once: clients may know each other."""
    clients_by_id: dict[int, Any] = {}
    left = [client]
    while left:
        candidate = left.pop()
        if id(candidate) not in clients_by_id:
            clients_by_id[id(candidate)] = candidate
            inner = [v for v in vars(candidate).values() if isinstance(v, ChatCompletionClient)]
            left += reversed(inner)
    return list(clients_by_id.values())


def _settings(client: Any) -> Mapping[str, Any]:
    """What a client asks its provider with."""
    create_args = vars(client).get("_create_args")
    return create_args if isinstance(create_args, Mapping) else {}


def _asking(client: Any) -> Any:
    """The client that asks a provider: this one, or the innermost that it asks, as a cache does."""
    clients = _clients(client)
    return next(filter(_settings, clients), clients[-1])


def _module(client: object) -> str:
    modules = (cls.__module__ for cls in type(client).__mro__)
    return next((name for name in modules if name.startswith(MODELS)), "")


def _window(module: str, model: str | None) -> int | None:
    """The window as AutoGen's own tables have it; a model that is in none has none."""
    table = sys.modules.get(f"{module.rpartition('.')[0]}._model_info")
    limits = getattr(table, "get_token_limit", None)
    with suppress(Exception):
        return int(limits(model)) if limits is not None and model else None
    return None


def _is_whole(chunk: object) -> bool:
    return isinstance(chunk, CreateResult)


_create = governed(
    _owner,
    _describe,
    replace=_replace,
    text=lambda chunk: chunk if isinstance(chunk, str) else "",
    join=lambda chunks: next(filter(_is_whole, reversed(chunks)), None),
    is_last=_is_whole,
)
MAKERS: tuple[Entry, ...] = (
    (ChatCompletionClient, _create, "create"),
    # A cache's stream is a plain function: it asks when it is read, as the others do.
    (ChatCompletionClient, replace(_create, gives="astream"), "create_stream"),
)
"""What is wrapped of clients."""
