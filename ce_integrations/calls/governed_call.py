"""A governed model call around the framework's own: asked before, recorded after, streams included."""

from __future__ import annotations

import operator
import time
import weakref
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

from ce_engine import Usage
from ce_integrations.calls.hooks import Hooks
from ce_integrations.calls.open_turn import Turn, governing, outside
from ce_integrations.calls.streamed_answer import StreamedAnswer
from ce_integrations.identity.session import CallInfo
from ce_integrations.wrapping.heard_callables import heard_callable


Native = TypeVar("Native")
Result = TypeVar("Result")
Chunk = TypeVar("Chunk")

Answers = Callable[[Result], Iterable[tuple[Native, Usage | None]]]

_END: Any = object()


def _nothing(_: object) -> bool:
    return False


def _begin(source: Any) -> Iterator[Any]:
    """What gives the pieces: frameworks take what has only `__next__`, too."""
    return iter(source) if hasattr(source, "__iter__") else source


def _abegin(source: Any) -> AsyncIterator[Any]:
    return aiter(source) if hasattr(source, "__aiter__") else source


def _close(source: object) -> None:
    if close := getattr(source, "close", None):
        close()


async def _aclose(source: object) -> None:
    if close := getattr(source, "aclose", None):
        await close()


def _leave(source: object) -> None:
    """Close what is no iterator itself; without us nobody does, so that nobody hears of an error of it."""
    with suppress(Exception):
        _close(source)


async def _aleave(source: object) -> None:
    with suppress(Exception):
        await _aclose(source)


class GovernedCall(Generic[Native]):
    """One call of a framework's model, with a turn for each of its inputs.

    Args:
        hooks: those of the installation that governs the call.
        subject: the model object: a call inside, on the same object, was asked for already.
        inputs: the inputs as the framework has them.
        describe: gives for each input its messages and what is known of the call; runs when the
            call does, guarded.
        replace: an input with other messages.
    """

    def __init__(
        self,
        hooks: Hooks[Native],
        subject: object,
        inputs: Sequence[Any],
        describe: Callable[[], Sequence[tuple[list[Native], CallInfo]]],
        replace: Callable[[Any, list[Native]], Any],
    ) -> None:
        self.hooks = hooks
        self.subject = subject
        self.inputs = inputs
        self.describe = describe
        self.replace = replace
        self.turns: list[Turn | None] = []
        self._goes_on: Sequence[Any] | None = None
        self._unread: weakref.finalize[..., Any] | None = None

    def begun(self, result: object) -> tuple[()]:
        """The `answers` of a result that has none yet: who drives it finds the call by `begun_call`."""
        if self.turns:
            _begun[result] = self
            self._held_by(result)
        return ()

    def run(self, invoke: Callable[[Any], Result], answers: Answers[Result, Native]) -> Result:
        """Call `invoke` with the inputs that are to go on, and record what `answers` finds in its result."""
        try:
            goes = self._prepare()
            with self._governing():
                result = invoke(goes)
        except BaseException as error:
            for turn in self.turns:
                self.hooks.failed(turn, error)
            raise
        for turn, (native, usage) in self._answers(result, answers):
            self.hooks.after_model(turn, native, usage)
        return result

    async def arun(
        self, invoke: Callable[[Any], Awaitable[Result]], answers: Answers[Result, Native]
    ) -> Result:
        try:
            goes = await self._aprepare()
            with self._governing():
                result = await invoke(goes)
        except BaseException as error:
            for turn in self.turns:
                await self.hooks.afailed(turn, error)
            raise
        for turn, (native, usage) in self._answers(result, answers):
            await self.hooks.aafter_model(turn, native, usage)
        return result

    def pushing(
        self, callback: Callable[..., Any], text: Callable[[Any], str]
    ) -> Callable[..., Any]:
        """A callback that an app gets pieces by, of the same kind, from which we hear them, too.

        One that does not let itself be looked at is the app's own, and not heard. The app has a piece before it is noted. Where its callback raises, it left the stream: the turn
        is incomplete then, unless the framework goes on.
        """
        turn, hooks = self._turn, self.hooks
        if turn is None:
            return callback

        @contextmanager
        def heard(*args: Any, **kwargs: Any) -> Iterator[None]:
            piece, at = "", time.perf_counter()
            with hooks.guard("chunk"):
                piece = text(next(iter((*args, *kwargs.values()))))
            try:
                with outside():
                    yield
            except BaseException:
                turn.left = True
                raise
            finally:
                turn.hear(piece, at)

        if callable(callback):
            with hooks.guard("callback"):
                return heard_callable(callback, heard)
        return callback

    def open(
        self,
        start: Callable[[Any], Iterable[Chunk]],
        text: Callable[[Chunk], str],
        answer: Callable[[list[Chunk]], Native | None],
        is_last: Callable[[Chunk], bool] = _nothing,
    ) -> Iterable[Chunk]:
        """Prepare and call `start` now, and give its stream as `stream` does.

        An error of the call is raised here. A stream that nobody ever reads is recorded as incomplete
        when it is dropped. Where `start` gives a list, the app has all of it, and as that.
        """
        source = self.run(start, lambda _: ())
        if isinstance(source, list | tuple):
            self._heard_at_once(
                source, StreamedAnswer(self.hooks, self._turn, text, answer, is_last)
            )
            return source
        pieces = self.stream(lambda _: source, text, answer, is_last)
        self._held_by(pieces)
        return pieces

    async def aopen(
        self,
        start: Callable[[Any], Awaitable[AsyncIterable[Chunk]]],
        text: Callable[[Chunk], str],
        answer: Callable[[list[Chunk]], Native | None],
        is_last: Callable[[Chunk], bool] = _nothing,
    ) -> AsyncIterator[Chunk]:
        source = await self.arun(start, lambda _: ())
        pieces = self.astream(lambda _: source, text, answer, is_last)
        self._held_by(pieces)
        return pieces

    def stream(
        self,
        start: Callable[[Any], Iterable[Chunk]],
        text: Callable[[Chunk], str],
        answer: Callable[[list[Chunk]], Native | None],
        is_last: Callable[[Chunk], bool] = _nothing,
        give: Callable[[Chunk], object] = _nothing,
    ) -> Iterator[Chunk]:
        """Stream what `start` gives for the inputs that go on; nothing happens before the first `next`.

        A chunk goes to the app first and is noted after. A stream that is left or cancelled is
        recorded once, as incomplete, without waiting for it. Where `answer` has none, the texts are
        joined. After a chunk that `is_last` the app need not ask for more: the answer is recorded
        before it goes. `give` is for frameworks whose apps get chunks otherwise than from here.
        """
        self._is_driven()
        whole: StreamedAnswer[Native, Chunk] | None = None
        source: Any = None
        pieces: Any = None
        try:
            goes = self._prepare()
            whole = StreamedAnswer(self.hooks, self._turn, text, answer, is_last)
            with self._governing():
                source = start(goes)
                pieces = _begin(source)
            while True:
                with self._governing():
                    chunk = next(pieces, _END)
                if chunk is _END:
                    break
                if whole.add(chunk):
                    whole.record()
                give(chunk)
                yield chunk
                whole.tell()
        except BaseException as error:
            self.hooks.failed(self._turn, error, "" if whole is None else whole.text)
            if source is not pieces:
                _leave(source)
            raise
        finally:
            _close(pieces)
        whole.record()

    async def astream(
        self,
        start: Callable[[Any], AsyncIterable[Chunk]],
        text: Callable[[Chunk], str],
        answer: Callable[[list[Chunk]], Native | None],
        is_last: Callable[[Chunk], bool] = _nothing,
        give: Callable[[Chunk], object] = _nothing,
    ) -> AsyncIterator[Chunk]:
        self._is_driven()
        whole: StreamedAnswer[Native, Chunk] | None = None
        source: Any = None
        pieces: Any = None
        try:
            goes = await self._aprepare()
            whole = StreamedAnswer(self.hooks, self._turn, text, answer, is_last)
            with self._governing():
                source = start(goes)
                pieces = _abegin(source)
            while True:
                with self._governing():
                    chunk = await anext(pieces, _END)
                if chunk is _END:
                    break
                if whole.add(chunk):
                    await whole.arecord()
                give(chunk)
                yield chunk
                whole.tell()
        except BaseException as error:
            # Waits for nothing where the generator is closed or the task cancelled.
            await self.hooks.afailed(self._turn, error, "" if whole is None else whole.text)
            if source is not pieces:
                await _aleave(source)
            raise
        finally:
            await _aclose(pieces)
        await whole.arecord()

    def _heard_at_once(self, pieces: Sequence[Chunk], whole: StreamedAnswer[Native, Chunk]) -> None:
        for piece in pieces:
            whole.add(piece)
            whole.tell()
        whole.record()

    def _held_by(self, result: object) -> None:
        """Close the turn when the result of a call is gone that nobody has begun to drive."""
        self._unread = weakref.finalize(result, self.hooks.failed, self._turn, GeneratorExit())
        self._unread.atexit = False

    def _is_driven(self) -> None:
        """From now on who drives the stream closes the turn, and knows what came of it."""
        if self._unread is not None:
            self._unread.detach()

    def _prepare(self) -> Sequence[Any]:
        if self._goes_on is not None:
            return self._goes_on  # it has begun: what its result is driven by was prepared then
        self._goes_on = self.inputs
        with self.hooks.guard("call"):
            described, outgoing = self.describe(), []
            for natives, info in described:
                goes, turn = self.hooks.before_model(natives, info)
                self.turns.append(turn)
                outgoing.append(goes)
            self._goes_on = self._goes([natives for natives, _ in described], outgoing)
        return self._goes_on

    async def _aprepare(self) -> Sequence[Any]:
        if self._goes_on is not None:
            return self._goes_on
        self._goes_on = self.inputs
        with self.hooks.guard("call"):
            described, outgoing = self.describe(), []
            for natives, info in described:
                goes, turn = await self.hooks.abefore_model(natives, info)
                self.turns.append(turn)
                outgoing.append(goes)
            self._goes_on = self._goes([natives for natives, _ in described], outgoing)
        return self._goes_on

    def _goes(self, before: list[list[Native]], outgoing: list[list[Native]]) -> Sequence[Any]:
        """The inputs that go on: the very same where nothing changed."""
        if all(map(operator.is_, before, outgoing)):
            return self.inputs
        return [
            original if goes is natives else self.replace(original, goes)
            for original, natives, goes in zip(self.inputs, before, outgoing, strict=True)
        ]

    @property
    def _turn(self) -> Turn | None:
        return self.turns[0] if len(self.turns) == 1 else None

    def _governing(self) -> governing:
        return governing(self.hooks.adapter.name, self.subject, self._turn)

    def _answers(
        self, result: Result, answers: Answers[Result, Native]
    ) -> list[tuple[Turn | None, tuple[Native, Usage | None]]]:
        with self.hooks.guard("answers"):
            try:
                return list(zip(self.turns, answers(result), strict=False))
            except Exception as error:
                for turn in self.turns:
                    self.hooks.failed(turn, error, waits=False)
                raise
        return []


_begun: weakref.WeakKeyDictionary[object, GovernedCall[Any]] = weakref.WeakKeyDictionary()


def begun_call(result: object) -> GovernedCall[Any] | None:
    """The call that gave this result and waits for somebody to drive it; for the first who asks."""
    return _begun.pop(result, None)
