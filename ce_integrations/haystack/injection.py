"""Puts the engine in front of every chat generator, and knows in which run of what it is asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from haystack.components.agents import Agent
from haystack.core.pipeline.base import PipelineBase
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.tools import flatten_tools_or_toolsets

from ce_integrations.asking import Asked, governed, schema_of
from ce_integrations.base import CallInfo, Turn, call_around
from ce_integrations.haystack.roles import PLACE, role_of
from ce_integrations.hooks import Hooks
from ce_integrations.marks import Mark
from ce_integrations.runs import at_work
from ce_integrations.scoped import handing_over
from ce_integrations.steps import Step, deeper, step_around, stepping
from ce_integrations.wrappers import run_within, same_kind


SESSIONS = ("session_id", "chat_history_id", "conversation_id", "thread_id")
"""Names by which the inputs of a run tell the conversation: in `hook_context`, or of a component."""
USERS = ("user_id",)
DEPTH = 3

CALLBACK = "streaming_callback"
_OURS = "_ce_hears"


# Runs


def runs(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of a pipeline, an agent, a fallback, or a component that asks for itself: what asks inside is its."""

    @same_kind(original)
    def run(subject: Any, *args: Any, **kwargs: Any) -> Any:
        step = _step(subject, args, kwargs)
        if step is None:
            return original(subject, *args, **kwargs)
        return run_within(partial(_inside, step), original, (subject, *args), kwargs, step.lasting)

    return run


@contextmanager
def _inside(step: Step) -> Iterator[None]:
    with stepping(step):
        yield


def _step(subject: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Step | None:
    mark, around = PLACE.mark_of(subject), step_around()
    helps = role_of(subject) == "helper"
    if mark is None and around is None and not helps:
        return None
    name = ""
    if isinstance(subject, Agent):
        name = getattr(subject, "__component_name__", "") or getattr(at_work().subject, "name", "")
    given = [*args, kwargs]
    return deeper(
        subject,
        name,
        None if mark is None else mark.hooks,
        session_id=_said(given, SESSIONS),
        user_id=_said(given, USERS),
        conversation=None if helps else subject,
    )


def _said(given: Any, names: tuple[str, ...], depth: int = DEPTH) -> object:
    """What the inputs of a run say under one of these names."""
    if isinstance(given, list):
        values = given
    elif isinstance(given, Mapping) and depth:
        if found := next((given[name] for name in names if given.get(name)), None):
            return found
        values, depth = list(given.values()), depth - 1
    else:
        return None
    return next(
        (
            said
            for each in values
            if isinstance(each, Mapping) and (said := _said(each, names, depth))
        ),
        None,
    )


def streams(original: Callable[..., Any]) -> Callable[..., Any]:
    """`Pipeline.stream`, which runs in a task of its own: what the app says where it asks holds there."""

    @same_kind(original)
    def stream(*args: Any, **kwargs: Any) -> Any:
        with handing_over():
            return original(*args, **kwargs)

    return stream


# Models


def asks(original: Callable[..., Any]) -> Callable[..., Any]:
    """The wrapper of a chat generator's `run` and `run_async`."""
    names = list(inspect.signature(original).parameters)[2:]
    ask = _GOVERNED(_heard(original, takes=CALLBACK in names))

    @same_kind(original)
    def run(subject: Any, *args: Any, **kwargs: Any) -> Any:
        return ask(subject, *args[:1], **dict(zip(names, args[1:], strict=False)), **kwargs)

    return run


def owner_of(subject: object) -> Step | Mark | None:
    """Who governs a call: the outermost run around it, else the installation of the model alone."""
    step = step_around()
    if step is not None and step.hooks is not None and step.hooks.active:
        return step
    return PLACE.mark_of(subject)


def _described(asked: Asked) -> tuple[list[ChatMessage], CallInfo]:
    model = asked.subject
    own, named = vars(model), asked.named
    step = step_around() or deeper(model, conversation=model)
    generation = {
        **(own.get("generation_kwargs") or {}),
        **(named.get("generation_kwargs") or {}),
    }
    tools = flatten_tools_or_toolsets(named.get("tools") or own.get("tools") or None)
    info = step.info(
        model=generation.get("model") or own.get("model"),
        provider=type(model).__name__.removesuffix("ChatGenerator").lower(),
        tools=[{"type": "function", "function": each.tool_spec} for each in tools],
        response_format=schema_of(generation.get("response_format")),
    )
    if _is_aside(step, model):
        info.purpose = "helper"
    if info.purpose == "helper" or not isinstance(step.subject, Agent | PipelineBase):
        info.takes_history = False
    if isinstance(asked.given, str):
        return [ChatMessage.from_user(asked.given)], info
    return asked.messages, info


def _is_aside(step: Step, model: object) -> bool:
    """Whether the framework asks for itself: a ranker, an expander, or a hook of an agent."""
    if role_of(step.subject) == "helper":
        return True
    if not isinstance(step.subject, Agent) or at_work().subject is not None:
        return False
    own = step.subject.chat_generator
    return model is not own and model not in getattr(own, "chat_generators", ())


def _answers(result: Mapping[str, Any]) -> Iterator[tuple[ChatMessage, None]]:
    replies = result.get("replies") or [ChatMessage.from_assistant("")]
    yield replies[0], None


_GOVERNED = governed(owner_of, _described, answers=_answers)


# Streams: pushed to a callback of the app's, while the call goes on


def _heard(original: Callable[..., Any], *, takes: bool) -> Callable[..., Any]:
    """A model whose callback, where the app has one, is heard; one is never added: it makes a stream."""

    @same_kind(original)
    def call(subject: Any, *args: Any, **kwargs: Any) -> Any:
        around, owner = call_around(), owner_of(subject)
        callback = (kwargs.get(CALLBACK) or getattr(subject, CALLBACK, None)) if takes else None
        turn = around.turn if around is not None and around.subject is subject else None
        if (
            callback is None
            or turn is None
            or owner is None
            or owner.hooks is None
            or hasattr(callback, _OURS)
        ):
            return original(subject, *args, **kwargs)
        kwargs[CALLBACK] = _hearing(callback, owner.hooks, turn)
        return original(subject, *args, **kwargs)

    return call


def _hearing(callback: Callable[..., Any], hooks: Hooks[Any], turn: Turn) -> Callable[..., Any]:
    @contextmanager
    def hearing(chunk: StreamingChunk) -> Iterator[None]:
        try:
            yield
        except Exception:
            turn.hear(chunk.content)
            hooks.failed(turn, GeneratorExit())  # the app's own: it has left the stream
            raise
        turn.hear(chunk.content)
        hooks.chunk(turn, len(turn.heard) - 1, chunk.content)

    def heard(chunk: StreamingChunk) -> Any:
        with hearing(chunk):
            return callback(chunk)

    async def aheard(chunk: StreamingChunk) -> Any:
        with hearing(chunk):
            return await callback(chunk)

    called = getattr(callback, "__call__", None)  # noqa: B004 - an object's own may be a coroutine function
    is_async = inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(called)
    made: Any = aheard if is_async else heard
    setattr(made, _OURS, True)
    return made  # type: ignore[no-any-return]  # of the same kind as the app's
