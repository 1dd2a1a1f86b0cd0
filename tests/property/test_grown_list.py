"""Of a list that only grows nothing that went out changes but where it is cut, a rule is new, or room runs out."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    MemoryStore,
    Prepared,
    RuntimeConfig,
    create_context_engine,
)
from tests.unit.prepare.test_tool_results import SCOPE, Talk


WORDS = "order invoice price street city paid late box blue 订单 发票 价格 地址 城市".split()
TOOLS = [{"type": "function", "function": {"name": "get_order", "parameters": {}}}]
ENDS = {"", "cut", "rules"}
"""What may end the prefix that begins like the call before."""


class Grown:
    """A random talk with tools and rules, over its budget sooner or later; each call is judged."""

    def __init__(self, seed: int) -> None:
        self.random = chance = random.Random(seed)
        budget = chance.randrange(300, 2500)
        config = RuntimeConfig(
            budget=BudgetConfig(max_input_tokens=budget, reserved_reply_tokens=0),
            tool_results=chance.choice(["whole", "whole", "compact"]),
            locale=chance.choice(["en", "zh"]),
        )
        self.engine = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
        self.talk = Talk(self.engine, config)
        self.talk.tools = TOOLS if chance.random() < 0.5 else []
        self.back = 0  # tokens of what was brought back into the call before
        for _ in range(chance.choice([0, 0, 1, 3, 6])):
            self.add_rule()

    def say(self, most: int) -> str:
        count = self.random.randrange(1, most)
        return " ".join(
            f"{self.random.choice(WORDS)}{self.random.randrange(60)}" for _ in range(count)
        )

    def add_rule(self) -> None:
        self.engine.sync.constraints.create(SCOPE, self.say(12))

    def result(self) -> Any:
        count = self.random.randrange(1, 8)
        rows = [{"name": self.say(3), "id": self.random.randrange(9999)} for _ in range(count)]
        order = {"order_id": f"W{self.random.randrange(4)}", "items": rows}
        return self.random.choice([order, json.dumps(rows), self.say(120)])

    def go_on(self) -> None:
        """One more question, or some more calls of tools."""
        if self.random.random() < 0.05:
            self.add_rule()
        if self.random.random() < 0.45:
            self.talk.ask(self.say(60))
            self.judge(self.talk.prepared())
            return
        for _ in range(self.random.randrange(1, 4)):
            tool = self.random.choice(["get_order", "read"])
            self.talk.tool(self.result(), tool, order_id=f"W{self.random.randrange(3)}")
            self.judge(self.talk.prepared())

    def judge(self, prepared: Prepared) -> None:
        report = prepared.report
        back = report.layers["retrieved"].tokens
        if report.prefix_broken_by == "brought_in":  # no room any more beside what has to go out
            assert self.back > back == 0
            assert report.token_used + self.back > (report.token_budget or 0)
        else:
            assert report.prefix_broken_by in ENDS, len(self.talk.list)
        self.back = back


@pytest.mark.parametrize(
    "seed", [11, 33, 50, *(pytest.param(n, marks=pytest.mark.full) for n in range(100, 200))]
)
def test_nothing_that_went_out_changes_but_by_a_cut(seed: int) -> None:
    grown = Grown(seed)
    try:
        for _ in range(20):
            grown.go_on()
    finally:
        grown.engine.sync.close()
