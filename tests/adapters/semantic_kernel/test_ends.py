"""However a call ends, the app notices nothing of us, its turn is closed once, and usage is the provider's."""

from __future__ import annotations

import asyncio
import gc
from contextlib import aclosing
from typing import Any

import pytest

from ce_integrations import ce_session
from ce_integrations.semantic_kernel import install_ce
from ce_integrations.testing.answers import simple_count
from ce_integrations.testing.wire import Wire, error
from tests.adapters.semantic_kernel.configurations import agent


pytestmark = [pytest.mark.scenario(4), pytest.mark.req("A-24")]

LONG = "An answer that is long enough to be left in its midst: 很长的回答。" * 4


async def test_a_stream_tells_usage_and_its_first_piece(
    service: Any, engine: Any, stored: Any
) -> None:
    with Wire(LONG) as wire:
        ann = agent("ann", service(wire))
        with install_ce(ann, engine=engine), ce_session("s"):
            said = [str(piece) async for piece in ann.invoke_stream("Go.")]
        assert "".join(said) == LONG
        assert wire.bodies[0]["stream_options"] == {"include_usage": True}
        expected = simple_count(wire.bodies[0])
    (usage,) = stored.document().session.model_usage
    assert usage.params.get("estimated") is None
    assert usage.prompt_tokens == expected
    assert usage.first_token_latency_ms is not None
    assert usage.first_token_latency_ms <= usage.latency_ms
    assert stored.said() == [("", "Go."), ("ann", LONG)]


async def test_a_stream_that_is_left(service: Any, engine: Any, stored: Any) -> None:
    with Wire(LONG) as wire:
        ann = agent("ann", service(wire))
        with install_ce(ann, engine=engine), ce_session("s"):
            stream: Any = ann.invoke_stream("Go.")
            async with aclosing(stream) as pieces:
                first = ""
                while not first:  # a provider's first piece says nothing
                    first = str(await anext(pieces))
            async with asyncio.timeout(20):
                while (await asyncio.to_thread(stored.turns))[0].status == "open":
                    gc.collect()
                    await asyncio.sleep(0.01)
    (turn,) = stored.turns()
    assert turn.status == "incomplete"
    answer = stored.said()[-1][1]
    assert LONG.startswith(answer)
    assert answer.startswith(first)


async def asked(ann: Any, way: str) -> None:
    if way == "get_response":
        await ann.get_response("Go.")
    else:
        assert [piece async for piece in ann.invoke_stream("Go.")]


@pytest.mark.parametrize("way", ["get_response", "invoke_stream"])
async def test_an_error_of_the_provider_is_the_app_s(
    service: Any, engine: Any, stored: Any, way: str
) -> None:
    caught = []
    for governed in (False, True):
        with Wire(error(500, "overloaded")) as wire:
            ann = agent("ann", service(wire))
            if governed:
                install_ce(ann, engine=engine)
            with ce_session("s"), pytest.raises(Exception, match="overloaded") as found:
                await asked(ann, way)
            caught.append((type(found.value), str(found.value), type(found.value.__cause__)))
    assert caught[0] == caught[1]
    assert [turn.status for turn in stored.turns()] == ["failed"]
