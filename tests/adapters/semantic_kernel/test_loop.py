"""A long loop of functions in a small budget: what goes out fits, and the thread stays whole and in order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from semantic_kernel import Kernel
from semantic_kernel.contents import ChatHistory, ChatMessageContent, FunctionResultContent

from ce_engine import BudgetConfig, RuntimeConfig
from ce_integrations.semantic_kernel import install_ce
from ce_integrations.testing.contract_case import count, read
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.semantic_kernel.contract_apps import AgentApps, answered, plugin


STEPS = 10
BUDGET = 900
SCRIPT = [tool_calls([("read", {"page": n}), ("read", {"page": n + 100})]) for n in range(STEPS)]
SMALL = RuntimeConfig(budget=BudgetConfig(max_input_tokens=BUDGET, reserved_reply_tokens=0))


@pytest.mark.scenario(2, 14)
@pytest.mark.req("A-08", "A-24")
@pytest.mark.parametrize("way", ["aask", "astream"])
async def test_ten_steps_in_a_small_budget(way: str, engine: Any, stored: Any) -> None:
    """Results that are shortened keep the ids of their calls: the server is strict."""
    threads, apps = [], AgentApps()
    for governed in (False, True):
        with Wire([*SCRIPT, text("Read.")]) as wire:
            ann = apps.make_target(wire, [read])
            if governed:
                install_ce(ann, engine=engine, config=SMALL)
            if way == "aask":
                said = await apps.aask(ann, "Read ten pages.", "s")
            else:
                said = "".join([piece async for piece in apps.astream(ann, "Read ten pages.", "s")])
            assert said == "Read."
            assert wire.refusals == []
            assert len(wire.bodies) == STEPS + 1
            sizes = list(map(count, wire.bodies))
            assert (max(sizes) > BUDGET) is not governed
        thread = apps.talk_of(ann, "s", list)
        kept = [message async for message in thread.get_messages()]
        threads.append([json.dumps(message.to_dict()) for message in kept])
    assert threads[0] == threads[1]
    assert [json.loads(each)["role"] for each in threads[0]] == [
        *("user", *(("assistant", "tool", "tool") * STEPS), "assistant")
    ]
    document = stored.document()
    runs = document.session.tool_state.tool_calls
    assert len(runs) == 2 * STEPS
    pages = {run.args_digest["page"]: run.result_evidence_ids for run in runs}
    for page, (evidence_id,) in pages.items():
        assert document.evidences[evidence_id].content == read(page)
    await apps.aclose()


@pytest.mark.scenario(14)
@pytest.mark.req("A-24")
async def test_a_shorter_result_is_another_object_with_the_same_id(
    service: Any, engine: Any, stored: Any
) -> None:
    """A history that the app keeps holds what the functions gave."""
    budget = BudgetConfig(max_input_tokens=2_500, reserved_reply_tokens=0)
    with Wire([*SCRIPT, text("Read.")]) as wire:
        made = service(wire)
        kernel = Kernel(services=[made], plugins=[plugin([read])])
        history = ChatHistory()
        history.add_user_message("Read ten pages.")
        config = RuntimeConfig(budget=budget, placement="seed")  # else they go, not shortened
        with install_ce(kernel, engine=engine, config=config, session_id="s"):
            assert [said async for said in answered(made, history, kernel, streams=False)]
        assert wire.refusals == []
        shown = [
            (each["tool_call_id"], each["content"])
            for body in wire.bodies
            for each in body["messages"]
            if each["role"] == "tool"
        ]
    results = [result_of(message) for message in history if message.role.value == "tool"]
    full = {str(result.id): str(result.result) for result in results}
    assert list(full.values()) == [read(n + more) for n in range(STEPS) for more in (0, 100)]
    assert {call_id for call_id, _ in shown} == full.keys()
    assert any(len(said) < len(full[call_id]) for call_id, said in shown)
    assert {result.function_name for result in results} == {"read"}


def result_of(message: ChatMessageContent) -> FunctionResultContent:
    (result,) = message.items
    assert isinstance(result, FunctionResultContent)
    return result
