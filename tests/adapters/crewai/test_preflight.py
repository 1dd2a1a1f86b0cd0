"""CrewAI asks before each call whether the history fits; it does where it fits once it is pruned."""

from __future__ import annotations

from typing import Any

import pytest
from crewai.tools import tool

from ce_engine import BudgetConfig, RuntimeConfig
from ce_integrations import ce_session
from ce_integrations.testing.answers import JsonObject, text, tool_calls
from ce_integrations.testing.contract_case import count
from ce_integrations.testing.wire import Wire
from tests.adapters.crewai.apps import Windowed, agent, crew, model, task


PAGES = 8


@tool
def read(page: int) -> str:
    """Read a page."""
    return f"page {page}: " + "这里写着一些内容 and some more words of it. " * 120


def played(engine: Any, install: Any = None, **options: Any) -> tuple[list[JsonObject], Any]:
    """A run that reads all pages; without us as well."""
    turns = iter(range(1, PAGES + 1))

    def answers(body: JsonObject) -> Any:
        if "tools" not in body:
            return text("A summary. 摘要")
        page = next(turns, None)
        return text("Read.") if page is None else tool_calls([("read", {"page": page})])

    with Wire(answers) as wire:
        reader = agent(model(wire, Windowed), tools=[read], max_iter=100)
        made = crew(task(reader))
        if install is not None:
            with install(made, engine=engine, **options), ce_session("s1"):
                assert str(made.kickoff(inputs={"text": "Read all."})) == "Read."
        else:
            made.kickoff(inputs={"text": "Read all."})
        assert wire.refusals == []
        return wire.bodies, reader


@pytest.mark.scenario(3)
@pytest.mark.needs("preflight")
@pytest.mark.req("A-08")
def test_a_history_that_fits_once_pruned_is_not_summarised(install: Any, engine: Any) -> None:
    plain, _ = played(engine)
    assert [body for body in plain if "tools" not in body], "CrewAI itself summarises this one"
    limit = BudgetConfig(max_input_tokens=4_000, reserved_reply_tokens=0)
    ours, reader = played(engine, install, config=RuntimeConfig(budget=limit))
    assert [body for body in ours if "tools" not in body] == []
    assert len(ours) == PAGES + 1
    assert max(map(count, ours)) <= 4_000
    said = [message["role"] for message in reader.last_messages]
    assert said.count("tool") == PAGES, "the agent's own history is whole"
