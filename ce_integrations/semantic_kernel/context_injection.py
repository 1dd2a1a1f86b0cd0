"""Puts the engine in front of every call of a chat service, and knows who asks: agents, chats, functions."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any
from weakref import ref

from semantic_kernel.agents.agent import Agent
from semantic_kernel.contents import ChatHistory, ChatMessageContent

from ce_integrations.calls.agent_steps import Step, deeper, ids_in, in_step, step_around
from ce_integrations.calls.helper_calls import aside
from ce_integrations.calls.model_methods import ModelMethodCall, governed, schema_of
from ce_integrations.identity.session import names_somebody
from ce_integrations.install.adapter import CallInfo, Hooks, Stateless
from ce_integrations.install.class_adapter import Entry
from ce_integrations.install.marks import PLACE, Governor
from ce_integrations.semantic_kernel.mapper import whole
from ce_integrations.wrapping.bounded_maps import BoundedMap
from ce_integrations.wrapping.function_kinds import same_kind, within


MADE = re.compile(r"thread_[0-9a-f]{32}")
"""The id of a thread that nobody named."""

MAX_RUNS = 10_000

owner_of = Governor("semantic_kernel")


def hooks_of(*subjects: Any) -> Hooks[Any] | None:
    """Those of the first of them that is marked."""
    return next((mark.hooks for mark in map(PLACE.mark_of, subjects) if mark is not None), None)


# The call


def _describe(call: ModelMethodCall) -> tuple[list[ChatMessageContent], CallInfo]:
    """The messages of a history, which stays as it is: agents count what is added to it."""
    step, service, history = step_around(), call.subject, call.argument
    settings = call.positional[0] if call.positional else call.keywords.get("settings")
    info = CallInfo(request_id=secrets.token_hex(8)) if step is None else step.info()
    info.takes_history &= step is not None and isinstance(step.subject, Agent)
    thread_ref = None if step is None else _threads.get((step.request_id, step.path))
    info.conversation = info.conversation or (thread_ref() if thread_ref else None) or history
    info.model = getattr(settings, "ai_model_id", None) or service.ai_model_id
    info.provider = str(getattr(service, "MODEL_PROVIDER_NAME", ""))
    tools = getattr(settings, "tools", None) or ()
    info.tools = [tool for tool in tools if isinstance(tool, Mapping)]
    info.response_format = schema_of(getattr(settings, "response_format", None))
    return history.messages, info


def _replace(_: ModelMethodCall, messages: list[ChatMessageContent]) -> ChatHistory:
    return ChatHistory.model_construct(messages=messages, system_message=None)


_call = governed(
    owner_of,
    _describe,
    names=("chat_history",),
    replace=_replace,
    answers=lambda contents: ((content, None) for content in contents[:1]),
    text=lambda chunk: "".join(piece.content for piece in chunk if piece.choice_index == 0),
    join=whole,
)


# Who asks


def _named_ids(*sources: Any) -> Mapping[str, Any]:
    """Session and user, where arguments tell them that are the app's own."""
    keys = ("session_id", "user_id")
    maps = [source for source in sources if isinstance(source, Mapping)]
    return ids_in({key: s[key] for s in maps for key in keys if names_somebody(s.get(key))})


def _agent(agent: Any, /, *_: Any, **kwargs: Any) -> Step:
    """An agent's step: its thread has the conversation, and names its session if the app named it."""
    thread = kwargs.get("thread")
    thread_id = str(getattr(thread, "_id", None) or "")
    is_named = thread_id and not MADE.fullmatch(thread_id)
    thread_ids = {"session_id": thread_id} if is_named else {}
    hooks = hooks_of(agent, kwargs.get("kernel"), agent.kernel)
    ids = {**thread_ids, **_named_ids(kwargs.get("arguments"), kwargs)}
    return deeper(agent, agent.name, hooks, conversation=thread, **ids)


_threads: BoundedMap[tuple[str, tuple[str, ...]], ref[Any]] = BoundedMap(MAX_RUNS)
"""Threads that agents make where they are given none: apps go on with the answer's."""


def _threaded(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    async def ensure(self: Any, /, **kwargs: Any) -> Any:
        thread, step = await original(self, **kwargs), step_around()
        if step is not None and step.subject is self:
            _threads.put((step.request_id, step.path), ref(thread))
        return thread

    return ensure


def _function(
    function: Any, /, kernel: Any = None, arguments: Any = None, *_: Any, **kwargs: Any
) -> Step:
    """A prompt's or a native function's, in the line of who calls it."""
    return deeper(function, "", hooks_of(kernel), **_named_ids(arguments, kwargs))


def _service(service: Any, /, chat_history: Any = None, *_: Any, **kwargs: Any) -> Step | None:
    """A loop of model calls and functions; who is in a governed step already asks in that."""
    if owner_of.step() is not None:
        return None
    history, hooks = (
        kwargs.get("chat_history", chat_history),
        hooks_of(service, kwargs.get("kernel")),
    )
    return deeper(service, "", hooks, conversation=history, **_named_ids(kwargs.get("arguments")))


def _chat(chat: Any, /, *_: Any, **__: Any) -> Step:
    """Its agents speak in lines of their own, and it keeps what they said."""
    return deeper(chat, "", hooks_of(chat), conversation=chat)


def _orchestration(group: Any, /, *_: Any, **__: Any) -> Step:
    """The same; what its agents say is kept by each run."""
    return deeper(group, "", hooks_of(group), conversation=Stateless(group))


_runs: BoundedMap[str, Step] = BoundedMap(MAX_RUNS)
"""Steps of orchestrations by the topic that their actors have: those work in a runtime's own tasks."""


def _preparing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of an orchestration: `_prepare(runtime, internal_topic_type, ...)`."""

    @same_kind(original)
    async def prepare(
        self: Any, /, runtime: Any, internal_topic_type: str, *a: Any, **kw: Any
    ) -> Any:
        if (step := step_around()) is not None:
            _runs.put(internal_topic_type, step)
        return await original(self, runtime, internal_topic_type, *a, **kw)

    return prepare


def _actor(actor: Any, /, *_: Any, **__: Any) -> Step | None:
    return _runs.get(getattr(actor, "_internal_topic_type", ""))


function_step, _aside = in_step(_function), within(aside)

SERVICE = "semantic_kernel.connectors.ai.chat_completion_client_base.ChatCompletionClientBase"
AGENT, CHAT = "semantic_kernel.agents.agent.Agent", "semantic_kernel.agents.group_chat."
ORCHESTRATION, STRATEGY = (
    "semantic_kernel.agents.orchestration.",
    "semantic_kernel.agents.strategies.",
)
REDUCER = "semantic_kernel.contents.history_reducer.chat_history_reducer.ChatHistoryReducer"
ROUTES = "should_request_user_input should_terminate select_next_agent filter_results"
PLANS = "plan replan create_progress_ledger prepare_final_answer"
MAKERS: tuple[Entry, ...] = (
    # Connectors override the first two, and the kernel's loop calls them at each step.
    (SERVICE, _call, "_inner_get_chat_message_contents"),
    (SERVICE, _call, "_inner_get_streaming_chat_message_contents"),
    (SERVICE, in_step(_service), "get_chat_message_contents get_streaming_chat_message_contents"),
    (AGENT, in_step(_agent), "get_response invoke invoke_stream"),
    (AGENT, _threaded, "_ensure_thread_exists_with_messages"),
    (f"{CHAT}agent_chat.AgentChat", in_step(_chat), "invoke invoke_stream"),
    (f"{ORCHESTRATION}orchestration_base.OrchestrationBase", in_step(_orchestration), "invoke"),
    (f"{ORCHESTRATION}orchestration_base.OrchestrationBase", _preparing, "_prepare"),
    (f"{ORCHESTRATION}agent_actor_base.ActorBase", in_step(_actor), "on_message_impl"),
    # What asks on the framework's own account
    (REDUCER, _aside, "reduce"),
    (f"{STRATEGY}selection.selection_strategy.SelectionStrategy", _aside, "next select_agent"),
    (f"{STRATEGY}termination.termination_strategy.TerminationStrategy", _aside, "should_terminate"),
    (f"{ORCHESTRATION}group_chat.GroupChatManager", _aside, ROUTES),
    (f"{ORCHESTRATION}magentic.MagenticManagerBase", _aside, PLANS),
)
"""What is wrapped, by the class: of those that the app has loaded, for orchestrations want protobuf."""
