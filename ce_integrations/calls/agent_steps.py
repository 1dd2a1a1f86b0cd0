"""Who runs around this code, for frameworks that tell of no runs: agents, teams, and agents in those."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, Token
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any

from ce_engine.runtime.context_variables import unset
from ce_engine.runtime.scoped_variable import ScopedVariable, ScopeEntry, settled
from ce_integrations.calls.hooks import Hooks
from ce_integrations.calls.open_turn import call_around
from ce_integrations.calls.tool_events import at_work
from ce_integrations.identity.session import CallInfo, as_text, chosen_session
from ce_integrations.identity.team_role import chosen_role
from ce_integrations.identity.user_around import Naming, order, tell_user, user_around
from ce_integrations.wrapping.function_kinds import run_within, same_kind
from ce_integrations.wrapping.guard import Guard
from ce_integrations.wrapping.patches import Make


__all__ = [
    "Step",
    "deeper",
    "governing_step",
    "ids_in",
    "in_step",
    "sent_from_here",
    "sent_from_nowhere",
    "step_around",
    "stepping",
]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """An agent or team at work, and what is known of the calls that it makes.

    Attributes:
        hooks: of the installation that governs it, the outermost one; `None` where there is none.
        path: the names from the outermost step to this one: its line of conversation.
        request_id: the app's own call, the same in all the steps inside.
        conversation: the object that keeps the messages, as in `CallInfo`; the outermost one.
        context: where the app asked.
        speakers: names of agents in the teams at work, governed or not: what they say is no task.
        in_tools: whether nothing of the app's runs inside but tools that a model calls, and what they call.
        user_around: whom the innermost run around it names.
        at_work: what runs of the app's call; it is over where nothing does.
    """

    hooks: Hooks[Any] | None
    subject: object
    path: tuple[str, ...] = ()
    request_id: str = ""
    session_id: object = None
    user_id: object = None
    conversation: object = None
    context: Context | None = None
    speakers: frozenset[str] = frozenset()
    in_tools: bool = False
    user_around: str | None = None
    at_work: set[object] = field(default_factory=set)

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """For what waits while its user works, as a stream does: the step is not over before its end."""
        token = object()
        self.at_work.add(token)
        try:
            yield
        finally:
            self.at_work.discard(token)

    @property
    def is_named(self) -> bool:
        """Whether it is known whose it is."""
        return not (self.session_id is None and self.user_id is None)

    def of_tools(self, alone: bool) -> Step:
        """The step, as one in which tools run `alone`, if so."""
        return replace(self, in_tools=True) if alone and not self.in_tools else self

    def info(self, /, **others: Any) -> CallInfo:
        """What is known of a call in this step; `others` are what the call itself knows."""
        fields: dict[str, Any] = {
            "request_id": self.request_id,
            "session_id": self.session_id,
            "user_id": self.user_id,
            "lane_key": "/".join(self.path) or None,
            "agent": self.path[-1] if self.path else "",
            "conversation": self.conversation,
            "context": self.context if _is_elsewhere(self) else None,
            "origin": self.context,
            "takes_history": self.subject is not None and at_work().subject is None,
        }
        return CallInfo(**{**fields, **others})


_unowned = Guard("closed")
"""For what fails before it is known who governs it. Our own errors were let through by who does."""

_logger = logging.getLogger("ce_integrations")

_step: ContextVar[Step | None] = ContextVar("ce_step", default=None)
_entered_at: ContextVar[int] = ContextVar("ce_step_entered", default=0)
"""When it was entered here: what is older here is around it, or of another call in whose task it works."""

_SAID: tuple[ScopedVariable[Any], ...] = (chosen_session, chosen_role)
"""What an app says around its calls."""


def _named_here() -> Naming | None:
    """Whom the step names that runs around us; where it is nobody, nobody outside is meant."""
    step = _running()
    return None if step is None else (_entered_at.get(), as_text(step.user_id) or step.user_around)


tell_user(_named_here)


def step_around() -> Step | None:
    """The innermost step that runs around us, if any.

    A task that the app's call has left behind (a connection's, a worker's) works for others by now:
    what it asks is governed by the same installation, and is in nobody's session and conversation.
    """
    step = _step.get()
    return step if step is None or step.at_work else replace(_first(_here()), hooks=step.hooks)


def governing_step() -> Step | None:
    """The innermost step around us, where an installation governs it."""
    step = step_around()
    return step if step is not None and step.hooks is not None and step.hooks.active else None


def ids_in(ids: Mapping[str, Any], *, may_be_sent: bool = False) -> Mapping[str, Any]:
    """Arguments that may name session and user, where they may: in a tool they are a model's words, and may be anywhere inside.

    The app names whom it works for where it begins, or by `ce_session`; what is inside is theirs.

    Args:
        ids: by `session_id`, `user_id` and others.
        may_be_sent: they came with a message, which may be a client's or another agent's: where the app says
            `ce_session` they say nothing, and only what it begins with says whose it is.
    """
    return {} if _names_nobody(ids.get("user_id"), may_be_sent) else ids


def _names_nobody(user_id: object, may_be_sent: bool) -> bool:
    around, (session, is_guess) = _running(), chosen_session.heard()
    is_inside = around is not None and around.subject is not None
    is_said = session is not None and not is_guess
    if _is_in_tools() or (is_said if may_be_sent else is_inside and is_said):
        return True
    if is_inside and (may_be_sent or (around is not None and around.is_named)):
        return True
    user = as_text(user_id)
    if not user or user_around() in (None, user):
        return False
    _logger.warning(
        "inputs name another user than the run around them is for, and do not count; where the app means "
        "them, say ce_session round the run"
    )
    return True


def _is_in_tools() -> bool:
    """Whether a model called what runs here; also where its run has left us behind."""
    step = _step.get()
    is_called = at_work().subject is not None or call_around() is not None
    return is_called or (step is not None and step.in_tools)


def sent_from_here() -> Step:
    """The step of work that is handed to a task or thread that inherits nothing from here.

    What the app says here holds there, too.
    """
    around = _running()
    step = _first(_here()) if around is None else replace(around, context=settled())
    return replace(step, in_tools=_is_in_tools(), user_around=user_around())


def _running() -> Step | None:
    step = _step.get()
    return step if step is not None and step.at_work else None


def _here() -> Context:
    """What the app says here; in a task that its call has left behind, only what was said since."""
    left = None if _running() else _step.get()
    if left is None:
        return settled()
    context, (session, is_guess) = Context(), chosen_session.heard()
    if left.context is None or session is not chosen_session.get(left.context):
        context.run(chosen_session.settle, session, is_guess)
    return context


def sent_from_nowhere() -> Step:
    """The same of work of which nobody knows who handed it over: nothing that the app said holds."""
    return _first(Context())


def _first(context: Context) -> Step:
    return Step(None, None, request_id=secrets.token_hex(8), context=context)


def deeper(
    subject: object,
    name: str = "",
    hooks: Hooks[Any] | None = None,
    *,
    around: Step | None = None,
    session_id: object = None,
    user_id: object = None,
    conversation: object = None,
    speakers: frozenset[str] = frozenset(),
) -> Step:
    """The step of an object that begins to work now, inside the one around it or as the first one.

    `around` is the step that it works for, where the framework's own task does not have it. The same
    object again is the same step. A `name` adds to the path; without one the step is on its caller's
    line. The outermost `hooks` of its framework and the outermost `conversation` count, and the innermost ids.
    """
    around = around or _running()
    if around is None:
        around = _first(_here())
    elif around.subject is subject:
        user = user_around()
        is_known = user in (around.user_around, as_text(around.user_id))
        return around if is_known else replace(around, user_around=user)
    outer_hooks = around.hooks
    governed = outer_hooks is not None and outer_hooks.active
    if outer_hooks is not None and hooks is not None:  # in a tool of another framework
        governed = governed and outer_hooks.adapter.name == hooks.adapter.name
    return replace(
        around,
        hooks=around.hooks if governed else hooks,
        subject=subject,
        path=(*around.path, name) if name else around.path,
        session_id=around.session_id if session_id is None else session_id,
        user_id=around.user_id if user_id is None else user_id,
        conversation=conversation if around.conversation is None else around.conversation,
        speakers=around.speakers | speakers,
        in_tools=around.in_tools or _is_in_tools(),
        user_around=user_around(),
    )


class stepping:  # noqa: N801 - used like a function, in `with`
    """Runs the code inside as a part of the step.

    In a task of the framework's own, which inherits nothing of the app's, or of another call of it,
    what the app said where it asked (`ce_session`, `ce_role`) holds inside.
    """

    __slots__ = ("_entered", "_step", "_tokens")

    def __init__(self, step: Step) -> None:
        self._step = step
        self._entered: list[tuple[ScopedVariable[Any], ScopeEntry[Any]]] = []
        self._tokens: tuple[Token[Step | None], Token[int]] | None = None

    def __enter__(self) -> Step:
        step = self._step
        step.at_work.add(self)
        if step.context is not None and _is_elsewhere(step):
            for variable in _SAID:
                there, is_guess = variable.heard(step.context)
                entered = variable.open(there, is_brief=True, is_guess=is_guess)
                self._entered.append((variable, entered))
        self._tokens = _step.set(step), _entered_at.set(next(order))
        return step

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._tokens is not None:
            unset(_step, self._tokens[0])
            unset(_entered_at, self._tokens[1])
        for variable, entered in reversed(self._entered):
            variable.close(entered)
        self._step.at_work.discard(self)


def in_step(begin: Callable[..., Step | None]) -> Make:
    """Makes wrappers whose original works in the step that `begin(*args, **kwargs)` gives for its call.

    For methods by which an agent or a team begins to work, of every kind: the step is made once a call,
    holds while the original runs or awaits, never while a generator waits, and lasts to its end.
    `begin` as a rule gives `deeper(agent, agent.name, hooks)`; `None` is no step.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @same_kind(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            step = None
            with _unowned("step"):
                step = begin(*args, **kwargs)
            if step is None:
                return original(*args, **kwargs)
            return run_within(partial(stepping, step), original, args, kwargs, step.lasting)

        return call

    return make


def _is_elsewhere(step: Step) -> bool:
    around = _step.get()
    return around is None or around.context is not step.context
