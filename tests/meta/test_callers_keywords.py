"""Whatever keywords a caller has: none is a parameter of a wrapper that takes them all and hands them on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest


SOURCES = Path(__file__).parents[2] / "ce_integrations"
ROOMS = {"demo", "testing"}
"""Apps of our own, and those of a test: what they are called with is theirs."""

THEIRS = "the method's own parameters: a caller who has them means them"
EXCEPTIONS = {
    "autogen/agent_tool_messages.py add_message": ("message", THEIRS),
    "crewai/context_injection.py overflows": ("messages", THEIRS),
    "langchain/context_injection.py events": ("stream", THEIRS),
    "langchain/recorder.py on_retriever_end": ("documents run_id", THEIRS),
    "langchain/recorder.py on_retriever_error": ("error run_id", THEIRS),
    "langchain/recorder.py on_retriever_start": ("serialized query run_id", THEIRS),
    "langchain/recorder.py on_tool_end": ("output run_id", THEIRS),
    "langchain/recorder.py on_tool_error": ("error run_id", THEIRS),
    "langchain/recorder.py on_tool_start": ("serialized input_str run_id inputs", THEIRS),
    "llamaindex/recorder.py span_drop": ("id_ bound_args instance err", THEIRS),
    "llamaindex/recorder.py span_enter": ("id_ bound_args instance parent_id", THEIRS),
    "llamaindex/recorder.py span_exit": ("id_ bound_args instance result", THEIRS),
    "semantic_kernel/context_injection.py _function": ("kernel arguments", THEIRS),
    "semantic_kernel/context_injection.py _service": ("chat_history", THEIRS),
    "semantic_kernel/context_injection.py prepare": ("runtime internal_topic_type", THEIRS),
    "semantic_kernel/recorder.py invoke": ("function_call chat_history", THEIRS),
    "calls/run_tree.py add": (
        "run_id parent own tool user_id naming",
        "adapters call it, with fields of a `CallInfo`",
    ),
    "install/marks.py __init__": (
        "place methods text join streams packages",
        "adapters call it, with the fields of a `Form`",
    ),
    "install/registry.py install_ce": ("target", "its options have names of ours"),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def functions() -> Iterator[tuple[str, Function]]:
    """Those that take any keyword, by their file and name."""
    for path in sorted(SOURCES.rglob("*.py")):
        name = path.relative_to(SOURCES)
        if name.parts[0] in ROOMS or name.name.startswith("demo"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, Function) and node.args.kwarg is not None:
                yield f"{name.as_posix()} {getattr(node, 'name', 'lambda')}", node


def keywords(function: Function) -> list[str]:
    """The parameters that a caller's keyword of the same name would be."""
    return [each.arg for each in (*function.args.args, *function.args.kwonlyargs)]


def test_no_keyword_of_a_caller_is_a_parameter_of_ours() -> None:
    named: dict[str, list[str]] = {}
    for place, function in functions():
        if names := keywords(function):
            named.setdefault(place, []).extend(names)
    assert named == {place: names.split() for place, (names, _) in EXCEPTIONS.items()}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def call(subject, *args, **kwargs): ...", ["subject"]),
        ("async def call(subject, /, *args, config=None, **kwargs): ...", ["config"]),
        ("def call(subject, /, *args, **kwargs): ...", []),
        ("lambda subject, **kwargs: None", ["subject"]),
    ],
)
def test_the_rule_bites(source: str, expected: list[str]) -> None:
    function = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, Function))
    assert keywords(function) == expected
