"""The prefix of a growing chat stays the same on the wire (decision 8): the benchmark's run, with fewer turns."""

from __future__ import annotations

import importlib.util
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest


pytestmark = pytest.mark.needs("create_agent")

TURNS, TOKENS = 40, 1500
"""So small that the chat is cut more than once."""

FOLDER = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark() -> Any:
    before = list(sys.path)
    spec = importlib.util.spec_from_file_location("prefix_reuse", FOLDER / "prefix_reuse.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["prefix_reuse"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before
    del sys.modules["prefix_reuse"]


@pytest.mark.req("E-03")
@pytest.mark.parametrize(("app", "least"), [("agent", 0.85), ("chain", 0.85), ("tools", 0.75)])
def test_most_of_a_request_is_the_one_before(benchmark: Any, app: str, least: float) -> None:
    reports: list[Any] = []
    tokens = 4000 if app == "tools" else TOKENS  # one large result needs more than the others' chat
    config = benchmark.ours(tokens, placement="cache")
    bodies = benchmark.run(app, TURNS, 1, config=config, heard=reports.append)
    found = benchmark.Figures.of(bodies, tokens)
    assert found.over == 0
    assert any(report.dropped or report.prune_decisions for report in reports), "nothing was cut"
    assert found.unchanged / found.possible > least
    messages = [body["messages"] for body in bodies]
    grown = sum(now[: len(before)] == before for before, now in pairwise(messages))
    assert grown > 3 * len(bodies) / 4, "but for cuts, each begins with the whole of the one before"
    stays = [
        each for each in messages if any("records, not" in (m["content"] or "") for m in each[1:-1])
    ]
    assert stays, "what was brought in stood before an earlier question"


def test_the_report_counts_what_the_wire_shows(benchmark: Any) -> None:
    """Message for message: a report knows no half of one that changed."""
    reports: list[Any] = []
    config = benchmark.ours(TOKENS, placement="cache")
    bodies = benchmark.run("agent", TURNS, 2, config=config, heard=reports.append)
    whole = 0
    for before, now, report in zip(bodies, bodies[1:], reports[1:], strict=False):
        old, new = before["messages"], now["messages"]
        same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), len(old))
        counted = benchmark.count_body_tokens({"messages": new[:same]}, benchmark.encode) - 3
        assert report.prefix_tokens_unchanged == counted
        whole += same == len(old)
    assert 0 < whole < TURNS - 1
