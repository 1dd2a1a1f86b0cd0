"""A long loop of tools in a small budget: what goes out fits, and the agent's own context stays whole."""

from __future__ import annotations

from typing import Any

import pytest

from ce_engine import BudgetConfig, RuntimeConfig
from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.contract_case import count
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.autogen.configurations import agent


STEPS = 10
BUDGET = 900


def read(page: int) -> str:
    """Read a page."""
    return "\n".join(f"page {page}, line {n}: 这里写着一些内容 {n * page}" for n in range(12))


@pytest.mark.scenario(3)
@pytest.mark.req("A-08", "A-24")
async def test_ten_tool_steps_in_a_small_budget(client: Any, engine: Any, stored: Any) -> None:
    script = [
        tool_calls([("read", {"page": n}), ("read", {"page": n + 100})]) for n in range(STEPS)
    ]
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=BUDGET, reserved_reply_tokens=0))
    contexts = []
    for governed in (False, True):
        with Wire([*script, text("Read.")]) as wire:
            ann = agent("ann", client(wire), tools=[read], max_tool_iterations=STEPS + 1)
            if governed:
                install_ce(ann, engine=engine, config=config)
            with ce_session("s"):
                result = await ann.run(task="Read ten pages.")
            assert wire.refusals == []
            assert len(wire.bodies) == STEPS + 1
            contexts.append([m.model_dump() for m in await ann.model_context.get_messages()])
            sizes = list(map(count, wire.bodies))
            assert (max(sizes) > BUDGET) is not governed
        assert result.messages[-1].model_dump()["content"] == "Read."
    assert contexts[0] == contexts[1]
    document = stored.document()
    runs = document.session.tool_state.tool_calls
    assert len(runs) == 2 * STEPS
    pages = {run.args_digest["page"]: run.result_evidence_ids for run in runs}
    for page, (evidence_id,) in pages.items():
        assert document.evidences[evidence_id].content == read(page)
