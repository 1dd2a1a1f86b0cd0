"""One model call as the engine sees it: what the host wants to send, and the plan that is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ce_engine.schema.document import Message, Ref
from ce_engine.schema.enums import Layer, Origin, Role, TurnStatus
from ce_engine.schema.report import AssembledInput, MessagePart, Report
from ce_engine.schema.scope import Scope


if TYPE_CHECKING:
    from ce_engine.config import RuntimeConfig


Purpose = Literal["chat", "helper"]
CallerRole = Literal["agent", "worker", "planner", "reducer"]


UNREADABLE = "unreadable"
"""The kind of what stands for a whole message that could not be mapped; its name is the type's."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A picture or a file in a message: what is known of it without looking further than its beginning.

    Attributes:
        kind: `image`, `audio`, `video` or `file`; or `UNREADABLE`.
        format: `png`, `pdf`; by its first bytes, else as it is declared.
        name: the file's, live.
        width: of a picture, in pixels; so is `height`.
        size: in bytes.
        pages: of a document.
        seconds: of a sound.
        detail: what OpenAI is asked for: `low`, `high` or `auto`.
        tokens: what it costs where that depends on no provider (a text).
        digest: tells it apart; stored with a key.
    """

    kind: str
    format: str = ""
    name: str = ""
    width: int | None = None
    height: int | None = None
    size: int | None = None
    pages: int | None = None
    seconds: float | None = None
    detail: str = "auto"
    tokens: int | None = None
    digest: str = ""


@dataclass(slots=True, eq=False, weakref_slot=True)
class HostMessage:
    """A message of the host, mapped. Adapters keep and reuse it while the host's object is unchanged.

    Attributes:
        message: the live content, never redacted; `message_id`, `seq` and the like stay unset.
        origin: what it is, whatever its role.
        host_id: the framework's own id of the message, if it has one.
        obj: the host's object; opaque, never stored, never changed.
        media: digests of the parts that are not text (images, audio), part of its identity.
        media_tokens: what those parts cost, attachments aside.
        attachments: its pictures and files; the engine knows what they cost the model that is asked.
        error: a tool result that reports a failure.
        arguments: those of its calls, in their order, as the text that goes out; `""` or none where the engine's
            own JSON of them is what goes out.
        more_call_ids: the other calls that it answers, where one message has the results of several.
        protected: a host that must not lose this message for reasons of its own; a result may then stand
            without its call.
    """

    message: Message
    origin: Origin
    host_id: str | None = None
    obj: object = None
    media: tuple[str, ...] = ()
    media_tokens: int = 0
    error: bool = False
    protected: bool = False
    more_call_ids: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    arguments: tuple[str, ...] = ()
    counted: tuple[str, int] | None = None
    """The engine's: (estimator and model, tokens with framing, calls and media)."""
    recognised: tuple[tuple[str, str], Any] | None = None
    """The engine's: (session key id and redactor version, what recognises the message there)."""


@dataclass(slots=True, eq=False)
class ModelCall:
    """What the host is about to send to its model.

    Attributes:
        messages: in the host's order, system messages included.
        lane_key: the framework's own name of the line of conversation (agent, branch), or `None`.
        request_id: the app's own call (root run); retries and fallbacks inside it share it.
        tools: JSON schemas that go out with the call.
        response_format: the structured-output schema that goes out with the call.
        config: for this call; what it leaves out of redaction, opt-out and `require_user` is the engine's.
        context_window: the model's window in tokens where the framework knows it.
        purpose: `"helper"` for a framework's own calls (summarise, route): recorded, nothing injected.
        ephemeral: the session was made for this run alone.
        restore: what the session has and this list never had may be brought in: earlier turns where
            the list has none, and what relevance finds in them (decision 7). Adapters say so only
            where the app asked for it.
        batch: the app's batch that the call is an item of: items are no history of each other.
        by_hand: the host keeps no messages of its own: the list is what is new (a question, or the
            results of tools), and what else goes out is the engine's to choose, evidence included.
        retry_of: the turn that this call repeats, where the adapter knows it.
        shared_history: agents go on with one list, whose answers do not say who of them spoke.
        new_conversation: the adapter knows that the host starts anew on purpose.
        role: who calls, in a team of agents; map-reduce's workers, planners and reducers have a share
            of the context only (E-05).
        want: sections that such a caller asks for, such as `knowledge__context`.
        task_id: the task of the session's to-do list that the call is made for; its usage is told of that.
        sub_task_id: a task inside that one, which an agent handed to another; in the usage's `params`.
    """

    scope: Scope
    messages: Sequence[HostMessage]
    lane_key: str | None = None
    request_id: str = ""
    tools: Sequence[Mapping[str, Any]] = ()
    response_format: Mapping[str, Any] | None = None
    model_hint: str | None = None
    context_window: int | None = None
    purpose: Purpose = "chat"
    config: RuntimeConfig | None = None
    framework: str = ""
    restore: bool = True
    batch: str = ""
    by_hand: bool = False
    ephemeral: bool = False
    parent_turn_id: str | None = None
    retry_of: str | None = None
    shared_history: bool = False
    new_conversation: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    role: CallerRole = "agent"
    want: frozenset[str] = frozenset()
    task_id: str = ""
    sub_task_id: str = ""

    @property
    def lane(self) -> str:
        """The line of conversation that it belongs to: its own name, else the agent's."""
        return self.lane_key or self.scope.agent_id

    @property
    def speaker(self) -> str:
        """Who said the answers of its list that name nobody; empty where that is not known."""
        return "" if self.shared_history else self.scope.agent_id


@dataclass(frozen=True, slots=True)
class Keep:
    """Host message `index` goes out as it is: the host's own object."""

    index: int


@dataclass(frozen=True, slots=True)
class Shorten:
    """Host message `index` goes out as a copy whose whole text is `text`; other parts and ids stay."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Extend:
    """Host message `index` goes out as a copy with `text` after its own (or before, for a task message)."""

    index: int
    text: str
    before: bool = False


@dataclass(frozen=True, slots=True)
class Insert:
    """A new message with `text`; `block_ids` are the context blocks it renders.

    Its role is the system's for rules that an owner stored, and the user's for data.
    """

    text: str
    layer: Layer
    block_ids: tuple[str, ...] = ()
    role: Role = Role.SYSTEM


@dataclass(frozen=True, slots=True)
class Restore:
    """A stored message that the host does not have any more goes out again.

    Its content begins with what was brought in `before` its own.
    """

    message: Message
    before: str = ""


Step = Keep | Shorten | Extend | Insert | Restore


@dataclass(slots=True, eq=False)
class TurnHandle:
    """The life of one preparation; hand it to `commit`. `state` is the engine's own."""

    turn_id: str
    scope: Scope
    request_id: str = ""
    lane: str = ""
    attempt: int = 1
    status: TurnStatus = TurnStatus.OPEN
    state: Any = None


@dataclass(eq=False)
class Prepared:
    """The answer to a model call.

    `unchanged` is true only for a plan that keeps everything: the adapter then hands the very same
    list object back. `text` is set where the host's input is one string.
    """

    turn: TurnHandle
    plan: list[Step]
    unchanged: bool
    report: Report
    call: ModelCall
    text: str | None = None

    @cached_property
    def assembled(self) -> AssembledInput:
        """The input as parts, derived from the plan on first use."""
        parts = [self._part(step) for step in self.plan]
        return AssembledInput(parts=parts, text=self.text, total_tokens=self.report.token_used)

    def _part(self, step: Step) -> MessagePart:
        if isinstance(step, Insert):
            return MessagePart(role=step.role, content=step.text)
        if isinstance(step, Restore):
            message = step.message
        else:
            message = self.call.messages[step.index].message
        content = message.content
        if isinstance(step, Shorten):
            content = step.text
        elif isinstance(step, Extend):
            content = step.text + content if step.before else content + step.text
        return MessagePart(
            role=message.role,
            content=content,
            tool_calls=message.tool_calls,
            tool_call_id=message.tool_call_id,
        )


@dataclass(slots=True)
class Answer:
    """What came back from the model.

    Attributes:
        message: the mapped answer, live content.
        host_id: the framework's id of it.
        model: the model's name as the provider gave it.
        finish_reason: as the provider gave it.
        refs: what the host says that it rests on; `None` refers to what went out and what its request found.
        attachments: pictures and files beside its text.
    """

    message: Message
    host_id: str | None = None
    model: str = ""
    provider: str = ""
    finish_reason: str = ""
    refs: Sequence[Ref] | None = None
    attachments: Sequence[Attachment] = ()


@dataclass(slots=True)
class Usage:
    """Tokens and time of one model call. `estimated` where the provider did not say."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    latency_ms: int = 0
    first_token_latency_ms: int | None = None
    estimated: bool = False
    cached: bool = False
    """Answered from the host's cache: nothing was spent."""
    details: dict[str, int] = field(default_factory=dict)
    """The provider's further figures: cache_read, cache_creation, reasoning, ..."""
