"""Puts the engine in front of every chat generator, and knows in which run of what it is asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import FallbackChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools.tool import Tool
from haystack.tools.utils import flatten_tools_or_toolsets

from ce_engine.runtime.scoped_variable import handing_over
from ce_integrations.calls.agent_steps import Step, deeper, ids_in, in_step, step_around
from ce_integrations.calls.hooks import Hooks
from ce_integrations.calls.model_methods import ModelMethodCall, governed, schema_of
from ce_integrations.calls.tool_events import at_work
from ce_integrations.calls.tool_methods import Run
from ce_integrations.haystack.component_kinds import components, owner_of
from ce_integrations.identity.session import names_somebody
from ce_integrations.install.adapter import CallInfo, Stateless
from ce_integrations.install.class_adapter import Entry
from ce_integrations.wrapping.function_kinds import same_kind


IDS = {
    "session_id": ("session_id", "chat_history_id", "conversation_id", "thread_id"),
    "user_id": ("user_id",),
}
"""Names by which the inputs of a run tell whose it is."""


# Runs


def _step(subject: Any, /, *args: Any, **kwargs: Any) -> Step | None:
    """Of a pipeline, an agent or a fallback: what asks inside is its."""
    around, owner = step_around(), owner_of(subject)
    if owner is None or (around and isinstance(subject, FallbackChatGenerator)):
        return None
    hooks: Hooks[Any] = owner.hooks
    with hooks.guard("run"):
        name = getattr(subject, "__component_name__", "") if isinstance(subject, Agent) else ""
        return deeper(
            subject,
            name or _tool_in(around),
            hooks,
            conversation=Stateless(subject),
            **ids_in(_ids(subject, args, kwargs)),
        )
    return None


def _ids(subject: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Whose a run is by its inputs, of a pipeline those of its components too, then by `hook_context` in them.

    What else an app passes in is not looked into: it may be a stranger's JSON, and name anybody.
    """
    components = getattr(getattr(subject, "graph", None), "nodes", ())
    maps = _mappings([kwargs, args[0] if args else kwargs.get("data")] if components else [kwargs])
    maps += _mappings(mapping[name] for mapping in maps for name in components if name in mapping)
    maps += _mappings(mapping.get("hook_context") for mapping in maps)
    return {
        key: next(
            (m[name] for m in maps for name in names if names_somebody(m.get(name))),
            None,
        )
        for key, names in IDS.items()
    }


def _mappings(values: Iterable[Any]) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, Mapping)]


runs = in_step(_step)


def streams(original: Callable[..., Any]) -> Callable[..., Any]:
    """`Pipeline.stream`, which runs in a task of its own: what the app says where it asks holds there."""

    @same_kind(original)
    def stream(*args: Any, **kwargs: Any) -> Any:
        with handing_over():
            return original(*args, **kwargs)

    return stream


# Models


def _describe(call: ModelMethodCall) -> tuple[list[ChatMessage], CallInfo]:
    model, own = call.subject, vars(call.subject)
    behind = inspect.signature(getattr(model, call.mode)).parameters if call.positional else ()
    arguments = call.by_name(*list(behind)[1:])
    step = step_around() or deeper(model, conversation=Stateless(model))
    generation = {
        **(own.get("generation_kwargs") or {}),
        **(arguments.get("generation_kwargs") or {}),
    }
    tools = flatten_tools_or_toolsets(arguments.get("tools") or own.get("tools") or None)
    info = step.info(
        model=generation.get("model") or own.get("model"),
        provider=type(model).__name__.removesuffix("ChatGenerator").lower(),
        tools=[{"type": "function", "function": tool.tool_spec} for tool in tools],
        response_format=schema_of(generation.get("response_format")),
    )
    tool = _tool_in(step)
    if tool:
        info.lane_key = "/".join((*step.path, tool))
    elif not _is_of(model, step.subject):
        info.takes_history = False
        if isinstance(step.subject, Agent):
            info.purpose = "helper"  # a hook of the agent's asks, such as one that compacts
    if isinstance(call.argument, str):
        return [ChatMessage.from_user(call.argument)], info
    return call.messages, info


def _tool_in(step: Step | None) -> str:
    """The tool at work right in a step: what it asks is on a line of its own."""
    work = at_work()
    is_here = isinstance(work.config, Run) and work.config.step is step
    return work.subject.name if is_here and isinstance(work.subject, Tool) else ""


def _is_of(model: object, subject: object) -> bool:
    """Whether a pipeline or an agent asks this model itself, and not what it runs."""
    parts = [subject.chat_generator] if isinstance(subject, Agent) else components(subject)
    return any(
        model is inner for part in parts for inner in (part, *getattr(part, "chat_generators", ()))
    )


def _answers(result: Mapping[str, Any]) -> Iterator[tuple[ChatMessage, None]]:
    replies = result.get("replies") or [ChatMessage.from_assistant("")]
    yield replies[0], None


asks = governed(
    owner_of,
    _describe,
    answers=_answers,
    text=lambda chunk: chunk.content,
    # Where the app has none, none is added: it makes a stream.
    callback="streaming_callback",
)
MAKERS: tuple[Entry, ...] = ((Pipeline, streams, "stream"),)
