"""What a reducer asks is recorded as what it is, and its summary is no word of anybody's."""

from __future__ import annotations

from typing import Any

import pytest
from semantic_kernel.agents import ChatHistoryAgentThread
from semantic_kernel.contents import ChatHistorySummarizationReducer

from ce_engine import Scope
from ce_integrations import ce_session
from ce_integrations.semantic_kernel import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.semantic_kernel.configurations import agent


RULE = "Say no more than is asked. 少说。"
SUMMARY = "They spoke of lanes. 他们谈到车道。"


@pytest.mark.scenario(10)
@pytest.mark.req("A-23")
async def test_a_thread_that_is_reduced(service: Any, engine: Any, stored: Any) -> None:
    engine.sync.constraints.create(Scope(session_id="any"), RULE)

    def answers(body: Any) -> str:
        asked = str(body["messages"][-1]["content"])
        return SUMMARY if "Provide a concise" in asked else f"Answer {len(body['messages'])}."

    with Wire(answers) as wire:
        made = service(wire)
        ann = agent("ann", made)
        reducer = ChatHistorySummarizationReducer(service=made, target_count=2)
        thread = ChatHistoryAgentThread(chat_history=reducer)
        with install_ce(ann, engine=engine), install_ce(made, engine=engine), ce_session("s"):
            for n in range(3):
                await ann.get_response(f"Question {n}?", thread=thread)
            assert await thread.reduce() is not None
            await ann.get_response("And now?", thread=thread)
        sums = [SUMMARY in str(body) for body in wire.bodies]
        ruled = [RULE in str(body) for body in wire.bodies]
        assert wire.refusals == []
    assert sums == [False] * 4 + [True]
    assert ruled == [True, True, True, False, True]
    assert [turn.purpose for turn in stored.turns()] == [
        *("chat", "chat", "chat", "helper", "chat")
    ]
    assert SUMMARY not in [words for author, words in stored.said() if author]
    assert len(stored.document().session.model_usage) == 5
