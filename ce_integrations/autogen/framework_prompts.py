"""Prompts that AutoGen puts together: a selector's one text, an orchestrator's list, a society's talk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import LLMMessage, SystemMessage

from ce_integrations.autogen.agent_tool_messages import note_tellers
from ce_integrations.autogen.mapper import Rule
from ce_integrations.calls.agent_steps import step_around
from ce_integrations.install.adapter import CallInfo
from ce_integrations.install.class_adapter import Entry, loaded
from ce_integrations.wrapping.function_kinds import same_kind


TEAMS = "autogen_agentchat.teams._group_chat."
SELECTOR = f"{TEAMS}_selector_group_chat.SelectorGroupChatManager"
ORCHESTRATOR = f"{TEAMS}_magentic_one._magentic_one_orchestrator.MagenticOneOrchestrator"
SOCIETY = "autogen_agentchat.agents.SocietyOfMindAgent"


@dataclass(slots=True)
class Prompt:
    """A call as the engine sees it, and as the framework writes it.

    Attributes:
        natives: the messages that the engine decides upon; empty where those are the call's own.
        own_count: how many at the end are the call's own, which all go out behind the first message.
        write: the framework's first message, of those in between that go out; without it each goes
            out as it came.
    """

    natives: list[LLMMessage] = field(default_factory=list)
    own_count: int = 0
    write: Callable[[list[LLMMessage]], LLMMessage] | None = None

    def compose(
        self, call_messages: Sequence[LLMMessage], outgoing: list[LLMMessage]
    ) -> list[LLMMessage]:
        """The call's messages, of those that the engine lets go out."""
        if not self.natives:
            return outgoing
        if self.write is None:
            came = {
                id(native): message
                for native, message in zip(self.natives, call_messages, strict=False)
            }
            return [came.get(id(message), message) for message in outgoing]
        own_messages = (self.natives[0], *self.natives[len(self.natives) - self.own_count :])
        own = {id(message) for message in own_messages}
        return [
            self.write([message for message in outgoing if id(message) not in own]),
            *call_messages[1:],
        ]


def prompt_of(subject: object, messages: list[LLMMessage], info: CallInfo) -> Prompt:
    """How a manager's call is to be seen; any other's is as it is."""
    if not messages:
        return Prompt()
    if isinstance(subject, loaded(SELECTOR)):
        info.purpose = "helper"
        return _selecting(subject, messages)
    if isinstance(subject, loaded(ORCHESTRATOR)):
        # Its first message holds the task and the plan: it never goes, as no system message does.
        info.opaque = True
        return Prompt([_as_rule(messages[0]), *messages[1:]])
    if isinstance(subject, loaded(SOCIETY)) and _is_society_s(subject, messages):
        # Not all models take the society's prompts as system messages: then it says them as a user.
        info.opaque = True
        first, *talk, last = messages
        return Prompt([_as_rule(first), *talk, _as_rule(last)])
    return Prompt()


def _as_rule(prompt: LLMMessage) -> LLMMessage:
    text, speaker = str(prompt.content), getattr(prompt, "source", "")
    return Rule(content=text, speaker=speaker) if speaker else SystemMessage(content=text)


def _is_society_s(society: Any, messages: list[LLMMessage]) -> bool:
    """Whether a call has a talk between the two prompts, as the framework writes it."""
    prompts = [vars(society).get(name) for name in ("_instruction", "_response_prompt")]
    return len(messages) > 1 and [messages[0].content, messages[-1].content] == prompts


def _selecting(manager: Any, messages: list[LLMMessage]) -> Prompt:
    """A selector writes the talk into its prompt: it is taken out, decided upon, and written again."""
    first, history = messages[0], _talks.get(manager, [])
    talk_text = manager.construct_message_history(history) if history else ""
    before, middle, after = str(first.content).partition(talk_text) if talk_text else ("", "", "")
    if not middle:
        return Prompt()  # a manager of the app's own that writes it otherwise

    def write(talk: list[LLMMessage]) -> LLMMessage:
        content = f"{before}{manager.construct_message_history(talk)}{after}"
        return first.model_copy(update={"content": content})

    bare = SystemMessage(content=before + after)
    # Wrong answers and what it says of them follow: it asks nothing new, and tells the way it failed.
    rules = map(_as_rule, messages[1:])
    return Prompt([bare, *history, *rules], len(messages) - 1, write)


_talks: WeakKeyDictionary[Any, list[LLMMessage]] = WeakKeyDictionary()
"""What selectors were last given of their contexts."""


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    async def get_messages(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        messages = await original(self, *args, **kwargs)
        step = step_around()
        manager = step.subject if step is not None else None
        if isinstance(manager, loaded(SELECTOR)) and vars(manager).get("_model_context") is self:
            _talks[manager] = list(messages)
        return messages

    return get_messages


MAKERS: tuple[Entry, ...] = (
    (ChatCompletionContext, _noting, "get_messages"),
    (ChatCompletionContext, note_tellers, "add_message"),
)
"""What is wrapped of contexts."""
