"""A governed model call around the framework's own: asked before, recorded after, streams included."""

from __future__ import annotations

import operator
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ce_engine import Usage
from ce_integrations.hooks import Hooks
from ce_integrations.session import CallInfo
from ce_integrations.turns import Turn, governing


Native = TypeVar("Native")
Result = TypeVar("Result")
Chunk = TypeVar("Chunk")

Answers = Callable[[Result], Iterable[tuple[Native, Usage | None]]]

_END: Any = object()


class GovernedCall(Generic[Native]):
    """One call of a framework's model, with a turn for each of its inputs.

    Args:
        hooks: those of the installation that governs the call.
        subject: the model object: a call inside, on the same object, was asked for already.
        given: the inputs as the framework has them.
        describe: gives for each input its messages and what is known of the call; runs when the
            call does, guarded.
        replace: an input with other messages.
    """

    def __init__(
        self,
        hooks: Hooks[Native],
        subject: object,
        given: Sequence[Any],
        describe: Callable[[], Sequence[tuple[list[Native], CallInfo]]],
        replace: Callable[[Any, list[Native]], Any],
    ) -> None:
        self.hooks = hooks
        self.subject = subject
        self.given = given
        self.describe = describe
        self.replace = replace
        self.turns: list[Turn | None] = []

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

    def stream(
        self,
        start: Callable[[Any], Iterator[Chunk]],
        text: Callable[[Chunk], str],
        answer: Callable[[list[Chunk]], Native],
    ) -> Iterator[Chunk]:
        """Stream what `start` gives for the inputs that go on; nothing happens before the first `next`.

        A chunk goes to the app first and is noted after. A stream that is left or cancelled is
        recorded once, as incomplete, without waiting for it.
        """
        chunks: list[Chunk] = []
        source = None
        try:
            goes = self._prepare()
            with self._governing():
                source = start(goes)
            while True:
                with self._governing():
                    chunk = next(source, _END)
                if chunk is _END:
                    break
                self._arrived(chunks, chunk, text)
                yield chunk
                self.hooks.chunk(self._turn, len(chunks) - 1, text(chunk))
        except BaseException as error:
            self.hooks.failed(self._turn, error, "".join(map(text, chunks)))
            raise
        finally:
            if close := getattr(source, "close", None):
                close()
        self.hooks.after_model(self._turn, answer(chunks))

    async def astream(
        self,
        start: Callable[[Any], AsyncIterator[Chunk]],
        text: Callable[[Chunk], str],
        answer: Callable[[list[Chunk]], Native],
    ) -> AsyncIterator[Chunk]:
        chunks: list[Chunk] = []
        source = None
        try:
            goes = await self._aprepare()
            with self._governing():
                source = start(goes)
            while True:
                with self._governing():
                    chunk = await anext(source, _END)
                if chunk is _END:
                    break
                self._arrived(chunks, chunk, text)
                yield chunk
                self.hooks.chunk(self._turn, len(chunks) - 1, text(chunk))
        except BaseException as error:
            # Waits for nothing where the generator is closed or the task cancelled.
            await self.hooks.afailed(self._turn, error, "".join(map(text, chunks)))
            raise
        finally:
            if close := getattr(source, "aclose", None):
                await close()
        await self.hooks.aafter_model(self._turn, answer(chunks))

    def _prepare(self) -> Sequence[Any]:
        with self.hooks.guard("call"):
            described, sent = self.describe(), []
            for natives, info in described:
                goes, turn = self.hooks.before_model(natives, info)
                self.turns.append(turn)
                sent.append(goes)
            return self._goes([natives for natives, _ in described], sent)
        return self.given

    async def _aprepare(self) -> Sequence[Any]:
        with self.hooks.guard("call"):
            described, sent = self.describe(), []
            for natives, info in described:
                goes, turn = await self.hooks.abefore_model(natives, info)
                self.turns.append(turn)
                sent.append(goes)
            return self._goes([natives for natives, _ in described], sent)
        return self.given

    def _goes(self, before: list[list[Native]], sent: list[list[Native]]) -> Sequence[Any]:
        """The inputs that go on: the very same where nothing changed."""
        if all(map(operator.is_, before, sent)):
            return self.given
        return [
            given if goes is natives else self.replace(given, goes)
            for given, natives, goes in zip(self.given, before, sent, strict=True)
        ]

    @property
    def _turn(self) -> Turn | None:
        return self.turns[0] if len(self.turns) == 1 else None

    def _governing(self) -> governing:
        return governing(self.hooks.adapter.name, self.subject, self._turn)

    def _arrived(self, chunks: list[Chunk], chunk: Chunk, text: Callable[[Chunk], str]) -> None:
        chunks.append(chunk)
        turn = self._turn
        if turn is not None and turn.first is None and text(chunk):
            turn.first = time.perf_counter()

    def _answers(
        self, result: Result, answers: Answers[Result, Native]
    ) -> list[tuple[Turn | None, tuple[Native, Usage | None]]]:
        with self.hooks.guard("answers"):
            return list(zip(self.turns, answers(result), strict=False))
        return []
