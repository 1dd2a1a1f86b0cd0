"""Without room: every body on the wire within the budget, pairs whole, system prompt and task there."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from ce_engine import BudgetConfig, RuntimeConfig, Scope, StoreConfig
from ce_engine.schema.rows import TurnRow
from ce_engine.text.tokens.vocabulary import load_encoding
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Answer, Wire, count_body_tokens, text, tool_calls
from tests.adapters.langchain.releases import make_agent


SYSTEM = "You are a careful assistant. 请用用户的语言回答。"
BUDGETS = (300, 500, 1000, 2000, 4000, 8000)
KINDS = ("english", "chinese", "json", "mixed")
ENGLISH = (
    "the shipment left the harbour on Monday and is expected in the northern warehouse".split()
)
CHINESE = "货物 星期一 离开 港口 预计 周末 到达 北方 仓库 负责人 已经 确认 数量 没有 问题".split()


def words(kind: str, rng: random.Random, count: int) -> str:
    if kind == "english":
        return " ".join(rng.choices(ENGLISH, k=count))
    if kind == "chinese":
        return "".join(rng.choices(CHINESE, k=count)) + "。"
    if kind == "json":
        rows = [{"id": rng.randrange(10**6), "state": "ok"} for _ in range(max(1, count // 8))]
        return json.dumps(rows)
    return words(rng.choice(["english", "chinese", "json"]), rng, count)


@tool
def inspect(part: str) -> str:
    """Inspect a part of the shipment and tell its state."""
    kind, seed = part.split("-", 1)
    rng = random.Random(seed)
    return words(kind, rng, rng.choice([3, 20, 120]))


def encode(body_text: str) -> list[int]:
    encoding = load_encoding("cl100k_base")
    assert encoding is not None
    return encoding.encode_ordinary(body_text)


def check(body: dict[str, Any], turn: TurnRow, task: str, budget: int) -> bool:
    """Look at one body; whether it is marked as over the budget."""
    messages = body["messages"]
    assert messages[0]["role"] == "system"
    assert messages[0]["content"].startswith(SYSTEM)
    assert sum(m["role"] == "user" and m["content"].endswith(task) for m in messages) == 1
    if turn.report.get("over_budget"):
        return True
    counted = count_body_tokens(body, encode)
    assert counted <= budget, (counted, turn.report["token_used"])
    return False


def cases() -> Iterator[Any]:
    """Every budget with every kind of text; of the long runs the mixed ones, and the others in `tox -m full`."""
    for budget, kind, steps in product(BUDGETS, KINDS, (5, 60)):
        marks = [pytest.mark.full] if steps == 60 and kind != "mixed" else []
        yield pytest.param(budget, kind, steps, marks=marks)


@pytest.mark.req("A-11", "A-24", "D-02", "D-03")
@pytest.mark.parametrize(("budget", "kind", "steps"), list(cases()))
def test_no_body_is_over_the_budget(budget: int, kind: str, steps: int, tmp_path: Path) -> None:
    rng = random.Random(f"{budget}-{kind}-{steps}")
    script: list[str | Answer] = [
        tool_calls([("inspect", {"part": f"{kind}-{n}-{i}"}) for i in range(rng.choice([1, 1, 2]))])
        for n in range(steps)
    ]
    task = words(kind, rng, 20)
    with Wire(answer=[*script, text("All parts are fine.")]) as wire:
        model = ChatOpenAI(model="gpt-4", base_url=wire.base_url, api_key="none", max_retries=0)  # type: ignore[arg-type]  # a plain key is taken
        agent: Any = make_agent(model, [inspect], system_prompt=SYSTEM)
        config = RuntimeConfig(
            budget=BudgetConfig(max_input_tokens=budget, reserved_reply_tokens=0),
            store=StoreConfig(deadline_s=20),
        )
        with install_ce(
            agent, store=f"sqlite:///{tmp_path / 'ce.db'}", config=config, session_id="s"
        ) as installed:
            result = agent.invoke(
                {"messages": [("user", task)]}, {"recursion_limit": 2 * steps + 10}
            )
            installed.flush()
            turns = installed.engine.loop.run(
                installed.engine.store.list_turns(Scope(session_id="s"))
            )
        assert wire.refusals == []
        bodies = wire.bodies
    assert len(result["messages"]) == 2 + steps + sum(
        len(a.calls) for a in script if isinstance(a, Answer)
    )
    assert len(bodies) == len(turns) == steps + 1
    marked = sum(check(body, turn, task, budget) for body, turn in zip(bodies, turns, strict=True))
    if budget >= 1000:
        assert marked == 0
