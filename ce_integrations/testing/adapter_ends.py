"""Contract: however a call ends, the app notices nothing of us, and its turn is closed once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, closing, suppress
from typing import Any

import pytest

from ce_engine import Event, EventType, ToolCallStatus
from ce_integrations.install.adapter import Way
from ce_integrations.testing.adapter_data import Data
from ce_integrations.testing.answers import Answer, cut, error, hang, text, tool_calls
from ce_integrations.testing.contract_case import QUESTIONS, broken, echo
from ce_integrations.testing.framework_apps import AWAITED, PIECEWISE, needs, ways
from ce_integrations.testing.side_by_side import SESSION, Raised, SideBySide
from ce_integrations.testing.wire import Wire


LONG = "An answer that is long enough to be left in its midst: 很长的回答。" * 4
TAKEN = 3
"""Pieces that are taken of a stream before it is left."""

HANGS = 6
"""Seconds that a provider hangs whose caller is cancelled."""

READS = 0.3
"""Seconds in which an app reads what has come of a stream."""

TIMEOUT = 20
"""Seconds until a test gives up."""


class EnoughError(Exception):
    """What an app's callback raises that wants no more pieces."""


class Ends(Data):
    """Streams that are left, tasks that are cancelled, errors of providers and tools."""

    @ways(*PIECEWISE)
    def test_the_pieces_of_an_answer_are_noted_as_they_come(
        self, trial: SideBySide, way: Way
    ) -> None:
        """With the moment of the first; subscribers hear their lengths, and no text."""
        heard: list[Event] = []
        trial.engine.bus.on(EventType.ASSISTANT_CHUNK_RECEIVED, heard.append)
        plain = trial.plain(trial.asking(QUESTIONS[:1], way), text(LONG))
        ce_run = trial.drive(trial.asking(QUESTIONS[:1], way), text(LONG))
        assert ce_run.result == plain.result
        (usage,) = trial.document().session.model_usage
        assert usage.first_token_latency_ms is not None
        assert usage.first_token_latency_ms <= usage.latency_ms
        trial.run(_all_heard(heard))
        assert sum(event.payload["length"] for event in heard) == len(LONG)

    @ways(*PIECEWISE)
    def test_a_stream_that_is_left_is_recorded_once(self, trial: SideBySide, way: Way) -> None:
        plain = trial.plain(lambda target: self.leave(trial, target, way), text(LONG))
        ce_run = trial.drive(lambda target: self.leave(trial, target, way), text(LONG))
        assert len(plain.result) == TAKEN
        assert ce_run.result == plain.result
        taken_text = "".join(plain.result)
        (turn,) = trial.turns()
        answers = [m for m in trial.document().session.messages if m.role == "assistant"]
        assert len(answers) == 1, "what there was of the answer is recorded once"
        (answer,) = answers
        # A framework may read ahead of its app: what it read is recorded.
        # One that is left behind its last word and before its end is whole, and not committed.
        assert turn.status in (
            ("committed", "incomplete") if answer.content == LONG else ("incomplete",)
        )
        assert answer.content.startswith(taken_text)
        assert LONG.startswith(answer.content)

    @ways(*PIECEWISE)
    def test_a_stream_that_breaks_gives_what_there_was(self, trial: SideBySide, way: Way) -> None:
        """Who gathers a stream before the app gets it has nothing to give.

        Nor has a framework that hears of the break before the app has asked for what came first:
        so the provider waits a little.
        """
        pieces = len(LONG) // 8
        script = hang(READS, after_chunks=pieces, then=cut(pieces, then=text(LONG)))
        plain = trial.plain(lambda target: self.broken_off(trial, target, way), script)
        ce_run = trial.drive(lambda target: self.broken_off(trial, target, way), script)
        (heard, fault), (expected, expected_fault) = ce_run.result, plain.result
        assert fault == expected_fault
        assert bool(heard) == bool(expected)
        assert LONG.startswith("".join(heard))
        (turn,) = trial.turns()
        assert turn.status == ("failed" if expected_fault else "committed")

    @ways(*AWAITED)
    def test_a_call_that_is_cancelled_is_recorded_once(self, trial: SideBySide, way: Way) -> None:
        with Wire(hang(HANGS, after_chunks=TAKEN, then=text(LONG))) as wire:
            target = self.make_target(wire)
            with self.adapter.install_ce(target, engine=trial.engine) as installation:
                trial.run(self.cancel(trial, target, wire, way))
                assert installation.flush()
            (turn,) = trial.turns()
        ends = "incomplete" if self.adapter.capabilities.cancels else "committed"
        assert (turn.status, turn.attempt) == (ends, 1)
        texts = [m.content for m in trial.document().session.messages if m.role == "assistant"]
        assert len(texts) <= 1
        assert all(LONG.startswith(words) for words in texts)

    def test_an_error_of_the_provider_is_the_app_s_as_before(
        self, trial: SideBySide, way: Way
    ) -> None:
        script = [error(500, "overloaded"), text("well")]
        plain = trial.plain(trial.asking(QUESTIONS, way), script)
        ce_run = trial.drive(trial.asking(QUESTIONS, way), script)
        assert ce_run.result == plain.result
        assert ce_run.raw == plain.raw
        assert ce_run.result[1] == "well"
        turns = trial.turns()
        attempts = [attempt["status"] for turn in turns for attempt in turn.attempts]
        assert [*attempts, *(turn.status for turn in turns)] == ["failed", "committed"]
        errors = [code for turn in turns for code in turn.report.get("errors", ())]
        assert len(errors) == 1
        if self.has_status:
            assert errors[0].endswith(":500")

    def test_an_error_of_the_provider_is_the_app_s_where_nothing_can_be_recorded(
        self, trial: SideBySide, way: Way
    ) -> None:
        """With `fail="closed"`, where an error of ours may reach the app, too."""
        asking, overloaded = trial.asking(QUESTIONS[:1], way), error(500, "overloaded")

        def fails(_: object) -> Answer:
            trial.store.refuses = True
            return overloaded

        def drive(target: Any) -> Any:
            result = asking(target)
            trial.store.refuses = False
            return result

        trial.production()
        plain = trial.plain(asking, [overloaded])
        ce_run = trial.drive(drive, fails, fail="closed")
        assert ce_run.result == plain.result
        assert ce_run.raw == plain.raw
        assert {turn.status for turn in trial.turns()} == {"failed"}

    @needs("tools")
    def test_an_error_of_a_tool_is_the_app_s_as_before(self, trial: SideBySide, way: Way) -> None:
        script = [tool_calls([("broken", {"word": "lane"})]), text("It does not work.")]
        plain = trial.plain(trial.asking(QUESTIONS[:1], way), script, (broken,))
        ce_run = trial.drive(trial.asking(QUESTIONS[:1], way), script, (broken,))
        assert ce_run.result == plain.result
        assert ce_run.raw == plain.raw
        (run,) = trial.document().session.tool_state.tool_calls
        assert (run.tool, run.status) == ("broken", ToolCallStatus.ERROR)
        assert run.args_digest == {"word": "lane"}
        evidence = trial.document().evidences
        texts = [run.error, *(evidence[name].content for name in run.result_evidence_ids)]
        assert any("no such word: lane" in (text or "") for text in texts)
        assert {turn.status for turn in trial.turns()} == {"committed"}

    @needs("tools")
    def test_beside_an_adapter_derived_from_it_a_tool_is_recorded_once(
        self, trial: SideBySide, way: Way
    ) -> None:
        """Both wrap the framework's classes, and each takes the other's wrappers for its own."""
        derived = type("Derived", (type(self.adapter),), {})()
        script = [tool_calls([("broken", {"word": "lane"})]), text("It does not work.")]
        with Wire(echo) as wire, derived.install_ce(self.make_target(wire), engine=trial.engine):
            trial.drive(trial.asking(QUESTIONS[:1], way), script, (broken,))
        (run,) = trial.document().session.tool_state.tool_calls
        assert (run.tool, run.status) == ("broken", ToolCallStatus.ERROR)
        assert {turn.status for turn in trial.turns()} == {"committed"}

    def broken_off(
        self, trial: SideBySide, target: Any, way: Way
    ) -> tuple[list[str], Raised | None]:
        """What an app gets of a stream, and of its end."""
        pieces: list[str] = []

        async def listen() -> None:
            async for piece in self.astream(target, QUESTIONS[0], SESSION):
                pieces.append(piece)  # noqa: PERF401 - those before the error count

        try:
            if way == "astream":
                trial.run(listen())
            elif way == "stream":
                pieces.extend(self.stream(target, QUESTIONS[0], SESSION))
            else:
                self._pushed(trial, target, way, pieces.append)
        except Exception as error:  # noqa: BLE001 - whatever the framework lets through
            return pieces, Raised.of(error)
        return pieces, None  # some take it for the end

    def _pushed(
        self, trial: SideBySide, target: Any, way: Way, heard: Callable[[str], None]
    ) -> None:
        if way == "push":
            self.push(target, QUESTIONS[0], SESSION, heard)
        else:
            trial.run(self.apush(target, QUESTIONS[0], SESSION, heard))

    def leave(self, trial: SideBySide, target: Any, way: Way) -> list[str]:
        """Take some pieces of an answer, and go."""
        if way == "stream":
            with closing(self.stream(target, QUESTIONS[0], SESSION)) as pieces:  # type: ignore[type-var]  # frameworks give generators
                taken_pieces = [next(pieces) for _ in range(TAKEN)]
            trial.run(self._closed(trial))  # a framework may read on, on a thread of its own
            return taken_pieces
        if way in ("push", "apush"):
            return self._raise(trial, target, way)
        return list(trial.run(self._aleave(trial, target)))

    def _raise(self, trial: SideBySide, target: Any, way: Way) -> list[str]:
        """Take some pieces by a callback that raises then: where that is swallowed, more come."""
        taken_pieces: list[str] = []

        def take(piece: str) -> None:
            if piece and len(taken_pieces) < TAKEN:
                taken_pieces.append(piece)
            if len(taken_pieces) == TAKEN:
                raise EnoughError

        with suppress(Exception):  # whatever the framework makes of it
            self._pushed(trial, target, way, take)
        trial.run(self._closed(trial))
        return taken_pieces

    async def _aleave(self, trial: SideBySide, target: Any) -> list[str]:
        taken_pieces = await self._take(target)
        await self._closed(trial)
        return taken_pieces

    async def _take(self, target: Any) -> list[str]:
        async with aclosing(self.astream(target, QUESTIONS[0], SESSION)) as pieces:  # type: ignore[type-var]  # frameworks give generators
            return [await anext(pieces) for _ in range(TAKEN)]

    async def cancel(self, trial: SideBySide, target: Any, wire: Wire, way: Way) -> None:
        """Cancel a call while its model is at work."""
        task = asyncio.create_task(trial.aask(target, QUESTIONS[0], way))
        async with asyncio.timeout(TIMEOUT):
            while not wire.requests:  # noqa: ASYNC110 - the server runs on another thread
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)  # between two reads, frameworks swallow it
            while not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=1)
        with pytest.raises(asyncio.CancelledError):
            await task
        await self._closed(trial)

    async def _closed(self, trial: SideBySide) -> None:
        """Let the app's loop go on: frameworks leave generators to be closed by it."""
        async with asyncio.timeout(TIMEOUT):
            while any(t.status == "open" for t in await asyncio.to_thread(trial.turns)):  # noqa: ASYNC110 - it is in the store
                await asyncio.sleep(0.01)


async def _all_heard(heard: list[Event]) -> None:
    """Subscribers hear on a thread of their own, in their own time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(TIMEOUT):
            while sum(event.payload["length"] for event in heard) < len(LONG):  # noqa: ASYNC110 - on another thread
                await asyncio.sleep(0.01)
