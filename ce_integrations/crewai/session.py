"""Whose a call is: crews, agents and flows at work, and the framework's own tasks that they work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from crewai import Agent, Crew, Flow
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.context import get_current_task_id
from crewai.lite_agent import LiteAgent

from ce_integrations.calls.agent_steps import Step, deeper, ids_in, in_step
from ce_integrations.calls.model_methods import Owner
from ce_integrations.identity.session import names_somebody
from ce_integrations.install.adapter import CallInfo, Stateless
from ce_integrations.install.class_adapter import Entry
from ce_integrations.install.marks import PLACE, Governor, Mark
from ce_integrations.wrapping.function_kinds import same_kind


owner_of = Governor("crewai")

AGENTS: tuple[type, ...] = (Agent, LiteAgent)
ROOTS: tuple[type, ...] = (Crew, Flow, *AGENTS)
"""What an app calls to have models called; it says whose all the calls in it are."""

_SESSION = ("session_id", "conversation_id", "thread_id", "chat_history_id")
"""Inputs that name a conversation."""


def info_of(owner: Owner, subject: Any, from_task: Any = None) -> CallInfo:
    """What is known of a call, a tool's run or a retrieval right here."""
    if isinstance(owner, Mark):  # a model that is asked alone
        owner = deeper(subject, hooks=owner.hooks, conversation=Stateless(subject))
    assert isinstance(owner, Step)
    info = owner.info()
    # What an agent hands to another is a task that its crew does not know.
    from_task_id = "" if from_task is None else str(from_task.id)
    info.task_id = str(get_current_task_id() or from_task_id)
    info.sub_task_id = from_task_id if from_task_id != info.task_id else ""
    # A flow asks with prompts of its own, and a crew works on tasks.
    info.takes_history &= isinstance(owner.subject, AGENTS) and not info.task_id
    return info


def _begin(subject: Any, /, *args: Any, **kwargs: Any) -> Step | None:
    """The step of what an app calls, if anybody governs it."""
    owner = owner_of(subject)
    if owner is None or not (isinstance(subject, AGENTS) or PLACE.mark_of(subject)):
        # Nobody's; or a part of what is at work, as an agent's executor is, a flow itself.
        return None
    argument = kwargs.get("inputs", args[0] if args else None)
    inputs = argument if isinstance(argument, Mapping) else {}
    ids = ids_in({**inputs, **kwargs})
    names = (*_SESSION, "id") if isinstance(subject, Flow) else _SESSION
    return deeper(
        subject,
        str(getattr(subject, "role", "")).strip(),
        owner.hooks,
        session_id=next((ids[name] for name in names if names_somebody(ids.get(name))), None),
        user_id=ids.get("user_id"),
        conversation=Stateless(subject),
    ).of_tools(isinstance(subject, AGENTS))  # known by events alone, and an agent runs nothing else


def _copied(original: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a crew or an agent is governed like the original: `kickoff_for_each` runs copies."""

    @same_kind(original)
    def copy(subject: Any, /, *args: Any, **kwargs: Any) -> Any:
        duplicate = original(subject, *args, **kwargs)
        if (mark := PLACE.mark_of(subject)) is not None and PLACE.mark_of(duplicate) is None:
            PLACE.put(duplicate, mark)
        return duplicate

    return copy


def _saving(original: Callable[..., Any]) -> Callable[..., Any]:
    """A memory saves in the background (CrewAI 1.14): the step that it saves for is not over before it has."""

    @same_kind(original)
    def save(memory: Any, /, *args: Any, **kwargs: Any) -> Any:
        step = owner_of.step()
        if step is None:
            return original(memory, *args, **kwargs)
        with ExitStack() as lasting:
            lasting.enter_context(step.lasting())
            future = original(memory, *args, **kwargs)
            end = lasting.pop_all().close
            future.add_done_callback(lambda _: end())
            return future

    return save


_KICKOFFS = "kickoff kickoff_async akickoff"
_at_work = in_step(_begin)
MAKERS: tuple[Entry, ...] = (
    (Crew, _at_work, "kickoff akickoff replay train test"),
    (Crew, _copied, "copy"),
    (Agent, _at_work, f"{_KICKOFFS} execute_task aexecute_task"),
    (BaseAgent, _copied, "copy"),  # an agent has it from there
    (LiteAgent, _at_work, _KICKOFFS),
    ("crewai.memory.unified_memory.Memory", _saving, "_submit_save"),
    # Its methods are its bases'.
    *(
        (base, _at_work, f"{_KICKOFFS} resume resume_async handle_turn")
        for base in Flow.__mro__
        if base.__module__.startswith("crewai.")
    ),
)
"""What an app calls. `Crew.kickoff_async` and the rest end in these, on threads that know the caller's context."""
