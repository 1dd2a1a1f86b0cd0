"""Contract: streams inside an app's own generators, which take turns, are each in the session of their own block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
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
        named = {f"session of {user}" for user in USERS}
        assert set(trial.sessions(ephemeral=False)) == named
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
