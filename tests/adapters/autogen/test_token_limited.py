"""AutoGen's own limit of tokens tears calls from their results; with us a strict provider takes what goes out."""

from __future__ import annotations

from typing import Any

import pytest
from autogen_core.model_context import TokenLimitedChatCompletionContext

from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.autogen.configurations import agent
from tests.adapters.autogen.contract_apps import Client


LIMITS = range(60, 300, 20)


class Counting(Client):
    """Counts by itself: AutoGen's counter loads its vocabulary from the network."""

    def count_tokens(self, messages: Any, **_: Any) -> int:
        return sum(len(str(message.content)) // 4 + 4 for message in messages)


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means " + word * 20


async def run(limit: int, engine: Any) -> tuple[int, int]:
    """(how many requests went out, how many the provider refused)"""
    asks = [
        tool_calls([("lookup", {"word": f"w{n}"}), ("lookup", {"word": f"v{n}"})]) for n in range(5)
    ]
    with Wire([*asks, text("Done.")]) as wire:
        model = Counting(wire)
        context = TokenLimitedChatCompletionContext(model, token_limit=limit)
        ann = agent("ann", model, tools=[lookup], max_tool_iterations=8, model_context=context)
        installed = None if engine is None else install_ce(ann, engine=engine)
        with ce_session(f"s{limit}"):
            try:
                await ann.run(task="go")
            except Exception:
                assert wire.refusals
        if installed is not None:
            assert installed.faults == ()
            installed.uninstall()
        await model.close()
        return len(wire.bodies), len(wire.refusals)


@pytest.mark.scenario(4)
@pytest.mark.req("A-08")
async def test_a_provider_never_refuses(engine: Any) -> None:
    plain = [await run(limit, None) for limit in LIMITS]
    assert sum(refused for _, refused in plain) > 0, "nothing was torn: the test shows nothing"
    ours = [await run(limit, engine) for limit in LIMITS]
    assert ours == [(6, 0)] * len(LIMITS)
