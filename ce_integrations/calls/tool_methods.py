"""Wraps methods by which tools and retrievers run, for frameworks that tell nobody of that, or no ids."""

from __future__ import annotations

import inspect
import operator
import secrets
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ce_engine import RetrievedDoc
from ce_engine.runtime.context_variables import unset
from ce_integrations.calls.agent_steps import Step, step_around
from ce_integrations.calls.model_methods import Owner
from ce_integrations.calls.tool_events import OpenRuns, at_work, working
from ce_integrations.identity.session import CallInfo
from ce_integrations.wrapping.function_kinds import run_within, same_kind, within
from ce_integrations.wrapping.guard import Guard


__all__ = ["MethodCall", "Outcome", "RetrievalRecorder", "Round", "Run", "RunInfo", "ToolRecorder"]


@dataclass(frozen=True, slots=True)
class MethodCall:
    """A call of a method by which something runs.

    Attributes:
        owner: who governs it.
        subject: the object whose method was called.
        args: its arguments by place.
        keywords: those by name.
        mode: the method's name.
    """

    owner: Any
    subject: Any
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]
    mode: str

    def by_name(self, *names: str) -> dict[str, Any]:
        """All arguments by their names; `names` are those of the ones by place."""
        return {**dict(zip(names, self.args, strict=False)), **self.keywords}


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What an adapter knows of a run as it begins.

    Attributes:
        name: the tool's or the retriever's.
        args: a tool's arguments, or what a retriever is asked.
        info: whose it is; of the same request and line as the model's call that asked for it.
        call_id: the id of that call, where the framework tells it. Without one the call is found by name
            and arguments (`RequestedTools.claim`).
    """

    name: str
    args: Any
    info: CallInfo
    call_id: str | None = None


class Outcome(NamedTuple):
    """What a tool gave: its result, whether that tells of an error, and digests of what is no text."""

    result: object
    failed: bool = False
    media: Sequence[str] = ()


class Run:
    """A tool or a retriever at work in a governed call of its method, from begin to end.

    A fault of ours stays here, whatever `fail` says: frameworks make a tool's error a result.

    Attributes:
        subject: the tool or retriever.
        name: its name.
        step: the step around it.
        args: its arguments, as the model wrote them where a call was found; or what is asked.
        call_id: the id of the call that asked for it, if one did that has one.
        error: what was raised inside, where the framework makes a result of that; for adapters to note.
    """

    error: BaseException | None = None
    call_id: str | None = None
    _gave_at: float | None = None

    def __init__(self, called: MethodCall, run_info: RunInfo) -> None:
        hooks, self.subject = called.owner.hooks, called.subject
        self.step: Step | None = step_around()
        self.name, self.args = run_info.name, run_info.args
        self._guard: Guard = hooks.guard
        self._runs: OpenRuns[str] = OpenRuns(hooks)
        self._id = secrets.token_hex(8)
        with self.noting("begin"):
            call_id = run_info.call_id
            if call_id is None and isinstance(run_info.args, Mapping):
                request = hooks.requested_tools.claim(run_info.info, run_info.name, run_info.args)
                if request is not None:
                    call_id, self.args = request.id, request.args
            self._runs.begin(self._id, run_info.name, self.args, run_info.info, call_id)
            self.call_id = call_id

    @contextmanager
    def noting(self, where: str) -> Iterator[None]:
        """A step of ours."""
        with suppress(Exception), self._guard(where):
            yield

    def gave(self) -> None:
        """It is done, and what of its result is told is not known yet: `ended` follows."""
        self._gave_at = time.perf_counter()

    def ended(self, outcome: Outcome) -> None:
        result, failed, media = outcome
        if self.error is None:
            at = self._gave_at
            self._runs.tool_ended(self._id, result, failed=failed, media=media, at=at)
        else:
            self.failed(self.error)

    def add_documents(self, documents: Iterable[RetrievedDoc]) -> None:
        self._runs.retrieved(self._id, list(documents))

    def failed(self, error: BaseException) -> None:
        self._runs.tool_failed(self._id, error)

    def forget(self) -> None:
        """It was left, or no tool: nothing is known of its result."""
        self._runs.forget(self._id)


class Round:
    """Tools that run for one answer, where the framework puts what they gave into words when it has all of it.

    A `Make` of the method in which it does so. A run that nothing is told of ends with that method.

    Args:
        read: what a result says where the framework does not.
        hear: hears what the method gives, and ends the runs that this tells of (`take`). It guards itself.
    """

    def __init__(self, *, read: Callable[[Any], Outcome], hear: Callable[[Any], object]) -> None:
        self._read, self._hear = read, hear
        self._waiting: ContextVar[list[tuple[Run, Any]] | None] = ContextVar("ce_round")

    def __call__(self, original: Callable[..., Any]) -> Callable[..., Any]:
        async def awaited(result: Awaitable[Any]) -> Any:
            value = await result
            self._hear(value)
            return value

        @same_kind(original)
        def run(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if inspect.isawaitable(result):
                return awaited(result)
            self._hear(result)
            return result

        return within(self._opened)(run)

    @contextmanager
    def _opened(self, /, *_: object, **__: object) -> Iterator[None]:
        waiting: list[tuple[Run, Any]] = []
        token = self._waiting.set(waiting)
        try:
            yield
        finally:
            unset(self._waiting, token)
            for run, result in waiting:
                with run.noting("tool"):
                    run.ended(self._read(result))

    def outcome(self, run: Run, result: Any) -> Outcome | None:
        """What a run in no round gave; one in a round waits (`ToolRecorder.outcome`)."""
        waiting = self._waiting.get(None)
        if waiting is None:
            return self._read(result)
        waiting.append((run, result))
        return None

    def take(self, name: str, args: Any, call_id: str | None) -> Run | None:
        """The first run of this call that waits; it is the caller's to end."""
        waiting = self._waiting.get(None) or []
        for place, (run, _) in enumerate(waiting):
            if (run.name, run.args, run.call_id) == (name, args, call_id):
                return waiting.pop(place)[0]
        return None


@dataclass(frozen=True, kw_only=True)
class _Recorder:
    """What both have.

    Attributes:
        find: who governs a call of the object, if anybody does; runs on every call, unguarded.
        describe: what is known of the run. Guarded, like all that follow.
        join: what the pieces of a generator make; `None` is no result.
        is_part: whether a run of the second object is a part of one of the first, and not recorded:
            without it one of the very same object is, as where an awaited method hands on to its twin.
        note_part: what a call that is a part tells of the run.
        read: what goes on of a result, or of what is awaited for it, that can be read only once. Not guarded.
    """

    find: Callable[[Any], Owner | None]
    describe: Callable[[MethodCall], RunInfo]
    join: Callable[[list[Any]], Any] = operator.itemgetter(-1)
    is_part: Callable[[Any, Any], bool] = operator.is_
    note_part: Callable[[Run, MethodCall], object] = lambda *_: None
    read: Callable[[Any], Any] = lambda result: result
    retrieves: bool = field(default=False, init=False)

    def __call__(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Make the wrapper of a method (a `Make`)."""

        @same_kind(original)
        def call(subject: Any, /, *args: Any, **kwargs: Any) -> Any:
            run = self._begun(subject, args, kwargs, original.__name__)
            if run is None:
                return original(subject, *args, **kwargs)
            return self._run(run, original, (subject, *args), kwargs)

        return call

    def _around(self, subject: Any) -> Run | None:
        """The run that one of this object would be a part of, in the same step."""
        work = at_work()
        run = work.config
        if not isinstance(run, Run) or run.step is not step_around():
            return None
        nested = self.retrieves and work.retriever is not None
        return run if nested or self.is_part(work.subject, subject) else None

    def _begun(
        self, subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any], mode: str
    ) -> Run | None:
        owner = self.find(subject)
        if owner is None or not owner.hooks.active:
            return None
        with suppress(Exception), owner.hooks.guard("begin"):
            called = MethodCall(owner, subject, args, kwargs, mode)
            if (around := self._around(subject)) is None:
                return Run(called, self.describe(called))
            self.note_part(around, called)
        return None

    def _run(
        self,
        run: Run,
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call the original, and see to what it gives, now or later."""
        around = partial(working, args[0], run, retrieves=self.retrieves)
        pieces: list[Any] = []
        lasting = partial(self._lasting, run, pieces)
        with self._until_it_gives(run):
            result = run_within(around, original, args, kwargs, lasting, pieces.append)
            result = self.read(result)
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            return result
        if inspect.isawaitable(result):
            return self._awaited(run, result)
        self._gave(run, result)
        return result

    async def _awaited(self, run: Run, result: Awaitable[Any]) -> Any:
        with self._until_it_gives(run):
            value = self.read(await result)
        self._gave(run, value)
        return value

    @contextmanager
    def _lasting(self, run: Run, pieces: list[Any]) -> Iterator[None]:
        """Around a generator, from its first step to its end."""
        with self._until_it_gives(run):
            yield
        with run.noting("join"):
            result = self.join(pieces) if pieces else None
            if result is not None:
                self._gave(run, result)
                return
        run.forget()

    @contextmanager
    def _until_it_gives(self, run: Run) -> Iterator[None]:
        try:
            yield
        except (Exception, CancelledError) as error:
            with run.noting("failed"):
                self._failed(run, error)
            raise
        except BaseException:  # a generator is left, the app is interrupted
            run.forget()
            raise

    def _gave(self, run: Run, result: Any) -> None:
        raise NotImplementedError

    def _failed(self, run: Run, error: BaseException) -> None:
        raise NotImplementedError


def _plain(_: Run, result: Any) -> Outcome:
    return Outcome(result)


@dataclass(frozen=True, kw_only=True)
class ToolRecorder(_Recorder):
    """Makes the wrappers of methods that run a tool: plain, awaited, generators of both kinds.

    A run is recorded once, with the id of the call that asked for it, if one did: where the framework
    does not tell it, the newest answer's first call of this name and these arguments is claimed.

    Attributes:
        outcome: what a result says; without it, it is the result, and a tool fails by raising. `None`
            where the framework has yet to say it: the adapter ends the run then (`Run.ended`).
        raised: what the tool raised, of an error that the framework makes of it.
    """

    outcome: Callable[[Run, Any], Outcome | None] = _plain
    raised: Callable[[BaseException], BaseException] = lambda error: error

    def _gave(self, run: Run, result: Any) -> None:
        with run.noting("tool"):
            outcome = self.outcome(run, result)
            run.gave() if outcome is None else run.ended(outcome)

    def _failed(self, run: Run, error: BaseException) -> None:
        run.failed(self.raised(error))


@dataclass(frozen=True, kw_only=True)
class RetrievalRecorder(_Recorder):
    """Makes the wrappers of methods by which a retriever finds documents; those that it uses are its parts.

    Attributes:
        documents: the hits in a result, best first.
    """

    documents: Callable[[Any], Iterable[RetrievedDoc]]
    retrieves: bool = field(default=True, init=False)

    def _gave(self, run: Run, result: Any) -> None:
        with run.noting("retriever"):
            run.add_documents(self.documents(result))

    def _failed(self, run: Run, _: BaseException) -> None:
        run.forget()
