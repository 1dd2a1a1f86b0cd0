"""Agents with LangChain's own middleware: each works as before, and what it asks for itself is a helper's."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from ce_engine import ContextEngine, Scope
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire, error, text, tool_calls
from tests.adapters.langchain.rows import rows


pytestmark = [
    pytest.mark.needs("create_agent"),
    pytest.mark.scenario(5),
    pytest.mark.req("A-24"),
]

THREAD: Any = {"configurable": {"thread_id": "t"}}
RULE = "Answer in English."
FAILS: list[bool] = []


@tool
def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means 意思 " + "and more " * 30


@tool
def unsure(word: str) -> str:
    """Fail once."""
    if FAILS:
        FAILS.clear()
        raise TimeoutError(word)
    return f"{word} at last"


def ask(agent: Any, question: Any) -> Any:
    return agent.invoke({"messages": [HumanMessage(question)]}, THREAD)


def summarization(chat: Any, wire: Wire) -> Any:
    from langchain.agents.middleware import SummarizationMiddleware

    if not hasattr(SummarizationMiddleware, "_get_profile_limits"):  # of langchain 1.0
        return SummarizationMiddleware(chat(wire), max_tokens_before_summary=60, messages_to_keep=2)
    return SummarizationMiddleware(chat(wire), trigger=("messages", 5), keep=("messages", 2))


def clear_tool_uses(chat: Any, wire: Wire) -> Any:
    from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware

    return ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=100, keep=1)])


def tool_retry(chat: Any, wire: Wire) -> Any:
    from langchain.agents.middleware import ToolRetryMiddleware

    FAILS.append(True)
    return ToolRetryMiddleware(max_retries=1, initial_delay=0.0, backoff_factor=0.0, jitter=False)


def fallback(chat: Any, wire: Wire) -> Any:
    from langchain.agents.middleware import ModelFallbackMiddleware

    return ModelFallbackMiddleware(chat(wire, model="gpt-4o"))


def pii(chat: Any, wire: Wire) -> Any:
    from langchain.agents.middleware import PIIMiddleware

    return PIIMiddleware("email", strategy="redact")


def selector(chat: Any, wire: Wire) -> Any:
    from langchain.agents.middleware import LLMToolSelectorMiddleware

    return LLMToolSelectorMiddleware(model=chat(wire), max_tools=1)


def todo(chat: Any, wire: Wire) -> Any:
    from langchain.agents.middleware import TodoListMiddleware

    return TodoListMiddleware()


def limit(chat: Any, wire: Wire) -> Any:
    from langchain.agents.middleware import ModelCallLimitMiddleware

    return ModelCallLimitMiddleware(run_limit=5)


def answer(body: Any) -> Any:
    """Plays the model: looks one word up a question, selects tools, writes todos, summarises."""
    messages = body["messages"]
    if "response_format" in body:
        return text('{"tools": ["lookup"]}')
    if not body.get("tools"):
        return text(f"a summary of {len(str(messages)) // 1000}")
    if messages[-1]["role"] == "tool":
        return text("That is it.")
    names = [each["function"]["name"] for each in body["tools"]]
    if "write_todos" in names:
        return tool_calls([("write_todos", {"todos": [{"content": "look", "status": "pending"}]})])
    name = "unsure" if "unsure" in str(messages[-1]) else "lookup"
    return tool_calls([(name, {"word": "lane"}), ("lookup", {"word": "turn"})])


def failing_first(body: Any) -> Any:
    """As that, of two models the first of which never answers."""
    return error(500, "no") if body["model"] == "gpt-4o-mini" else answer(body)


MIDDLEWARE: dict[str, Any] = {
    "summarization": summarization,
    "clear tool uses": clear_tool_uses,
    "tool retry": tool_retry,
    "fallback": fallback,
    "pii": pii,
    "selector": selector,
    "todo": todo,
    "limit": limit,
}
ID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
HAS_AGENTS = find_spec("langchain.agents.middleware") is not None
if HAS_AGENTS and find_spec("langchain.agents.middleware.internal_call_transformer") is None:
    del MIDDLEWARE["selector"]  # before langchain 1.4 nothing tells that call from the agent's own
DID = {
    "summarization": "a summary of",
    "clear tool uses": "[cleared]",
    "tool retry": "lane at last",
    "fallback": '"model":"gpt-4o"',
    "pii": "REDACTED_EMAIL",
    "selector": '"tools"',
    "todo": "write_todos",
    "limit": "lane?",
}
"""What a later body has because the middleware was at work."""
HELPERS = {"summarization", "selector"}


def build(chat: Any, name: str, *, ours: Any = ()) -> Any:
    def make(wire: Wire) -> Any:
        from langchain.agents import create_agent

        made = MIDDLEWARE[name](chat, wire)
        return create_agent(
            chat(wire),
            [lookup, unsure],
            system_prompt="You look up.",
            middleware=[*ours, made],
            checkpointer=InMemorySaver(),
        )

    return make


QUESTIONS = ("lane? write to ann@example.org", "unsure lane?", "again?")


def converse(agent: Any) -> Any:
    said = []
    for question in QUESTIONS:
        said = [(m.type, str(m.content)) for m in ask(agent, question)["messages"]]
    return said


def script(name: str) -> Any:
    return failing_first if name == "fallback" else answer


@pytest.mark.parametrize("name", sorted(MIDDLEWARE))
def test_with_room_all_is_as_before(twins: Any, chat: Any, engine: Any, name: str) -> None:
    found = twins(build(chat, name), converse, script(name))
    # LangChain 1.0 has its summaries made of messages with their ids, which are random.
    assert [ID.sub(b"id", raw) for raw in found.ours] == [ID.sub(b"id", raw) for raw in found.plain]
    assert found.results[0] == found.results[1]
    assert DID[name] in b"".join(found.ours).decode()
    kept = rows(engine, "t")
    purposes = [turn[1] for turn in kept["turns"]]
    assert ("helper" in purposes) is (name in HELPERS)
    # The fallback is an attempt of the turn whose first model failed.
    attempts = sum(turn[3] for turn in kept["turns"])
    assert attempts == len(found.ours)
    assert {turn[2] for turn in kept["turns"]} == {"committed"}
    assert len(kept["usage"]) == len(kept["turns"])


@pytest.mark.scenario(16)
@pytest.mark.parametrize("ours", [False, True], ids=["install_ce", "CEMiddleware"])
@pytest.mark.parametrize("name", sorted(MIDDLEWARE))
def test_a_rule_goes_into_the_agent_s_calls_and_no_helper_s(
    chat: Any, engine: ContextEngine, name: str, ours: bool
) -> None:
    """By our middleware, too, which stands first in the list."""
    from ce_integrations.langchain import CEMiddleware

    engine.sync.constraints.create(Scope(session_id="any"), RULE)
    with Wire(script(name)) as wire:
        governs = [CEMiddleware(engine=engine)] if ours else []
        agent = build(chat, name, ours=governs)(wire)
        installation = governs[0].installation if governs else install_ce(agent, engine=engine)
        converse(agent)
        installation.uninstall()
        assert wire.refusals == []
        bodies = wire.bodies
    of_agent = [body for body in bodies if body.get("tools")]
    helpers = [body for body in bodies if not body.get("tools")]
    assert {str(body["messages"]).count(RULE) for body in of_agent} == {1}
    assert {str(body["messages"]).count(RULE) for body in helpers} == ({0} if helpers else set())
    assert bool(helpers) is (name in HELPERS)
    turns = rows(engine, "t")["turns"]
    assert sum(turn[3] for turn in turns if turn[1] == "chat") == len(of_agent)


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_person_in_the_loop(twins: Any, chat: Any, engine: Any, decision: str) -> None:
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware

    def make(wire: Wire) -> Any:
        asks: Any = HumanInTheLoopMiddleware({"lookup": True})
        return create_agent(chat(wire), [lookup], middleware=[asks], checkpointer=InMemorySaver())

    def drive(agent: Any) -> Any:
        assert "__interrupt__" in ask(agent, "lane?")
        decisions = {"decisions": [{"type": decision}]}
        return [m.content for m in agent.invoke(Command(resume=decisions), THREAD)["messages"]]

    once = [tool_calls([("lookup", {"word": "lane"})]), text("That is it.")]
    found = twins(make, drive, once)
    assert found.ours == found.plain
    assert found.results[0] == found.results[1]
    kept = rows(engine, "t")
    assert [turn[2] for turn in kept["turns"]] == ["committed"] * 2
    assert len(kept["tool calls"]) == 1
    assert [m[1] for m in kept["messages"]] == found.results[1]


def test_a_model_by_its_name(
    twins: Any, engine: Any, monkeypatch: pytest.MonkeyPatch, runner: Any
) -> None:
    from langchain.agents import create_agent

    def make(wire: Wire) -> Any:
        monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        return create_agent("openai:gpt-4o-mini", [lookup], checkpointer=InMemorySaver())

    found = twins(make, converse, answer)
    assert found.ours == found.plain
    assert found.results[0] == found.results[1]
    assert len(rows(engine, "t")["turns"]) == len(found.ours) == 6


@pytest.mark.scenario(3)
@pytest.mark.parametrize("ours", [False, True], ids=["install_ce", "CEMiddleware"])
def test_a_model_that_is_made_with_each_call(
    chat: Any, engine: Any, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    from langchain.agents import create_agent
    from langchain.chat_models import init_chat_model

    from ce_integrations.langchain import CEMiddleware

    with Wire(answer) as wire:
        monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        model: Any = init_chat_model(configurable_fields=["model"], config_prefix="my")
        governs = [CEMiddleware(engine=engine)] if ours else []
        agent: Any = create_agent(model, [lookup], middleware=governs)
        installation = governs[0].installation if governs else install_ce(agent, engine=engine)
        config = {"configurable": {"thread_id": "t", "my_model": "openai:gpt-4o"}}
        agent.invoke({"messages": [HumanMessage("lane?")]}, config)
        installation.uninstall()
        assert [body["model"] for body in wire.bodies] == ["gpt-4o"] * 2
    kept = rows(engine, "t")
    assert [(turn[1], turn[3]) for turn in kept["turns"]] == [("chat", 1)] * 2
    assert len(kept["tool calls"]) == 2
