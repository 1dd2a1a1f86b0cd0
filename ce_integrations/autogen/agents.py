"""Who works in an app of AutoGen: agents, teams and core agents enter a step when they begin to."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from autogen_core import AgentRuntime, BaseAgent, MessageHandlerContext
from autogen_core.tool_agent import ToolAgent

from ce_integrations.autogen.speakers import CHAT_AGENT, TEAM, speakers
from ce_integrations.calls.agent_steps import (
    Step,
    deeper,
    ids_in,
    in_step,
    sent_from_here,
    sent_from_nowhere,
    stepping,
)
from ce_integrations.identity.session import SHARED_DEFAULTS, names_somebody
from ce_integrations.identity.unnamed_sessions import unnamed
from ce_integrations.install.adapter import Hooks
from ce_integrations.install.class_adapter import Entry, loaded
from ce_integrations.install.marks import PLACE
from ce_integrations.wrapping.function_kinds import run_within, same_kind


CONTAINER = "autogen_agentchat.teams._group_chat._chat_agent_container.ChatAgentContainer"

_at_work: dict[str, list[Step]] = {}
"""Steps by the id of their team or core agent: tasks of a runtime do not inherit who they work for."""


def core_entry(original: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a core agent's `on_message(message, ctx)`."""

    @same_kind(original)
    async def call(self: BaseAgent, message: Any, ctx: Any) -> Any:
        step = _of_core(self, ctx)
        with _note_step(str(self.id), step), stepping(step):
            return await original(self, message, ctx)

    return call


class _MessageId(str):
    """An id of a message that knows who sent it; the context of who handles it has the very same object.

    A copy knows it no more.
    """

    __slots__ = ("step",)

    step: Step

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def sending(original: Callable[..., Any]) -> Callable[..., Any]:
    """The wrapper of a runtime's `send_message` and `publish_message`: who handles it is told who sent it."""
    if "message_id" not in inspect.signature(original).parameters:
        return original

    @same_kind(original)
    async def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        new_id = uuid.uuid4()  # noqa: TID251 - as AutoGen makes it where the app gives none
        message_id = _MessageId(kwargs.get("message_id") or new_id)
        message_id.step = sent_from_here()
        return await original(self, *args, **{**kwargs, "message_id": message_id})

    return call


def team_entry(original: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a team's `run_stream`; its step is known until the stream is at its end."""

    @same_kind(original)
    async def stream(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        step = _step_of(self, *args, **kwargs)
        events = run_within(partial(stepping, step), original, (self, *args), kwargs)
        with _note_step(getattr(self, "_team_id", ""), step), step.lasting():
            try:
                async for event in events:
                    yield event
            finally:
                await events.aclose()  # a team that is left goes on to its end

    return stream


def forgetting(original: Callable[..., Any]) -> Callable[..., Any]:
    """The wrapper of a method by which an agent or team is given another talk, or none."""

    @same_kind(original)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return run_within(partial(_forgotten, self), original, (self, *args), kwargs)

    return call


@contextmanager
def _forgotten(subject: Any) -> Iterator[None]:
    try:
        yield
    finally:
        unnamed.forget(subject)


@contextmanager
def _note_step(name: str, step: Step) -> Iterator[None]:
    steps = _at_work.setdefault(name, [])
    steps.append(step)
    try:
        yield
    finally:
        steps.remove(step)
        if not steps and _at_work.get(name) is steps:
            del _at_work[name]


def _only_one(name: str) -> Step | None:
    """The step of a team or agent; none where it works for several at once."""
    steps = _at_work.get(name, ())
    return steps[0] if len(steps) == 1 else None


def _step_of(subject: Any, /, *args: Any, **kwargs: Any) -> Step:
    """The step that an agent or a team enters."""
    name, names = type(subject).__name__, frozenset[str]()
    ids: Mapping[str, Any] = {}
    with suppress(Exception):  # an app's own class may do anything
        name, names = str(getattr(subject, "name", name)), frozenset(speakers(subject))
        messages = args[0] if args else kwargs.get("messages", kwargs.get("task"))
        ids = ids_in(_newest_ids(messages), may_be_sent=True)
    return deeper(
        subject,
        name,
        _hooks(subject),
        conversation=subject,
        speakers=names,
        **ids,
    )


def _hooks(subject: object) -> Hooks[Any] | None:
    mark = PLACE.mark_of(subject)
    return None if mark is None else mark.hooks


def _newest_ids(messages: object) -> Mapping[str, Any]:
    """Session and user as the newest of the messages tells them that tells any."""
    sequence = messages if isinstance(messages, Sequence) and not isinstance(messages, str) else ()
    for message in reversed(sequence or [messages]):
        metadata = getattr(message, "metadata", None)
        if isinstance(metadata, dict) and names_somebody(metadata.get("session_id")):
            return {"session_id": metadata["session_id"], "user_id": metadata.get("user_id")}
    return {}


def _of_core(agent: BaseAgent, ctx: Any) -> Step:
    """A core agent's step: of its team, of the agent that waits for its answer, or of its own.

    Containers and runners of tools add no name: they work in their caller's line. The key of an
    agent's id is a session by convention; a team's is none.
    """
    hooks, key, kind = _hooks(getattr(agent, "_runtime", None)), agent.id.key, agent.id.type
    team = _only_one(key)
    name = kind.removesuffix(f"_{key}")
    if isinstance(agent, (*loaded(CONTAINER), ToolAgent)):
        name = ""
    if team is not None:
        return deeper(agent, name, hooks, around=team)
    session_id = None if key in SHARED_DEFAULTS else key
    around = _sender(agent, ctx)
    return deeper(agent, name, hooks, around=around, session_id=session_id, conversation=agent)


def _sender(agent: BaseAgent, ctx: Any) -> Step | None:
    """The step that a message comes from; `None` is the one around: the app calls the agent itself.

    Who publishes waits for nobody: who hears it begins a line and a conversation.
    """
    with suppress(RuntimeError):
        if MessageHandlerContext.agent_id() == agent.id:  # a runtime calls it, in a task of its own
            message_id = ctx.message_id
            waits = _only_one(str(ctx.sender)) if ctx.is_rpc else None
            sender = message_id.step if isinstance(message_id, _MessageId) else waits
            step = sender or sent_from_nowhere()
            return step if ctx.is_rpc else replace(step, path=(), conversation=None)
    return None


MAKERS: tuple[Entry, ...] = (
    (BaseAgent, core_entry, "on_message"),
    (AgentRuntime, sending, "send_message publish_message"),
    (CHAT_AGENT, in_step(_step_of), "on_messages on_messages_stream"),
    (CHAT_AGENT, forgetting, "on_reset load_state"),
    (TEAM, team_entry, "run_stream"),
    (TEAM, forgetting, "reset load_state"),
)
"""The methods by which they begin to work, and begin anew, to be wrapped."""
