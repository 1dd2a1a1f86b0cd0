"""Who works in an app of Semantic Kernel: agents, chats, functions and services enter a step when they begin to."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from semantic_kernel.agents.agent import Agent
from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.functions.kernel_function import KernelFunction

from ce_engine.runtime.contexts import unset
from ce_integrations.base import Hooks
from ce_integrations.bounded import BoundedMap
from ce_integrations.marks import Attribute
from ce_integrations.marks import Mark as BaseMark
from ce_integrations.patches import Make
from ce_integrations.steps import Step, deeper, step_around, stepping
from ce_integrations.wrappers import run_within, same_kind, within


MADE = re.compile(r"thread_[0-9a-f]{32}")
"""The id of a thread that nobody named."""

MAX_RUNS = 10_000

ORCHESTRATION = "semantic_kernel.agents.orchestration."
"""Wants protobuf, which apps without orchestrations need not have: it is looked at where it is loaded."""

ASIDE = {
    "semantic_kernel.contents.history_reducer.chat_history_reducer": {
        "ChatHistoryReducer": ("reduce",)
    },
    "semantic_kernel.agents.strategies.selection.selection_strategy": {
        "SelectionStrategy": ("next", "select_agent")
    },
    "semantic_kernel.agents.strategies.termination.termination_strategy": {
        "TerminationStrategy": ("should_terminate", "should_agent_terminate")
    },
    f"{ORCHESTRATION}group_chat": {
        "GroupChatManager": (
            *("should_request_user_input", "should_terminate"),
            *("select_next_agent", "filter_results"),
        )
    },
    f"{ORCHESTRATION}magentic": {
        "MagenticManagerBase": ("plan", "replan", "create_progress_ledger", "prepare_final_answer")
    },
}
"""Methods that may ask a model on the framework's own account."""


class Mark(BaseMark):
    """Says whose a kernel, a service, an agent, a chat, an orchestration or a collection is."""

    copies = "share"

    def __init__(self, hooks: Hooks[Any]) -> None:
        super().__init__(hooks)
        self.wrapped: frozenset[tuple[type, str]] = frozenset()
        """What was wrapped when it was put."""


PLACE = Attribute("_ce_mark")
"""Where an object has its mark: neither pydantic's fields nor dumps and equality look there."""


def hooks_of(*subjects: Any) -> Hooks[Any] | None:
    """Those of the first of them that is marked."""
    return next((mark.hooks for mark in map(PLACE.mark_of, subjects) if mark is not None), None)


def is_agent(subject: object) -> bool:
    """Whether it holds a conversation: a prompt does not."""
    return isinstance(subject, Agent)


# Steps


class _Entered(stepping):
    """A step around a call whose arguments stay as they are."""

    __slots__ = ()

    def __enter__(self) -> None:  # type: ignore[override]  # what it gives would be arguments
        super().__enter__()


def _entry(step_of: Callable[..., Step]) -> Make:
    """Makes wrappers of methods by which somebody begins to work."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @same_kind(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            step = step_of(self, *args, **kwargs)
            return run_within(
                partial(_Entered, step), original, (self, *args), kwargs, step.lasting
            )

        return call

    return make


def _of_agent(agent: Any, *_: Any, **given: Any) -> Step:
    """An agent's: its thread has the conversation, and its session if the app named it."""
    thread = given.get("thread")
    thread_id = str(getattr(thread, "_id", None) or "")
    named = {} if MADE.fullmatch(thread_id) else {"session_id": thread_id}
    said = _said(named, given.get("arguments"), given)
    hooks = hooks_of(agent, given.get("kernel"), agent.kernel)
    return deeper(agent, agent.name, hooks, conversation=thread, **said)


def _said(*told: Any) -> dict[str, Any]:
    """Session and user, where the arguments tell them."""
    keys = ("session_id", "user_id")
    maps = [each for each in told if isinstance(each, Mapping)]
    return {key: each[key] for each in maps for key in keys if each.get(key)}


def _of_function(
    function: Any, kernel: Any = None, arguments: Any = None, *_: Any, **given: Any
) -> Step:
    """A prompt's or a native function's, in the line of who calls it."""
    return deeper(function, "", hooks_of(kernel), **_said(arguments, given))


function_entry = _entry(_of_function)


def _of_service(service: Any, chat_history: Any = None, *_: Any, **given: Any) -> Step:
    """A loop of model calls and functions; who works with the service already is asked for once."""
    around = step_around()
    if around is not None and around.hooks is not None and around.hooks.active:
        return around
    history = given.get("chat_history", chat_history)
    hooks = hooks_of(service, given.get("kernel"))
    return deeper(service, "", hooks, conversation=history, **_said(given.get("arguments")))


def _of_group(group: Any, *_: Any, **__: Any) -> Step:
    """A chat's or an orchestration's, whose agents speak in lines of their own."""
    return deeper(group, "", hooks_of(group), conversation=group)


# Orchestrations: their runtime's task inherits nothing


_runs: BoundedMap[str, Step] = BoundedMap(MAX_RUNS)
"""Steps by the topic of a run, which its actors have."""


def _preparing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of an orchestration: `_prepare(runtime, internal_topic_type, ...)`."""

    @same_kind(original)
    async def prepare(self: Any, runtime: Any, internal_topic_type: str, *a: Any, **kw: Any) -> Any:
        if (step := step_around()) is not None:
            _runs.put(internal_topic_type, step)
        return await original(self, runtime, internal_topic_type, *a, **kw)

    return prepare


def _of_actor(actor: Any, *_: Any, **__: Any) -> Step:
    found = _runs.get(getattr(actor, "_internal_topic_type", ""))
    return found or step_around() or deeper(actor)


# What the framework asks for itself


_aside: ContextVar[bool] = ContextVar("ce_semantic_kernel_aside", default=False)


@contextmanager
def aside(*_: object, **__: object) -> Iterator[None]:
    """What asks a model inside does so for itself."""
    token = _aside.set(True)
    try:
        yield
    finally:
        unset(_aside, token)


def is_aside() -> bool:
    """Whether it does so here."""
    return _aside.get()


def loaded(module: str, name: str) -> list[type]:
    """A class of a module of the framework's that the app may do without."""
    found = getattr(sys.modules.get(module), name, None)
    return [found] if isinstance(found, type) else []


def groups() -> tuple[type, ...]:
    """The classes of chats and orchestrations, where they are loaded."""
    chats = loaded("semantic_kernel.agents.group_chat.agent_chat", "AgentChat")
    return (*chats, *loaded(f"{ORCHESTRATION}orchestration_base", "OrchestrationBase"))


def entries() -> dict[type, dict[str, Make]]:
    """The methods by which they begin to work, and those that ask on the framework's own account."""
    found: dict[type, dict[str, Make]] = {
        Agent: dict.fromkeys(("get_response", "invoke", "invoke_stream"), _entry(_of_agent)),
        KernelFunction: {"invoke_stream": function_entry},
        ChatCompletionClientBase: dict.fromkeys(
            ("get_chat_message_contents", "get_streaming_chat_message_contents"),
            _entry(_of_service),
        ),
    }
    for cls in groups():
        found[cls] = {
            **dict.fromkeys(("invoke", "invoke_stream"), _entry(_of_group)),
            "_prepare": _preparing,
        }
    for cls in loaded(f"{ORCHESTRATION}agent_actor_base", "ActorBase"):
        found[cls] = {"on_message_impl": _entry(_of_actor)}
    for module, names in ASIDE.items():
        for name, methods in names.items():
            found |= {cls: dict.fromkeys(methods, within(aside)) for cls in loaded(module, name)}
    return found
