"""Who runs around a call: agents, teams and core agents enter a step, whose tasks inherit it."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from autogen_core import BaseAgent

from ce_engine.runtime.contexts import unset
from ce_integrations.autogen.marks import chat_agents, loaded, mark_of, teams
from ce_integrations.base import CallInfo, Hooks
from ce_integrations.bounded import BoundedMap
from ce_integrations.patches import Make
from ce_integrations.session import SHARED_DEFAULTS
from ce_integrations.wrappers import same_kind


MAX_TEAMS = 10_000
"""Teams at work that are known by their id."""

_END: Any = object()


@dataclass(eq=False)
class Step:
    """An agent or a team at work.

    Attributes:
        hooks: those of the outermost installation around it; `None` where only a client may have one.
        path: names from the outermost team or agent down to this one: its line of conversation.
        request_id: the app's own call.
    """

    hooks: Hooks[Any] | None
    subject: object
    path: tuple[str, ...]
    request_id: str
    session_id: object = None
    user_id: object = None

    @property
    def name(self) -> str:
        return self.path[-1] if self.path else ""

    def info(self) -> CallInfo:
        """What it tells of a call inside."""
        return CallInfo(
            request_id=self.request_id,
            session_id=self.session_id,
            user_id=self.user_id,
            lane_key="/".join(self.path) or None,
            agent=self.name,
            keeps_history=True,
        )


_step: ContextVar[Step | None] = ContextVar("ce_step", default=None)
_running: BoundedMap[str, Step] = BoundedMap(MAX_TEAMS)
"""Steps of teams by the team's id: a runtime of the app's own does not inherit their tasks."""


def step_around() -> Step | None:
    """The innermost step that runs around us."""
    return _step.get()


@contextmanager
def stepping(step: Step | None) -> Iterator[None]:
    """Say that a step runs inside."""
    token = _step.set(step)
    try:
        yield
    finally:
        unset(_step, token)


def deeper(
    around: Step | None, subject: object, name: str, hooks: Hooks[Any] | None, **said: object
) -> Step:
    """The step of a subject inside another: the outermost hooks and the app's own call go on."""
    if around is None:
        return Step(
            hooks, subject, (name,) if name else (), secrets.token_hex(8), **_ids(said, None)
        )
    governing = around.hooks if around.hooks is not None and around.hooks.active else hooks
    path = (*around.path, name) if name else around.path
    return Step(governing, subject, path, around.request_id, **_ids(said, around))


def _ids(said: dict[str, object], around: Step | None) -> dict[str, object]:
    return {
        key: said.get(key) or (getattr(around, key) if around is not None else None)
        for key in ("session_id", "user_id")
    }


def entry(original: Callable[..., Any]) -> Callable[..., Any]:
    """The wrapper of a method by which an agent or team begins to work."""
    if inspect.isasyncgenfunction(original):
        return _streaming(original)

    @same_kind(original)
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with stepping(_step_of(self, args, kwargs)):
            return await original(self, *args, **kwargs)

    return call


def _streaming(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    async def stream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        step = _step_of(self, args, kwargs)
        team_id = getattr(self, "_team_id", None) if isinstance(self, teams()) else None
        if team_id is not None:
            _running.put(team_id, step)
        source = original(self, *args, **kwargs)
        try:
            while True:
                with stepping(step):  # never across a `yield`: its reader is somebody else
                    value = await anext(source, _END)
                if value is _END:
                    return
                yield value
        finally:
            try:
                with stepping(step):
                    await source.aclose()  # a team that is left goes on to its end
            finally:
                if team_id is not None and _running.get(team_id) is step:
                    _running.pop(team_id)

    return stream


def _step_of(subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
    """The step that an agent, team or core agent enters; the one around where it is at work already."""
    around = _step.get()
    if isinstance(subject, BaseAgent):
        return _of_core(subject, around)
    if around is not None and around.subject is subject:
        return around
    mark = mark_of(subject)
    hooks = None if mark is None else mark.hooks
    name, said = type(subject).__name__, {}
    with suppress(Exception):  # an app's own class may do anything
        name = str(getattr(subject, "name", name))
        said = _said(args[0] if args else kwargs.get("messages", kwargs.get("task")))
    return deeper(around, subject, name, hooks, **said)


def _said(messages: object) -> dict[str, object]:
    """Session and user as the newest of the messages tells them that tells any."""
    several = messages if isinstance(messages, Sequence) and not isinstance(messages, str) else ()
    for each in reversed(several or [messages]):
        told = getattr(each, "metadata", None)
        if isinstance(told, dict) and told.get("session_id"):
            return {"session_id": told["session_id"], "user_id": told.get("user_id")}
    return {}


def _of_core(agent: BaseAgent, around: Step | None) -> Step:
    """A core agent's step. A container adds no name: what it contains does; a team's key is no session."""
    mark = mark_of(getattr(agent, "_runtime", None))
    hooks = None if mark is None else mark.hooks
    team = _running.get(agent.id.key)
    if team is None:
        session_id = None if agent.id.key in SHARED_DEFAULTS else agent.id.key
        return deeper(around, agent, agent.id.type, hooks, session_id=session_id)
    containers = loaded(
        "autogen_agentchat.teams._group_chat._chat_agent_container", "ChatAgentContainer"
    )
    name = agent.id.type.removesuffix(f"_{agent.id.key}")
    return deeper(team, agent, "" if isinstance(agent, containers) else name, hooks)


def entries() -> dict[type, dict[str, Make]]:
    """The methods by which they begin to work, to be wrapped."""
    found: dict[type, dict[str, Make]] = {BaseAgent: {"on_message": entry}}
    for cls in chat_agents():
        found[cls] = dict.fromkeys(("on_messages", "on_messages_stream"), entry)
    for cls in teams():
        found[cls] = {"run_stream": entry}
    return found
