"""Whose words they are and which session they belong to: `ce_session`, and how a scope is found (decision 9)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from math import isfinite
from numbers import Real
from types import TracebackType
from typing import Any, Literal, Self
from uuid import UUID

from ce_engine import Answer, ConfigError, Scope
from ce_engine.runtime.scoped_variable import ScopedVariable, ScopeEntry, innermost
from ce_engine.schema.scope import MOST_ID_BYTES
from ce_integrations.identity.unnamed_sessions import Messages, unnamed
from ce_integrations.identity.user_around import user_around


Id = str | int | float | UUID

_WANTED = (
    "expected a text that is not empty, a number or a UUID. Where nobody has an id, leave it out, or "
    "give None: each run is then on its own"
)

_BEGINNING = 64
"""Characters that are left of an agent's name which is too long for an id."""

SHARED_DEFAULTS = frozenset({"default", "chat_history", ""})
"""Ids that frameworks give to everybody who chose none: they are no ids."""


@dataclass(slots=True)
class CallInfo:
    """What an adapter knows of a model call, a tool's run or a retrieval beside its content.

    Attributes:
        request_id: the app's own call (root run of the framework); retries inside it share it.
        parent_request_id: the run right above this call.
        session_id: the framework's own id of the conversation, as it is; shared defaults do not count.
        lane_key: the framework's own name of the line of conversation (branch, agent).
        agent: the framework's name of the agent that asks.
        shared_history: agents go on with one list, which does not say who of them spoke.
        context_window: the model's window in tokens, where the framework knows it; else it is looked up by
            the model's name.
        tools: JSON schemas that go out with the call.
        response_format: the schema of a structured answer that goes out with the call.
        purpose: `"helper"` for a framework's own calls (summarise, route, guard).
        takes_history: the call is a chain's or an engine's that holds a conversation: where its list
            has no history, that of the session may be put in, if the app asked for it. Never of a model
            that is asked alone, of one-shot prompts, nor where the framework keeps the state itself.
        batch: names the app's batch that the call is an item of: items are no history of each other.
        opaque: the input is one text that somebody put together: nothing is brought into it.
        conversation: the object that the framework hands from run to run, with the messages (a
            memory, an agent or team that keeps its own); known weakly, by identity. Where nobody
            named a session, the same ephemeral one goes on with it. `Stateless(agent)` for an agent that
            is handed them all and keeps none: a list goes on with the session of an answer that is in it.
        context: where the app asked, if this runs elsewhere, in a task that inherits nothing of it:
            what was said there (`ce_session`, `ce_role`) counts, and not what is said here.
        origin: where the run that this is a part of began, if in a generator's block: what was said
            there counts where nothing certain is said here.
        task_id: the task of the framework's own for which this is done, and `sub_task_id` one inside it,
            which an agent handed to another.
        metadata: the framework's metadata of this call, for callables of the user; never stored.
        mode: the name of the entry point that was called.
    """

    request_id: str = ""
    parent_request_id: str = ""
    session_id: object = None
    user_id: object = None
    lane_key: str | None = None
    agent: str = ""
    shared_history: bool = False
    model: str | None = None
    provider: str = ""
    context_window: int | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    response_format: Mapping[str, Any] | None = None
    purpose: Literal["chat", "helper"] = "chat"
    takes_history: bool = False
    batch: str = ""
    opaque: bool = False
    conversation: object = None
    context: Context | None = None
    origin: Context | None = field(default=None, compare=False)
    task_id: str = ""
    sub_task_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    mode: str = ""


@dataclass(frozen=True, slots=True)
class _Voice:
    """What one of those who may name a scope says, and whether history is to go in; `None` is not said."""

    session_id: str | None = None
    user_id: str | None = None
    account_id: str | None = None
    project_id: str | None = None
    agent_id: str | None = None
    history: bool | None = field(default=None, kw_only=True)


_SAID = tuple(part.name for part in fields(_Voice))
_PARTS = tuple(name for name in _SAID if name != "history")
_OWNER = ("user_id", "account_id")
_WHOSE = ("session_id", *_OWNER)
chosen_session: ScopedVariable[_Voice] = ScopedVariable("ce_session", __name__)


class ce_session:  # noqa: N801 - reads like the function that it is to its users
    """Say whose session the calls inside belong to; `with` and `async with`, nestable.

    It wins over everything said at installation and over the framework's own ids. What an inner
    block leaves out holds from the block around it. A block in a generator holds while the generator
    runs, and not for its caller while it waits at a `yield`. Where a task may have been begun by either,
    it says nothing to a call that names somebody else, nor to a block that is opened there.

    Args:
        session_id: whose calls these are.
        user_id: the user, and so on for the other ids.
        history: whether chains and engines inside that send no history are given what was said in the
            session before; as the installation says, if not given. Models that are asked alone never are.

    Raises:
        ConfigError: the session id is empty, an id is neither a text, a number nor a UUID, or `history` is
            no truth value.
    """

    def __init__(
        self,
        session_id: Id,
        *,
        user_id: Id | None = None,
        account_id: Id | None = None,
        project_id: Id | None = None,
        agent_id: Id | None = None,
        history: bool | None = None,
    ) -> None:
        if session_id is None:
            raise ConfigError(f"session_id of ce_session is None; {_WANTED}")
        if history not in (None, True, False):
            raise ConfigError(f"ce_session's history is True or False; found {history!r}")
        values = session_id, user_id, account_id, project_id, agent_id
        parts = zip(values, _PARTS, strict=True)
        ids = (as_id(value, part, "ce_session") for value, part in parts)
        self._said = _Voice(*ids, history=history)
        self._entered: list[ScopeEntry[_Voice]] = []

    def __enter__(self) -> Self:
        around, is_guess = chosen_session.heard()
        voice = self._said if around is None or is_guess else _innermost([self._said, around])
        self._entered.append(chosen_session.open(voice))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        chosen_session.close(innermost(self._entered))

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, traceback)


def _innermost(voices: Sequence[_Voice]) -> _Voice:
    """Of each part what the first voice says that says anything."""
    values: dict[str, Any] = {}
    for voice in voices:
        for part in _SAID:
            if part not in values and (value := getattr(voice, part)) is not None:
                values[part] = value
    return _Voice(**values)


ScopeChoice = Scope | Callable[[CallInfo], Scope | None] | None
IdChoice = Id | Callable[[CallInfo], Id | None] | None


@dataclass(frozen=True, slots=True)
class Choice:
    """What `install_ce` was told about scopes: values, or sync callables that get the `CallInfo`."""

    scope: ScopeChoice = None
    session_id: IdChoice = None
    user_id: IdChoice = None


@dataclass(frozen=True, slots=True)
class CallIdentity:
    """Whose call it is.

    Attributes:
        ephemeral: nobody named the session, and it was made for this run.
        history: whether the app asked for the session's history here; `None` is not said.
        conversation: that of `conversation_of`, where the answer is to be remembered.
    """

    scope: Scope
    ephemeral: bool = False
    conversation: int | None = None
    history: bool | None = None


def resolve(info: CallInfo, choice: Choice, messages: Messages = tuple) -> CallIdentity:
    """Find the scope of a call; of each part the innermost that says something wins.

    `ce_session`, then the callables of `install_ce`, its values, the framework's own ids, and in
    the end a fresh session for this run alone. `messages`, asked for only then, may show that such a
    run goes on with a list whose answer was recorded before in this process; none is not known.

    Raises:
        ConfigError: a callable gave something that is no id.
    """
    voice = _innermost(list(_voices(info, choice)))
    account_id, user_id = voice.account_id or "", voice.user_id
    if user_id is None:
        user_id = user_around() or ""
    session_id = voice.session_id or unnamed.session_of(
        info.request_id,
        (account_id, user_id),
        messages,
        unnamed.number_of(info.conversation),
        is_list=_is_list(info),
    )
    scope = Scope(
        session_id=session_id,
        user_id=user_id,
        account_id=account_id,
        project_id=voice.project_id or "",
        agent_id=voice.agent_id or "",
        trace_id=info.request_id,
    )
    return CallIdentity(scope, ephemeral=voice.session_id is None, history=voice.history)


def _voices(info: CallInfo, choice: Choice) -> Iterator[_Voice]:
    """Everybody who may name the scope, the innermost first."""
    around, is_guess = chosen_session.heard(info.context, info.origin)
    called, own = _called_voice(info, choice), _own_voice(info)
    if around is not None and not (is_guess and _is_another(_innermost([called, own]), around)):
        yield around
    yield called
    yield _Voice(_value(choice.session_id), _value(choice.user_id))
    if isinstance(choice.scope, Scope):
        yield of_scope(choice.scope)
    yield own


def _is_another(own_voice: _Voice, around: _Voice) -> bool:
    """Whether a call itself names somebody else than is named around it."""
    both = ((getattr(voice, part) for voice in (own_voice, around)) for part in _WHOSE)
    return any(own is not None and own != (outer or "") for own, outer in both)


def _called_voice(info: CallInfo, choice: Choice) -> _Voice:
    """What the callables of `install_ce` say."""
    session_id = _called(choice.session_id, info, "session_id")
    voice = _Voice(session_id, _called(choice.user_id, info, "user_id"))
    if callable(choice.scope):
        return _innermost([voice, of_scope(choice.scope(info))])
    return voice


def _own_voice(info: CallInfo) -> _Voice:
    """The framework's own ids."""
    own = as_text(info.session_id)
    session_id = None if own in SHARED_DEFAULTS else own
    return _Voice(session_id, as_text(info.user_id), agent_id=_agent_id(info.agent) or None)


def within_turn(own: CallIdentity, around: CallIdentity | None) -> CallIdentity:
    """Whose a call is that is made inside another one: where it names nobody, that was said outside."""
    if around is None or not own.ephemeral:
        return own
    both = ((getattr(identity.scope, part) for identity in (own, around)) for part in _OWNER)
    is_another = any(inner_id and inner_id != outer_id for inner_id, outer_id in both)
    return own if is_another else around


def _agent_id(name: str) -> str:
    """A framework's name of an agent as an id: of one that is as long as a paragraph, its beginning and a hash."""
    data = name.encode("utf-8", "surrogatepass")
    if len(data) <= MOST_ID_BYTES:
        return name
    return f"{name[:_BEGINNING]} {blake2b(data, digest_size=8).hexdigest()}"


def conversation_of(info: CallInfo) -> int | None:
    """Names the object that keeps the list which a call sends, and will have its answer."""
    return unnamed.number_of(info.conversation) if _is_list(info) else None


def _is_list(info: CallInfo) -> bool:
    return info.purpose == "chat" and not info.opaque


def remember_answer(resolved: CallIdentity, answer: Answer, *, is_shared: bool = False) -> None:
    """Note an answer given in an ephemeral session, so that a list that holds it goes on with it.

    `is_shared` is one that a cache gives to others too.
    """
    if resolved.ephemeral:
        scope = resolved.scope
        unnamed.remember(
            (scope.account_id, scope.user_id),
            scope.session_id,
            answer.message,
            answer.host_id,
            resolved.conversation,
            is_shared=is_shared,
        )


def _called(choice: IdChoice, info: CallInfo, name: str) -> str | None:
    if not callable(choice):
        return None
    value: object = choice(info)
    if isinstance(value, Coroutine):
        value.close()
        raise ConfigError(
            f"the {name} callable of install_ce is an async one, which cannot be used here; expected "
            "a function that gives an id or None"
        )
    return as_id(value, name, "the callable of install_ce")


def _value(choice: IdChoice) -> str | None:
    return None if callable(choice) else as_text(choice)


def of_scope(scope: object) -> _Voice:
    """What a scope of `install_ce` says; a part that is empty says nothing.

    Raises:
        ConfigError: it is none, or has a part that cannot be an id.
    """
    if scope is None:
        return _Voice()
    if not isinstance(scope, Scope):
        raise ConfigError(
            f"the scope callable of install_ce gave {type(scope).__name__}; expected a Scope or "
            "None (an async callable cannot be used here)"
        )
    ids = (as_id(getattr(scope, part), part, "the Scope of install_ce") for part in _PARTS)
    return _Voice(*(part_id or None for part_id in ids))


def as_id(value: object, part: str, said_by: str) -> str | None:
    """An id that the app says, as text; `None` is not said. `""` is nobody, and no session.

    Raises:
        ConfigError: it cannot be one.
    """
    text = as_text(value)
    if text is None and value is not None:
        raise ConfigError(f"{part} of {said_by} is a {type(value).__name__}; {_WANTED}")
    if text == "" and part == "session_id":
        raise ConfigError(f"{part} of {said_by} is an empty text; {_WANTED}")
    if text is not None and any("\ud800" <= character <= "\udfff" for character in text):
        raise ConfigError(f"{part} of {said_by} has half of a surrogate pair; {_WANTED}")
    if text is not None and (count := len(text.encode())) > MOST_ID_BYTES:
        raise ConfigError(
            f"{part} of {said_by} has {count} bytes, and the most are {MOST_ID_BYTES}; give a shorter one, or a hash of it"
        )
    return text


def names_somebody(value: object) -> bool:
    """Whether what stands in an app's inputs may be an id; what has no truth value, as an array, is none."""
    with suppress(Exception):
        return bool(value)
    return False


def as_text(value: object) -> str | None:
    """A framework's id as text: texts, numbers and UUIDs are ids, other objects are not."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return None
    with suppress(Exception):  # a number that is longer than any id, or one that tells nothing
        is_number = isinstance(value, Real) and isfinite(value)
        return str(value) if is_number or type(value).__name__ == "UUID" else None
    return None
