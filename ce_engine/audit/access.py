"""The one way to what is stored: who may, and that it was asked for (B-03, B-05)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, Self, TypeVar

from ce_engine.errors import (
    ConstraintNotFoundError,
    ContextEngineError,
    EvidenceNotFoundError,
    InspectForbiddenError,
    OriginalRefusedError,
    ScopeViolationError,
    SessionNotFoundError,
    TurnNotFoundError,
)
from ce_engine.ports.audit import AuditSink, Authorize
from ce_engine.ports.ids import Clock, IdGenerator
from ce_engine.runtime.context_variables import unset
from ce_engine.runtime.scoped_variable import ScopedVariable
from ce_engine.schema.audit import Action, AuditRecord, AuditStatus
from ce_engine.schema.scope import Scope, check_text, is_whole
from ce_engine.sessions.owner.permission import allows


logger = logging.getLogger("ce_engine.audit")
T = TypeVar("T")

LISTED = "*"
"""In the place of an id: all sessions of an owner; all users of an account; all accounts."""

MAX_ID_CHARS = 512

DOORS: Mapping[str, Action] = {
    "get_session": "read",
    "get_evidence": "read",
    "list_evidences": "read",
    "list_turns": "read",
    "list_reports": "read",
    "list_events": "read",
    "list_sessions": "list",
    "fetch_evidence": "read",
    "resolver": "read",
    "trace": "read",
    "replay": "read",
    "explain": "read",
    "handover": "read",
    "recorded_call": "read",
    "preview": "read",
    "compact": "read",
    "summarize": "read",
    "last_report": "read",
    "violations": "read",
    "inspect": "inspect",
    "original": "original",
    "verify": "verify",
    "verify_originals": "verify",
    "verify_settings": "verify",
    "delete_session": "delete",
    "delete_evidence": "delete",
    "delete_user_data": "delete",
    "sweep": "delete",
    "export_user_data": "export",
    "put_context_blocks": "change",
    "upsert_tasks": "change",
}
"""The engine's methods that show, change or delete what is stored, and what each does."""

CONSTRAINT_DOORS: Mapping[str, Action] = {
    "list": "read",
    "create": "change",
    "update": "change",
    "delete": "change",
    "accept": "change",
}
BUDGET_DOORS: Mapping[str, Action] = {"get": "read", "update": "change"}
"""Those of what owners set."""

_NOT_FOUND = (
    SessionNotFoundError,
    EvidenceNotFoundError,
    TurnNotFoundError,
    ConstraintNotFoundError,
)
_DENIED = (ScopeViolationError, InspectForbiddenError, OriginalRefusedError)

UNKNOWN = "?"
"""In the place of an actor: somebody, and nobody can tell who; is refused everything."""

_actor: ScopedVariable[str] = ScopedVariable("ce_actor", __name__)
_inside: ContextVar[_Visit | None] = ContextVar("ce_access", default=None)
"""The access that this is a part of, which is told of already."""


@dataclass(frozen=True, slots=True)
class _Visit:
    """An access at work; an operator's has no `place`, and holds for all that is begun in it.

    Of others only what the same task asks as the same actor of the same session or owner is a part: a part of the
    app's own that is called meanwhile, and tasks that it begins, ask for themselves.
    """

    place: Callable[[], object] | None = None
    guard: AccessGuard | None = None
    actor: str = ""
    scope: Scope | None = None

    def covers(self, access: _Access) -> bool:
        if self.place is None or self.scope is None:
            return True
        asker = access.guard, access.actor
        if self.place() is not _place()() or (self.guard, self.actor) != asker:
            return False
        pairs = zip(self.scope.key, access.scope.key, strict=True)
        return all(own in (asked, LISTED) for own, asked in pairs)


def _place() -> Callable[[], object]:
    """The task that runs here, else the thread; as a reference that keeps neither."""
    with suppress(RuntimeError):
        if (task := asyncio.current_task()) is not None:
            return weakref.ref(task)
    return weakref.ref(threading.current_thread())


@contextmanager
def acting_as(actor: str) -> Iterator[None]:
    """Name who asks for what is read, exported or deleted in the block; tasks begun in it have the name, too.

    A block in a generator holds while the generator runs, whatever steps through it, and not for its
    caller while it waits at a `yield`. A thread has the name where it runs in a copy of the context
    (`asyncio.to_thread`, `copy_context().run`). Where an actor was named, or may have been, and cannot
    be told any more, everything is refused.

    Args:
        actor: an id of the app's own (a user's, a support engineer's), not an address: it is logged.
            `""` is the app itself.

    Raises:
        SchemaValidationError: it is no text.
    """
    check_text("actor", actor)
    if actor:
        AccessGuard.actor_count += 1
    entered = _actor.open(actor)
    try:
        yield
    finally:
        _actor.close(entered)


def current_actor() -> str:
    """Who acts here; `""` is the app itself, and `UNKNOWN` is who was named once and is lost."""
    actor = _actor.get()
    return UNKNOWN if _actor.is_lost() else actor or ""


def only_own_scope(actor: str, action: Action, scope: Scope) -> bool:
    """The default: the app itself, which has the scope in hand, or the user whose scope it is.

    What would be sent (`inspect`) is for that user alone; what is of all users (`LISTED`) for the app itself.
    Who may see an `original` is asked for by name, and says so in the session's log.
    """
    if action == "inspect":
        return actor == scope.user_id
    if scope.user_id == LISTED:
        return actor == ""
    return action == "original" or actor in ("", scope.user_id)


class AccessGuard:
    """Asks `authorize` before each access, and tells the sink of it afterwards."""

    actor_count: ClassVar[int] = 0
    """How often somebody was named as an actor in this process."""

    def __init__(self, sink: AuditSink | None, ids: IdGenerator, clock: Clock) -> None:
        self.sink, self._ids, self._clock = sink, ids, clock
        self._named_before = self.actor_count - bool(current_actor())

    def actor(self) -> str:
        """Who acts here. In a thread that inherits nothing that is unknown, once the app names actors."""
        is_used = self.actor_count > self._named_before
        if is_used and _actor.is_untold() and _is_bare_thread():
            return UNKNOWN
        return current_actor()

    @contextmanager
    def handing_over(self) -> Iterator[None]:
        """Say who acts here to a task on another thread that is begun inside."""
        token = _actor.settle(self.actor())
        try:
            yield
        finally:
            _actor.unsettle(token)

    def check(self, authorize: Authorize, actor: str, action: Action, scope: Scope) -> None:
        """See that an actor may.

        Raises:
            ScopeViolationError: the actor may not; nothing was read.
        """
        if actor == UNKNOWN:
            raise ScopeViolationError(
                "nobody can tell who acts here: an actor was named with acting_as(...), and this runs in a "
                "thread that inherits no context, or was begun in or beside a generator that had the "
                f"block. It may not {action}; open acting_as(...) here, in the thread or task itself, "
                'acting_as("") for the app itself, or run it in copy_context()'
            )
        # Who is called as all are would be their own: of lists of everybody, in many an app's `authorize`.
        if actor == LISTED or not allows(authorize, actor, action, scope):
            raise ScopeViolationError(
                f"this actor may not {action} here: the engine's `authorize` refuses it. By default an "
                "actor is the scope's own user; name it with acting_as(...)"
            )

    def tell(
        self,
        door: str,
        action: Action,
        actor: str,
        scope: Scope,
        *,
        began: float,
        status: AuditStatus = "ok",
        error: BaseException | None = None,
    ) -> None:
        """Hand a record to the sink; never raises."""
        if self.sink is None:
            return
        good = status in ("ok", "not_found")
        try:
            record = AuditRecord(
                ts=self._clock.now_iso(),
                event=action,
                event_type=door,
                actor=_short(actor),
                account_id=_short(scope.account_id),
                user_id=_short(scope.user_id),
                project_id=_short(scope.project_id),
                session_id=_short(scope.session_id),
                request_id=_short(scope.trace_id),
                event_id=self._ids.generate(),
                level="INFO" if good else "WARNING",
                duration_ms=round((time.perf_counter() - began) * 1000),
                status=status,
                error_code=_code(error),
            )
            self.sink.write(record)
        except Exception as failure:  # noqa: BLE001 - an access is not the sink's to stop
            logger.warning(
                "an access was not audited: the sink failed (%s)", type(failure).__name__
            )


def _is_bare_thread() -> bool:
    """Whether this is a thread that may have been handed work by anybody: not the first, and no loop's."""
    if threading.current_thread() is threading.main_thread():
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


def _short(value: object) -> str:
    """An id as it is told, whatever a caller made of it: no access goes untold."""
    return str(value)[:MAX_ID_CHARS]


def _status(error: BaseException | None, answer: object) -> AuditStatus:
    if error is None:
        return "not_found" if answer is None else "ok"
    if isinstance(error, _NOT_FOUND):
        return "not_found"
    return "denied" if isinstance(error, _DENIED) else "error"


def _code(error: BaseException | None) -> str:
    if error is None:
        return ""
    return error.code if isinstance(error, ContextEngineError) else type(error).__name__


def _itself(engine: Any) -> Any:
    return engine


def guarded(
    doors: Mapping[str, Action] = DOORS, prefix: str = "", engine: Callable[[Any], Any] = _itself
) -> Callable[[type[T]], type[T]]:
    """Let every one of a class's `doors` be asked for, and told of.

    Args:
        doors: names of methods, and what each does.
        prefix: stands before the name in the audit log, for what is no method of the engine's own.
        engine: which has `authorize` and `guard`, of an object of the class; by default that itself.
    """

    def decorate(cls: type[T]) -> type[T]:
        for name, action in doors.items():
            if (method := getattr(cls, name, None)) is not None:
                setattr(cls, name, _guarded(method, f"{prefix}{name}", action, engine))
        return cls

    return decorate


def _guarded(
    method: Callable[..., Any], name: str, action: Action, engine: Callable[[Any], Any]
) -> Callable[..., Any]:
    signature = inspect.signature(method)

    def access(self: Any, args: Sequence[Any], more: Mapping[str, Any]) -> _Access:
        arguments = signature.bind_partial(self, *args, **more).arguments
        actor = arguments.get("actor")
        scope, is_scope = _scope_of(arguments, signature.parameters)
        asked_engine = engine(self)
        asker = actor if isinstance(actor, str) else asked_engine.guard.actor()
        return _Access(asked_engine, name, action, asker, scope, is_scope=is_scope)

    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def look(self: Any, *args: Any, **more: Any) -> Any:
            with access(self, args, more) as visit:
                visit.answer = await method(self, *args, **more)
            return visit.answer

    else:

        @wraps(method)
        def look(self: Any, *args: Any, **more: Any) -> Any:
            with access(self, args, more) as visit:
                visit.answer = method(self, *args, **more)
            return visit.answer

    return look


_NOBODY = Scope.of_stored("", "", "")
_SESSIONS = ("session_id", "session", "scope", "call")
_OWNERS = ("account_id", "user_id")


def _default(parameters: Mapping[str, inspect.Parameter], name: str) -> Any:
    default = parameters[name].default if name in parameters else ""
    return "" if default is inspect.Parameter.empty else default


def _scope_of(
    arguments: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]
) -> tuple[Scope, bool]:
    """Whose it is that a method is asked for, and whether that is a scope: else the method will refuse what it was given."""
    if not {*_SESSIONS, *_OWNERS}.intersection(parameters):
        return Scope.of_stored(LISTED, LISTED, LISTED), True
    candidates = [arguments[name] for name in _SESSIONS if name in arguments]
    first = candidates[0] if candidates else None
    first = first[0] if isinstance(first, tuple) and first else first
    first = getattr(first, "scope", first)
    if isinstance(first, Scope):
        return first, True  # whatever its ids: such a session may be stored
    if isinstance(first, str):
        return Scope.of_stored("", "", first), is_whole(first)
    if candidates:
        return _NOBODY, False
    owner = [arguments.get(name, _default(parameters, name)) for name in _OWNERS]
    account, user = (LISTED if owner_id is None else owner_id for owner_id in owner)
    if isinstance(account, str) and isinstance(user, str):
        return Scope.of_stored(account, user, LISTED), True
    return _NOBODY, False


class _Access:
    """One access: refused before it begins, or told of when it ends."""

    def __init__(
        self,
        engine: Any,
        door: str,
        action: Action,
        actor: str,
        scope: Scope,
        *,
        is_scope: bool,
    ) -> None:
        self.guard: AccessGuard = engine.guard
        self.engine, self.door, self.action, self.actor = engine, door, action, actor
        self.scope = scope
        self.is_asked = action not in (
            "inspect",
            "original",
        )  # these refuse with errors of their own
        self.is_asked &= is_scope
        self.answer: Any = ...
        self.began = time.perf_counter()

    def __enter__(self) -> Self:
        around = _inside.get()
        self.is_part = around is not None and around.covers(self)
        if self.is_part:
            return self
        try:
            if self.is_asked:
                self.guard.check(self.engine.authorize, self.actor, self.action, self.scope)
        except ScopeViolationError as error:
            self._tell("denied", error)
            raise
        except BaseException as error:  # such as a timeout of gevent's that ended `authorize`
            self._tell("error", error)
            raise
        self.token = _inside.set(_Visit(_place(), self.guard, self.actor, self.scope))
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not self.is_part:
            unset(_inside, self.token)
            self._tell(_status(error, self.answer), error)

    def _tell(self, status: AuditStatus, error: BaseException | None) -> None:
        self.guard.tell(
            self.door,
            self.action,
            self.actor,
            self.scope,
            began=self.began,
            status=status,
            error=error,
        )


@contextmanager
def operating(
    guard: AccessGuard, door: str, action: Action, actor: str, scope: Scope
) -> Iterator[None]:
    """One access of an operator's, whatever it reads: nobody is asked, and it is told of once."""
    began, entered, inside = time.perf_counter(), _actor.open(actor), _inside.set(_Visit())
    failed: BaseException | None = None
    try:
        yield
    except Exception as error:
        failed = error
        raise
    finally:
        unset(_inside, inside)
        _actor.close(entered)
        status = _status(failed, ...)
        guard.tell(door, action, actor, scope, began=began, status=status, error=failed)
