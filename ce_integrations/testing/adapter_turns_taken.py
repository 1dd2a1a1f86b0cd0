"""Contract: streams inside an app's own generators are each in the session of their own block; nobody else is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from contextvars import copy_context
from typing import Any

from ce_integrations.identity.session import ce_session
from ce_integrations.install.adapter import Way
from ce_integrations.testing.adapter_agents import Agents
from ce_integrations.testing.contract_case import echo
from ce_integrations.testing.framework_apps import ways
from ce_integrations.testing.side_by_side import SideBySide
from ce_integrations.testing.wire import Wire


USERS = ("ann", "李雷")
NOBODY = "somebody who is in no session"
TURNS = 2
"""Streams of each user's generator, one after the other."""


class TurnsTaken(Agents):
    """As web servers answer several users at once: one generator each, stepped through in turn."""

    @ways("stream", "astream")
    def test_streams_in_generators_that_take_turns_never_mix(
        self, trial: SideBySide, way: Way
    ) -> None:
        with Wire(echo) as wire, ExitStack() as installed:
            targets = {user: self.make_target(wire) for user in (*USERS, NOBODY)}
            for target in targets.values():
                installed.enter_context(self.adapter.install_ce(target, engine=trial.engine))
            if way == "stream":
                self._take_turns(targets)
            else:
                trial.run(self._atake_turns(targets))
            assert wire.refusals == []
        session_ids = {f"session of {user}" for user in USERS}
        assert set(trial.sessions(ephemeral=False)) == session_ids
        for user in USERS:
            messages = trial.document(f"session of {user}").session.messages
            assert [m.content for m in messages if m.role == "user"] == [
                f"{user} says {n}" for n in range(TURNS)
            ]
            assert [m.content for m in messages if m.role == "assistant"] == [
                f"heard: {user} says {n}" for n in range(TURNS)
            ]

    def _take_turns(self, targets: dict[str, Any]) -> None:
        """Their caller asks, too, while both wait."""
        streams = [self._answers(user, targets[user]) for user in USERS]
        left = list(streams)
        for stream in streams:
            next(stream)
        assert "".join(self.stream(targets[NOBODY], NOBODY, "")) == f"heard: {NOBODY}"
        while left:
            left = [stream for stream in left if next(stream, None) is not None]

    def _answers(self, user: str, target: Any) -> Iterator[str]:
        with ce_session(f"session of {user}", user_id=""):
            for n in range(TURNS):
                yield from self.stream(target, f"{user} says {n}", "")

    async def _atake_turns(self, targets: dict[str, Any]) -> None:
        streams = [self._aanswers(user, targets[user]) for user in USERS]
        left = list(streams)
        for stream in streams:
            await anext(stream)
        pieces = [piece async for piece in self.astream(targets[NOBODY], NOBODY, "")]
        assert "".join(pieces) == f"heard: {NOBODY}"
        while left:
            left = [stream for stream in left if await anext(stream, None) is not None]
            await asyncio.sleep(0)

    async def _aanswers(self, user: str, target: Any) -> AsyncIterator[str]:
        with ce_session(f"session of {user}", user_id=""):
            for n in range(TURNS):
                async for piece in self.astream(target, f"{user} says {n}", ""):
                    yield piece

    @ways("stream", "astream")
    def test_what_a_stream_s_reader_begins_for_somebody_else_is_theirs(
        self, trial: SideBySide, way: Way
    ) -> None:
        """A task or thread inherits the context of who begins it, and asks while the generator is at work."""
        history = self.adapter.capabilities.history
        with Wire(echo) as wire, ExitStack() as installed:
            targets = [self.make_target(wire) for _ in USERS]
            for target in targets:
                installed.enter_context(
                    self.adapter.install_ce(target, engine=trial.engine, history=history)
                )
            if way == "stream":
                self._begin_beside(*targets)
            else:
                trial.run(self._abegin_beside(*targets))
        for user in USERS:
            texts = [m.content for m in trial.document(f"session of {user}").session.messages]
            assert {word for word in USERS if word in str(texts)} == {user}
        sent_texts = [str(body["messages"]) for body in wire.bodies]
        assert [words for words in sent_texts if all(user in words for user in USERS)] == []

    def _begin_beside(self, target: Any, other: Any) -> None:
        first_user, second_user = USERS
        begun_event, asked_event = threading.Event(), threading.Event()

        def answers() -> Iterator[str]:
            with ce_session(f"session of {first_user}", user_id=""):
                yield from self.stream(target, f"{first_user} says 1", "")
                begun_event.set()
                assert asked_event.wait(60)
                yield from self.stream(target, f"{first_user} says 2", "")

        def ask() -> None:
            assert begun_event.wait(60)
            try:
                list(self.stream(other, f"{second_user} says 1", f"session of {second_user}"))
            finally:
                asked_event.set()

        stream = answers()
        next(stream)
        thread = threading.Thread(target=copy_context().run, args=(ask,))
        thread.start()
        list(stream)
        thread.join()

    async def _abegin_beside(self, target: Any, other: Any) -> None:
        first_user, second_user = USERS
        begun_event, asked_event = asyncio.Event(), asyncio.Event()

        async def answers() -> AsyncIterator[str]:
            with ce_session(f"session of {first_user}", user_id=""):
                async for piece in self.astream(target, f"{first_user} says 1", ""):
                    yield piece
                begun_event.set()
                await asked_event.wait()
                async for piece in self.astream(target, f"{first_user} says 2", ""):
                    yield piece

        async def ask() -> None:
            await begun_event.wait()
            name = f"session of {second_user}"
            try:
                async for _ in self.astream(other, f"{second_user} says 1", name):
                    pass
            finally:
                asked_event.set()

        stream = answers()
        await anext(stream)
        task = asyncio.create_task(ask())
        async for _ in stream:
            pass
        await task
