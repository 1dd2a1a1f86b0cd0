"""However a call of an agent or a team ends, the app notices nothing of us, and its turn is closed once."""

from __future__ import annotations

import asyncio
import gc
from contextlib import aclosing, suppress
from typing import Any

import pytest
from autogen_agentchat.messages import ModelClientStreamingChunkEvent, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken

from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.wire import Wire, cut, error, hang, text
from tests.adapters.autogen.configurations import TASK, agent, agents


pytestmark = [pytest.mark.scenario(7), pytest.mark.req("A-24")]

LONG = "An answer that is long enough to be left in its midst: 很长的回答。" * 4
TIMEOUT = 20
"""Seconds until a test gives up."""


def team_of(model: Any) -> Any:
    return RoundRobinGroupChat(agents(model), max_turns=2)


def agent_of(model: Any) -> Any:
    return agent("ann", model)


APPS = pytest.mark.parametrize("make", [agent_of, team_of], ids=["agent", "team"])


@pytest.fixture(autouse=True)
def others_garbage() -> None:
    """Clients that other tests left would end in the loop of one that collects garbage here."""
    gc.collect()


def closed(stored: Any) -> list[tuple[str, int]]:
    return [(str(turn.status), turn.attempt) for turn in stored.turns()]


async def settle(stored: Any) -> None:
    """Let the app's loop go on until nothing is open: generators that are left are closed by it."""
    async with asyncio.timeout(TIMEOUT):
        while any(status == "open" for status, _ in await asyncio.to_thread(closed, stored)):
            gc.collect()
            await asyncio.sleep(0.01)


@APPS
async def test_an_error_of_the_provider(client: Any, engine: Any, stored: Any, make: Any) -> None:
    """A team gives it in a RuntimeError of its own."""
    caught = []
    for governed in (False, True):
        with Wire(error(500, "overloaded")) as wire:
            app = make(client(wire))
            if governed:
                install_ce(app, engine=engine)
            with ce_session("s"), pytest.raises(Exception, match="overloaded") as found:
                await app.run(task=TASK)
        # A team's has the places in its text, and we stand there.
        caught.append((found.type, str(found.value).splitlines()[0]))
    assert caught[0] == caught[1]
    assert closed(stored) == [("failed", 1)]


@APPS
@pytest.mark.parametrize("by", ["token", "task"])
async def test_a_call_that_is_cancelled(
    client: Any, engine: Any, stored: Any, make: Any, by: str
) -> None:
    with Wire(hang(6, then=text(LONG))) as wire:
        app = make(client(wire))
        token = CancellationToken()
        with install_ce(app, engine=engine):
            with ce_session("s"):
                task = asyncio.create_task(app.run(task=TASK, cancellation_token=token))
            async with asyncio.timeout(TIMEOUT):
                while not wire.requests:  # noqa: ASYNC110 - the server runs on another thread
                    await asyncio.sleep(0.01)
            if by == "token":
                token.cancel()
            else:
                task.cancel()
                token.cancel()  # a team's agents run on in their runtime otherwise
            with suppress(asyncio.CancelledError, RuntimeError):
                await asyncio.wait_for(task, TIMEOUT)
            await settle(stored)
    assert closed(stored) == [("incomplete", 1)]


@APPS
async def test_a_stream_that_is_left(client: Any, engine: Any, stored: Any, make: Any) -> None:
    with Wire(LONG) as wire:
        app = make(client(wire))
        for each in getattr(app, "_participants", [app]):
            each._model_client_stream = True
        with install_ce(app, engine=engine), ce_session("s"):
            async with aclosing(app.run_stream(task=TASK)) as events:
                async for event in events:
                    if isinstance(event, ModelClientStreamingChunkEvent):
                        break
            await settle(stored)
            lanes = [turn.lane for turn in stored.turns()]
    said = [m for m in stored.document().session.messages if m.role == "assistant"]
    assert {attempt for _, attempt in closed(stored)} == {1}
    assert all(LONG.startswith(message.content) for message in said)
    team = "" if make is agent_of else "RoundRobinGroupChat/"
    assert lanes == [f"{team}ann", f"{team}bob"][: len(lanes)]


async def test_a_stream_that_breaks(client: Any, engine: Any, stored: Any) -> None:
    ended = []
    for governed in (False, True):
        with Wire(cut(len(LONG) // 8, then=text(LONG))) as wire:
            app = agent("ann", client(wire), model_client_stream=True)
            if governed:
                install_ce(app, engine=engine)
            with ce_session("s"), pytest.raises(Exception) as found:
                async for _ in app.run_stream(task=TASK):
                    pass
            ended.append((found.type, str(found.value)))
    assert ended[0] == ended[1]
    assert closed(stored) == [("failed", 1)]


async def test_an_answer_is_recorded_before_the_app_has_it(
    client: Any, engine: Any, stored: Any
) -> None:
    """`on_messages` takes the response and leaves the generator behind, until it is collected."""
    with Wire("An answer.") as wire:
        ann = agent("ann", client(wire), model_client_stream=True)
        with install_ce(ann, engine=engine), ce_session("s"):
            asked = [TextMessage(content=TASK, source="user")]
            response = await ann.on_messages(asked, CancellationToken())
            assert response.chat_message.to_text() == "An answer."
            assert closed(stored) == [("committed", 1)]


async def test_a_step_is_over_for_those_who_come_after(
    client: Any, engine: Any, stored: Any
) -> None:
    """A stream is read outside of the agent's step: what its reader asks is no part of it."""
    from autogen_core.models import UserMessage

    with Wire("An answer.") as wire:
        ann, other = agent("ann", client(wire), model_client_stream=True), client(wire)
        with install_ce(ann, engine=engine), ce_session("s"):
            async for _ in ann.run_stream(task=TASK):
                await other.create([UserMessage(content="beside it", source="user")])
    assert len(stored.turns()) == 1
    assert len(wire.bodies) > 2
