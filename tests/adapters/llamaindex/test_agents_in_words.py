"""Agents that write their calls as words: they have a budget, and each call is one call in the store."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.agent.workflow import CodeActAgent, ReActAgent
from llama_index.core.tools import FunctionTool

from ce_engine import BudgetConfig, EvidenceType, RuntimeConfig, ToolType
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.llamaindex.shelf import memory


pytestmark = pytest.mark.scenario(3)

STEPS = 20
LIMIT = 6000
"""Tokens that the provider takes; a budget of half is far below what the steps come to."""

DONE = "Thought: I can answer without using any more tools.\nAnswer: fin."


def think(n: int) -> str:
    return f'Thought: I need a word.\nAction: lookup\nAction Input: {{"word": "l{n}"}}'


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means " + "alpha beta gamma delta " * 100


def contents(body: Any) -> list[tuple[str, str]]:
    return [(m["role"], str(m["content"])) for m in body["messages"]]


@pytest.fixture
def ask(runner: Any) -> Any:
    def run(agent: Any, question: str, held: Any) -> str:
        async def go() -> str:
            return str(await agent.run(question, memory=held, max_iterations=100))

        return str(runner.run(go()))

    return run


def test_an_agent_that_thinks_aloud_has_a_budget(model: Any, engine: Any, ask: Any) -> None:
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=LIMIT // 2))
    with Wire([*map(think, range(STEPS)), DONE], max_tokens=LIMIT) as wire:
        agent = ReActAgent(llm=model(wire), tools=[lookup])
        with install_ce(agent, engine=engine, config=config) as ours:
            assert ask(agent, "QUESTION", memory()) == "fin."
            report = ours.last_report("s")
        bodies = list(wire.bodies)
    assert report is not None
    assert not report.over_budget
    assert len(bodies) == STEPS + 1
    for sent in map(contents, bodies):
        assert any(text.endswith("QUESTION") for role, text in sent if role == "user")
        told = [n for n, (_, text) in enumerate(sent) if text.startswith("Observation: ")]
        assert all("Action: lookup" in sent[n - 1][1] for n in told)


def results(stored: Any) -> list[Any]:
    """Texts of the evidence of tools, each a different call's, after a look at the links between them."""
    document = stored("s")
    runs = document.session.tool_state.tool_calls
    found = [e for e in document.evidences.values() if e.type is EvidenceType.TOOL_RESULT]
    assert [run.result_evidence_ids for run in runs] == [[e.evidence_id] for e in found]
    assert [e.links.tool_call_id for e in found] == [run.tool_call_id for run in runs]
    assert {run.type for run in runs} == {ToolType.FUNCTION_CALL}
    return [e.content for e in found]


@pytest.mark.req("A-24")
def test_a_thought_that_calls_is_one_call_with_one_result(
    model: Any, engine: Any, ask: Any, stored: Any
) -> None:
    def count(word: str) -> str:
        """Count."""
        return f"{next(numbers)} of {word}"

    numbers = iter(range(9))
    same = 'Thought: I count.\nAction: count\nAction Input: {"word": "%s"}'
    words = ("lane", "lane", "ann@example.com", "lane")  # the same again, and what is redacted
    with Wire([*(same % word for word in words), DONE]) as wire:
        agent = ReActAgent(llm=model(wire), tools=[FunctionTool.from_defaults(count)])
        with install_ce(agent, engine=engine):
            ask(agent, "QUESTION", memory())
    told = results(stored)
    assert [text.partition(" of ")[0] for text in told] == ["0", "1", "2", "3"]
    assert "ann@example.com" not in told[2]
    assert told == [m.content for m in stored("s").session.messages if m.role == "tool"]


def test_a_person_who_begins_like_a_tool_keeps_every_word(
    model: Any, engine: Any, ask: Any
) -> None:
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=LIMIT // 2))
    said = "Observation: the lamp is red"
    held = memory()
    with Wire([DONE, *map(think, range(8)), DONE], max_tokens=LIMIT) as wire:
        agent = ReActAgent(llm=model(wire), tools=[lookup])
        with install_ce(agent, engine=engine, config=config):
            ask(agent, said, held)
            ask(agent, "And then?", held)
        assert len(wire.bodies) == 10
        assert all(("user", said) in contents(body) for body in wire.bodies)


def test_an_agent_that_writes_code_keeps_the_question(
    model: Any, engine: Any, ask: Any, stored: Any
) -> None:
    async def run_code(code: str) -> str:
        return f"{code} gave " + "alpha beta gamma delta " * 60

    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=2500))
    steps = [f"I run it.\n<execute>\nprint({n})\n</execute>" for n in range(STEPS)]
    with Wire([*steps, "It is 1."]) as wire:
        agent = CodeActAgent(llm=model(wire), tools=[], code_execute_fn=run_code)
        with install_ce(agent, engine=engine, config=config):
            assert ask(agent, "QUESTION", memory()) == "It is 1."
        bodies = list(map(contents, wire.bodies))
    asked = [[text for role, text in sent if role == "user"] for sent in bodies]
    assert all(any(text.endswith("QUESTION") for text in texts) for texts in asked)
    assert len(bodies[-1]) < 2 * STEPS
    session = stored("s").session
    assert [m.content for m in session.messages if m.role == "user"] == ["QUESTION"]
    first = session.messages[1]
    assert [(c.name, c.args) for c in first.tool_calls] == [("execute", {"code": "print(0)"})]
    assert first.content == "I run it."
    assert [text.partition(" gave ")[0] for text in results(stored)] == [
        f"print({n})" for n in range(STEPS)
    ]
