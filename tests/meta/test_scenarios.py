"""Each acceptance scenario of an adapter has a test that says so."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest


TESTS = Path(__file__).parents[1] / "adapters"
LANGCHAIN = {
    1: "LCEL, called in every way",
    2: "tools and structured output bound after the installation",
    3: "every wrapping and choice of a model",
    4: "nodes of graphs, fan-out, subgraphs, streams; the state is the app's",
    5: "create_agent, with other middleware, and CEMiddleware",
    6: "models for texts, and generate by hand",
    7: "the same objects, serialised forms and cache keys",
    8: "the cache",
    10: "installed twice, taken away",
    11: "one model, two engines",
    12: "many at once, threads",
    13: "faults of ours and of the store",
    14: "streams left, calls cancelled, errors, retries, fallbacks",
    15: "usage, told or estimated",
    16: "helpers' calls",
    17: "what an import costs",
    18: "other people's handlers",
}
"""All 18 but one: 9, random histories, has a command of its own; the releases of 17 are in `tox.ini`."""
AUTOGEN = {
    1: "fifteen apps, run and streamed: what is sent, given, kept and dumped is the same",
    2: "random histories of tools in all budgets, to a strict provider",
    3: "a loop of ten tool steps in a small budget",
    4: "AutoGen's own limit of tokens, repaired",
    5: "evidence, whatever the client bears of system messages",
    6: "streams with and without their usage",
    7: "calls cancelled, failed, left",
    8: "teams: authors, lines, nested ones, handoffs, orchestrators, selectors, graphs",
    9: "installed late, twice, on parts; after a state is loaded; components",
    10: "sessions: metadata, what the app says, keys, the app's own runtime, many at once",
    11: "a memory of twenty turns",
    12: "the store is away",
}
LLAMAINDEX = {
    1: "the eight methods of a model, by place and by name",
    2: "tools and structured output, whichever way they are asked for",
    3: "agents, handoffs, the app's own workflows",
    4: "query engines and chat engines, in every way",
    5: "Settings, and what is made later",
    6: "memories hold what they held",
    7: "models that ask themselves",
    8: "calls and results in every form",
    9: "usage, streams that are left or never read",
    10: "sessions: memories, contexts, tags, what the app says, many at once",
    11: "other people's handlers",
    12: "installed twice, copied, taken away; one model, two engines",
    13: "faults of ours and of the store",
}
"""All 15 but two: the releases of 14 are in `tox.ini`; of 15, LlamaIndex publishes no tests with its package."""
HAYSTACK = {
    1: "with room the same bytes: pipelines, agents, streams, awaited or not",
    2: "a long talk and three tools in a small budget: pairs are whole, the app's list is complete",
    3: "dumped alike, loaded without us; a breakpoint's run goes on",
    4: "documents are evidence once, whoever finds them, and rerankers keep them",
    5: "a fallback's attempts",
    6: "streams that are left",
    7: "fifty at once, each in its session",
    8: "one pipeline in eight threads",
    9: "tools that fail, that do not exist, that are awaited only, that are asked for twice",
    10: "Haystack's own compaction",
    11: "taken away",
    12: "other people's tracers",
    13: "errors of the provider",
}
SEMANTIC_KERNEL = {
    1: "sixteen apps, installed twice: what is sent and given is the same",
    2: "a loop of ten steps in a small budget; the thread is whole and in order",
    3: "parallel calls: unknown, with wrong arguments, raising",
    4: "streams: usage, first piece, left, failed",
    5: "a prompt as a function, an agent as one",
    6: "five orchestrations: authors, helpers, kernels that are cloned",
    7: "two agents on one service, one of them installed",
    8: "services that come later, kernels that are given",
    9: "twenty threads of one agent at once",
    10: "reducers",
    11: "searches: how near a hit is, whatever the function",
    12: "processes",
    13: "without protobuf",
    14: "a shorter result keeps its call's id",
}
CREWAI = {
    1: "two tasks and a tool, the same bytes; what a crew says of itself",
    2: "every way to have a model asked: each request governed, and once",
    3: "the preflight: a history that fits once pruned is not summarised",
    4: "usage by task: shared models, kickoffs again and for each, guardrails, converters, delegated work",
    5: "parallel calls, unknown and failing ones, with their ids; agents that write their calls",
    6: "flows with an id; two sessions on threads",
    7: "copies, later models, taken away",
    8: "the store is away",
    9: "hooks of the app that block",
    10: "requests that are too long for the provider",
    11: "nobody is called but the model",
}
SCENARIOS = {
    "autogen": AUTOGEN,
    "crewai": CREWAI,
    "haystack": HAYSTACK,
    "langchain": LANGCHAIN,
    "llamaindex": LLAMAINDEX,
    "semantic_kernel": SEMANTIC_KERNEL,
}


def scenarios_marked(source: str) -> list[int]:
    """Give the numbers of each `pytest.mark.scenario(...)`."""
    return [
        ast.literal_eval(argument)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.scenario"
        for argument in node.args
    ]


@pytest.mark.parametrize("adapter", sorted(SCENARIOS))
def test_each_has_a_test_and_no_other_is_named(adapter: str) -> None:
    found = {
        number
        for path in (TESTS / adapter).glob("test_*.py")
        for number in scenarios_marked(path.read_text(encoding="utf-8"))
    }
    assert found == set(SCENARIOS[adapter])


def test_no_adapter_is_left_out() -> None:
    assert set(SCENARIOS) == {path.parent.name for path in TESTS.glob("*/test_contract.py")}


@pytest.mark.parametrize("marked", [[], [4], [4, 12]])
def test_marks_are_read(marked: list[int]) -> None:
    numbers = ", ".join(map(str, marked))
    assert scenarios_marked(f"@pytest.mark.scenario({numbers})\ndef test(): ...") == marked
