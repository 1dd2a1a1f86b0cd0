"""Who works in an app of AutoGen: agents, teams and core agents enter a step when they begin to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from autogen_core import BaseAgent

from ce_integrations.autogen.marks import PLACE, chat_agents, loaded, teams
from ce_integrations.base import Hooks
from ce_integrations.bounded import BoundedMap
from ce_integrations.patches import Make
from ce_integrations.session import SHARED_DEFAULTS
from ce_integrations.steps import Step, deeper, stepping
from ce_integrations.wrappers import run_within, same_kind


MAX_TEAMS = 10_000
"""Teams at work that are known by their id."""

CONTAINER = "autogen_agentchat.teams._group_chat._chat_agent_container"

_running: BoundedMap[str, Step] = BoundedMap(MAX_TEAMS)
"""Steps of teams by the team's id: tasks of a runtime of the app's own do not inherit them."""


def entry(original: Callable[..., Any]) -> Callable[..., Any]:
    """The wrapper of a method by which an agent or a core agent begins to work."""

    @same_kind(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        enter = partial(_Entered, step_of(self, args, kwargs))
        return run_within(enter, original, (self, *args), kwargs)

    return call


def team_entry(original: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a team's `run_stream`; its step is known by its id until the stream is at its end."""

    @same_kind(original)
    async def stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        step, team_id = step_of(self, args, kwargs), getattr(self, "_team_id", "")
        _running.put(team_id, step)
        events = run_within(partial(_Entered, step), original, (self, *args), kwargs)
        try:
            async for event in events:
                yield event
        finally:
            try:
                await events.aclose()  # a team that is left goes on to its end
            finally:
                if _running.get(team_id) is step:
                    _running.pop(team_id)

    return stream


class _Entered(stepping):
    """A step around a call whose arguments stay as they are."""

    __slots__ = ()

    def __enter__(self) -> None:  # type: ignore[override]  # what it gives would be arguments
        super().__enter__()


def step_of(subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
    """The step that an agent, a team or a core agent enters."""
    if isinstance(subject, BaseAgent):
        return _of_core(subject)
    name, session_id, user_id = type(subject).__name__, None, None
    with suppress(Exception):  # an app's own class may do anything
        name = str(getattr(subject, "name", name))
        session_id, user_id = _said(args[0] if args else kwargs.get("messages", kwargs.get("task")))
    return deeper(
        subject,
        name,
        _hooks(subject),
        session_id=session_id,
        user_id=user_id,
        conversation=subject,
    )


def _hooks(subject: object) -> Hooks[Any] | None:
    mark = PLACE.mark_of(subject)
    return None if mark is None else mark.hooks


def _said(messages: object) -> tuple[object, object]:
    """Session and user as the newest of the messages tells them that tells any."""
    several = messages if isinstance(messages, Sequence) and not isinstance(messages, str) else ()
    for each in reversed(several or [messages]):
        told = getattr(each, "metadata", None)
        if isinstance(told, dict) and told.get("session_id"):
            return told["session_id"], told.get("user_id")
    return None, None


def _of_core(agent: BaseAgent) -> Step:
    """A core agent's step. A container adds no name: what it contains does; a team's key is no session."""
    hooks, key = _hooks(getattr(agent, "_runtime", None)), agent.id.key
    team = _running.get(key)
    if team is not None:
        is_container = isinstance(agent, loaded(CONTAINER, "ChatAgentContainer"))
        name = "" if is_container else agent.id.type.removesuffix(f"_{key}")
        return deeper(agent, name, hooks, around=team)
    session_id = None if key in SHARED_DEFAULTS else key
    return deeper(agent, agent.id.type, hooks, session_id=session_id, conversation=agent)


def entries() -> dict[type, dict[str, Make]]:
    """The methods by which they begin to work, to be wrapped."""
    found: dict[type, dict[str, Make]] = {BaseAgent: {"on_message": entry}}
    for cls in chat_agents():
        found[cls] = dict.fromkeys(("on_messages", "on_messages_stream"), entry)
    for cls in teams():
        found[cls] = {"run_stream": team_entry}
    return found
