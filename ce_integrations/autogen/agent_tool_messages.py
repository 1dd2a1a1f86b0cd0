"""What an agent tells another one through a tool: the framework says that a user said it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from autogen_core.models import LLMMessage, UserMessage

from ce_integrations.calls.agent_steps import Step, step_around
from ce_integrations.calls.tool_events import at_work
from ce_integrations.wrapping.bounded_maps import ByIdentity
from ce_integrations.wrapping.function_kinds import same_kind


USER = "user"
"""The source of every task that is a text."""


class AgentToolMessage(UserMessage):
    """A user's message as the engine sees it, which an agent wrote."""

    by: str


_views: ByIdentity[AgentToolMessage] = ByIdentity()


def note_tellers(original: Callable[..., Any]) -> Callable[..., Any]:
    """The wrapper of a context's `add_message(message)`."""

    @same_kind(original)
    async def add_message(self: Any, /, message: Any, *args: Any, **kwargs: Any) -> Any:
        with suppress(Exception):  # of ours: it is the app's own that counts
            if isinstance(message, UserMessage) and (name := _teller(message)):
                _views.put(message, AgentToolMessage.model_construct(**vars(message), by=name))
        return await original(self, message, *args, **kwargs)

    return add_message


def _teller(message: UserMessage) -> str:
    """Who wrote what a tool's agent is told: whose model gave these words to the tool that runs."""
    run, around = at_work().config, step_around()
    step, arguments = getattr(run, "step", None), getattr(run, "args", None)
    if message.source != USER or not isinstance(step, Step) or not isinstance(arguments, Mapping):
        return ""
    if around is None or around.subject is step.subject:
        return ""
    words = (value for value in arguments.values() if isinstance(value, str) and value.strip())
    return step.path[-1] if step.path and any(text in message.content for text in words) else ""


def with_tellers(natives: list[LLMMessage]) -> list[LLMMessage]:
    """A call's messages with who wrote them; the very same list where nothing is known."""
    views = list(map(_view, natives)) if len(_views) else natives
    return natives if all(map(operator.is_, views, natives)) else views


def without_tellers(messages: list[LLMMessage], natives: Sequence[LLMMessage]) -> list[LLMMessage]:
    """What the engine lets go out of them, as the framework has it."""
    own = {id(view): native for native in natives if (view := _view(native)) is not native}
    return [own.get(id(message)) or _plain(message) for message in messages]


def _view(native: LLMMessage) -> LLMMessage:
    view = _views.get(native)
    return view if view is not None and view.content == native.content else native


def _plain(message: LLMMessage) -> LLMMessage:
    return (
        UserMessage(content=message.content, source=USER)
        if isinstance(message, AgentToolMessage)
        else message
    )
