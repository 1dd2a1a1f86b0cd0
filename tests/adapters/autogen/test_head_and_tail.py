"""What AutoGen's head-and-tail context says in place of its middle is nobody's task."""

from __future__ import annotations

from typing import Any

import pytest
from autogen_core.model_context import HeadAndTailChatCompletionContext
from autogen_core.models import UserMessage

from ce_engine import BudgetConfig, Origin, RuntimeConfig
from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.autogen.installer import ADAPTER
from ce_integrations.testing.contract_case import count
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.autogen.configurations import agent


STEPS, LIMIT = 8, 900
TASK = "THE-TASK: compare everything. " + "Mind these rules. " * 60


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word}: " + " ".join(f"fact{n}-{word}" for n in range(60))


@pytest.mark.req("A-08", "B-16")
async def test_the_task_stays_where_the_middle_was_skipped(
    client: Any, engine: Any, stored: Any
) -> None:
    asks = [tool_calls([("lookup", {"word": f"w{n}"})]) for n in range(STEPS)]
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=LIMIT, reserved_reply_tokens=0))
    with Wire([*asks, text("Done.")]) as wire:
        context = HeadAndTailChatCompletionContext(1, 6)
        model = client(wire)
        ann = agent("ann", model, tools=[lookup], max_tool_iterations=20, model_context=context)
        with install_ce(ann, engine=engine, config=config) as installation, ce_session("s"):
            await ann.run(task=TASK)
        assert (installation.faults, wire.refusals) == ((), [])
    assert [count(body) for body in wire.bodies if count(body) > LIMIT] == []
    assert ["THE-TASK" in str(body) for body in wire.bodies] == [True] * (STEPS + 1)
    assert [each[:2] for each in stored.said() if each[0] == "user"] == [("user", "user")]


@pytest.mark.parametrize(
    ("content", "source", "origin"),
    [
        ("Skipped 12 messages.", "System", Origin.HOST_SUMMARY),
        ("Skipped 12 messages.", "li", Origin.TASK),
        ("Skipped 12 messages. Why?", "System", Origin.TASK),
        (["Skipped 12 messages."], "System", Origin.TASK),
    ],
)
def test_only_the_framework_s_own_words_count(content: Any, source: str, origin: Origin) -> None:
    host = ADAPTER.to_schema(UserMessage(content=content, source=source))
    assert host.origin is origin
    assert (host.message.author is None) is (origin is Origin.HOST_SUMMARY)
