"""Memories: each retrieval is recorded, hits once; what they repeat in the context stays within the budget."""

from __future__ import annotations

from typing import Any

import pytest
from autogen_core.memory import ListMemory, MemoryContent

from ce_engine import BudgetConfig, RuntimeConfig
from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.contract_case import count
from ce_integrations.testing.wire import Wire
from tests.adapters.autogen.configurations import agent


FACTS = [f"Fact {n}: the user likes tea of kind {n}. 茶" for n in range(2)]


def memory() -> ListMemory:
    told = [
        MemoryContent(content=fact, mime_type="text/plain", metadata={"score": 0.5, "id": f"m{n}"})
        for n, fact in enumerate(FACTS)
    ]
    return ListMemory("likes", told)


@pytest.mark.scenario(11)
@pytest.mark.req("A-24")
async def test_twenty_turns_of_a_memory_that_repeats_itself(
    client: Any, engine: Any, stored: Any
) -> None:
    with Wire() as wire:
        model = client(wire, multiple_system_messages=True)
        ann = agent("ann", model, memory=[memory()])
        with install_ce(ann, engine=engine) as installation, ce_session("s"):
            for n in range(20):
                await ann.run(task=f"question {n}")
        assert installation.faults == ()
        assert wire.refusals == []
    document = stored.document()
    hits = [e for e in document.evidences.values() if e.type == "rag_doc"]
    assert [hit.content for hit in hits] == FACTS
    assert {hit.source.name for hit in hits} == {"likes"}
    asked = [call for call in document.session.tool_state.tool_calls if call.tool == "likes"]
    assert len(asked) == 20
    assert all(len(call.result_evidence_ids) == len(FACTS) for call in asked)


@pytest.mark.scenario(11)
@pytest.mark.req("A-08")
async def test_in_a_budget_what_a_memory_repeats_goes_out_once(client: Any, engine: Any) -> None:
    """AutoGen keeps a system message of each turn's hits, and sends them all."""
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=900, reserved_reply_tokens=0))
    with Wire(lambda _: "word " * 60) as wire:
        model = client(wire, multiple_system_messages=True)
        ann = agent("ann", model, memory=[memory()])
        with install_ce(ann, engine=engine, config=config), ce_session("s"):
            for n in range(10):
                await ann.run(task=f"question {n}")
        assert wire.refusals == []
        assert [count(body) for body in wire.bodies if count(body) > 900] == []
        last = wire.bodies[-1]["messages"]
    assert sum(FACTS[0] in str(m["content"]) for m in last) == 1
    assert len(await ann.model_context.get_messages()) == 30, "the agent's own context is whole"


async def test_a_memory_that_is_asked_inside_another_is_one_retrieval(
    client: Any, engine: Any, stored: Any
) -> None:
    """Vector memories ask themselves, with the newest message as the query."""

    class Asking(ListMemory):
        async def update_context(self, model_context: Any) -> Any:
            newest = (await model_context.get_messages())[-1]
            await self.query(str(newest.content))
            return await super().update_context(model_context)

    with Wire("Yes.") as wire:
        model = client(wire, multiple_system_messages=True)
        ann = agent("ann", model, memory=[Asking("asking", memory().content)])
        with install_ce(ann, engine=engine), ce_session("s"):
            await ann.run(task="tea?")
    calls = stored.document().session.tool_state.tool_calls
    assert [(call.tool, call.args_digest) for call in calls] == [("asking", {"query": "tea?"})]
