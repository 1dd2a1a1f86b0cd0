"""Puts the engine in front of every call of a model client: the one place that all of AutoGen's pass."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage

from ce_integrations.autogen.marks import mark_of
from ce_integrations.autogen.routing import Prompt, prompt_of
from ce_integrations.autogen.steps import Step, step_around
from ce_integrations.base import CallInfo, GovernedCall, Hooks, call_around, is_inside
from ce_integrations.patches import Make
from ce_integrations.wrappers import first_argument, same_kind


MODELS = "autogen_ext.models."
"""Where AutoGen's own clients are, one package a provider."""


def _create(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    async def create(self: Any, *args: Any, **kwargs: Any) -> Any:
        messages, rest, named = first_argument(args, kwargs, "messages")
        call = _governed(self, messages, named, original.__name__)
        if call is None:
            return await original(self, *args, **kwargs)
        return await call.arun(
            lambda goes: original(self, goes[0], *rest, **named), lambda result: [(result, None)]
        )

    return create


def _create_stream(original: Callable[..., Any]) -> Callable[..., Any]:
    """A stream is a function that gives one, or is one itself: both are asked in the same way."""

    @same_kind(original)
    def create_stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        messages, rest, named = first_argument(args, kwargs, "messages")
        call = _governed(self, messages, named, original.__name__)
        if call is None:
            return original(self, *args, **kwargs)
        return call.astream(
            lambda goes: original(self, goes[0], *rest, **named),
            lambda chunk: chunk if isinstance(chunk, str) else "",
            lambda chunks: next((c for c in reversed(chunks) if _is_whole(c)), None),
            _is_whole,
        )

    return create_stream


def _is_whole(chunk: object) -> bool:
    return isinstance(chunk, CreateResult)


def _governed(
    client: ChatCompletionClient, messages: Any, named: Mapping[str, Any], mode: str
) -> GovernedCall[LLMMessage] | None:
    """The call, if somebody governs it and it is not inside another: clients ask clients."""
    step, around = step_around(), call_around()
    hooks = _hooks(client, step)
    if hooks is None or is_inside(client):
        return None
    if around is not None and around.adapter == hooks.adapter.name:
        return None
    prompt = Prompt()

    def describe() -> list[tuple[list[LLMMessage], CallInfo]]:
        nonlocal prompt
        natives = messages if isinstance(messages, list) else list(messages)
        info = _info(client, step, named)
        info.mode = mode
        if step is not None:
            hooks.agents.add(step.name)
            prompt = prompt_of(step.subject, natives, info)
        return [(prompt.natives or natives, info)]

    def replace(given: Any, sent: list[LLMMessage]) -> list[LLMMessage]:
        return prompt.written(given, sent)

    return GovernedCall(hooks, client, [messages], describe, replace)


def _hooks(client: ChatCompletionClient, step: Step | None) -> Hooks[Any] | None:
    """Who governs a call: the outermost step's, else the client's own, whose step's tools are then its."""
    if step is not None and step.hooks is not None and step.hooks.active:
        return step.hooks
    mark = mark_of(client)
    if mark is None:
        return None
    if step is not None:
        step.hooks = mark.hooks
    return mark.hooks


def _info(client: Any, step: Step | None, named: Mapping[str, Any]) -> CallInfo:
    """What is known of a call: of its step, and of what goes out with the messages."""
    info = CallInfo(request_id=secrets.token_hex(8)) if step is None else step.info()
    extra = named.get("extra_create_args") or {}
    info.model = extra.get("model") or _model(client)
    module = _module(client)
    info.provider = module.removeprefix(MODELS).partition(".")[0]
    info.context_window = _window(module, info.model)
    tools = named.get("tools") or ()
    info.tools = [tool if isinstance(tool, Mapping) else tool.schema for tool in tools]
    wanted = named.get("json_output")
    if isinstance(wanted, type) and hasattr(wanted, "model_json_schema"):
        info.response_format = wanted.model_json_schema()
    return info


def _model(client: Any) -> str | None:
    """The name of a client's model, or of the client's that it asks."""
    told = vars(client).get("_create_args")
    if isinstance(told, Mapping):
        return told.get("model")
    inner = (each for each in vars(client).values() if isinstance(each, ChatCompletionClient))
    return next(filter(None, map(_model, inner)), None)


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


MAKERS: dict[type, dict[str, Make]] = {
    ChatCompletionClient: {"create": _create, "create_stream": _create_stream}
}
"""What is wrapped of clients."""
