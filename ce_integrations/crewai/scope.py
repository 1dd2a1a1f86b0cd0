"""Whose a call is: crews, agents and flows at work, the framework's own tasks, and what it asks for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

from crewai import Agent, Crew, Flow
from crewai.context import get_current_task_id
from crewai.lite_agent import LiteAgent
from crewai.llms.base_llm import BaseLLM

from ce_engine import Usage
from ce_engine.runtime.contexts import unset
from ce_integrations.base import CallInfo
from ce_integrations.marks import Attribute, Mark
from ce_integrations.patches import Make
from ce_integrations.steps import Step, deeper, step_around, stepping
from ce_integrations.turns import is_inside
from ce_integrations.wrappers import same_kind, within


PLACE = Attribute("_ce_mark")
"""Where an object has its mark: no field shows it, and a model's shallow copies have it."""

AGENTS: tuple[type, ...] = (Agent, LiteAgent)
ROOTS: tuple[type, ...] = (Crew, Flow, *AGENTS)
"""What an app calls to have models called; it says whose all the calls in it are."""

_SESSION = ("session_id", "conversation_id", "thread_id", "chat_history_id")

Asked = tuple[str, str, Any]
"""A call of a tool that a model asked for: id, name, arguments."""

_asked: ContextVar[list[Asked]] = ContextVar("ce_crewai_asked")
_used: ContextVar[list[Usage]] = ContextVar("ce_crewai_used")
_aside: ContextVar[bool] = ContextVar("ce_crewai_aside", default=False)
_claims = Lock()


class CrewMark(Mark):
    """Says of an object of the framework whose it is."""

    copies = "share"


def owner_of(subject: object) -> Step | Mark | None:
    """Who governs what happens here: who runs around us, else the object's own mark."""
    step = step_around()
    hooks = None if step is None else step.hooks
    if hooks is not None and hooks.active and hooks.adapter.name == "crewai":
        return step
    return PLACE.mark_of(subject)


def info_of(owner: Step | Mark, subject: Any, from_task: Any = None, **told: Any) -> CallInfo:
    """What is known of a call, a tool's run or a retrieval right here."""
    if isinstance(owner, Mark):  # a model that is asked alone
        owner = deeper(subject, hooks=owner.hooks, conversation=subject)
        told["takes_history"] = False
    here = str(get_current_task_id() or "")
    given = "" if from_task is None else str(from_task.id)
    info = owner.info(task_id=here or given, **told)
    info.sub_task_id = given if given != info.task_id else ""
    info.takes_history &= not info.task_id
    if _aside.get():
        info.purpose = "helper"
    return info


@contextmanager
def _at_work(original: Callable[..., Any], subject: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Runs what an app calls as a step of its own, if anybody governs it."""
    owner = owner_of(subject)
    if owner is None:
        yield
        return
    name = str(subject.role).strip() if isinstance(subject, AGENTS) else ""
    told = _told_ids(subject, args, kwargs)
    if isinstance(owner, Mark) or not isinstance(subject, type(owner.subject)):
        told["conversation"] = subject
    token = _asked.set([])
    try:
        with stepping(deeper(subject, name, owner.hooks, **told)):
            yield
    finally:
        unset(_asked, token)


def _told_ids(subject: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Session and user, as the inputs of a crew or flow say, or what else it was called with."""
    given = kwargs.get("inputs", args[0] if args else None)
    inputs = {**(given if isinstance(given, Mapping) else {}), **kwargs}
    names = (*_SESSION, "id") if isinstance(subject, Flow) else _SESSION
    session = next((inputs[name] for name in names if inputs.get(name)), None)
    return {"session_id": session, "user_id": inputs.get("user_id")}


at_work = within(_at_work)


@contextmanager
def _for_itself(*_: Any, **__: Any) -> Iterator[None]:
    token = _aside.set(True)
    try:
        yield
    finally:
        unset(_aside, token)


aside = within(_for_itself)
"""What asks inside (a converter, a guardrail, a memory) does so for itself."""


def copied(original: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a crew or agent is governed like the original: `kickoff_for_each` runs copies."""

    @same_kind(original)
    def copy(subject: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(subject, *args, **kwargs)
        if (mark := PLACE.mark_of(subject)) is not None and PLACE.mark_of(made) is None:
            PLACE.put(made, mark)
        return made

    return copy


# What a call used, and the tools that it asked for: the framework tells both without saying of which call


@contextmanager
def metered(_: Callable[..., Any], model: Any, *__: Any, **___: Any) -> Iterator[None]:
    """Collects the usage that a call of the model reports inside."""
    if is_inside(model):
        yield
        return
    token = _used.set([])
    try:
        yield
    finally:
        unset(_used, token)


def note_usage(usage: Usage | None) -> None:
    if usage is not None:
        _used.get([]).append(usage)


def used_here() -> list[Usage]:
    return _used.get([])


def note_asked(calls: list[Asked]) -> None:
    """A model asked for these: they are run next."""
    _asked.get([]).extend(calls)


def claim(name: str, args: Any) -> str | None:
    """The id of the oldest call that waits for a run of this tool, with these arguments if there is one."""
    with _claims:
        waiting = [each for each in _asked.get([]) if each[1] == name]
        found = next((each for each in waiting if each[2] == args), next(iter(waiting), None))
        if found is not None:
            _asked.get([]).remove(found)
    return None if found is None else found[0]


MAKERS: dict[type, dict[str, Make]] = {
    Crew: {**dict.fromkeys(("kickoff", "akickoff", "replay"), at_work), "copy": copied},
    Agent: {
        **dict.fromkeys(
            ("kickoff", "kickoff_async", "akickoff", "execute_task", "aexecute_task"), at_work
        ),
        "copy": copied,
    },
    LiteAgent: dict.fromkeys(("kickoff", "kickoff_async", "akickoff"), at_work),
    Flow: dict.fromkeys(
        ("kickoff", "kickoff_async", "akickoff", "resume", "resume_async", "handle_turn", "ask"), at_work
    ),
    BaseLLM: {},
}
