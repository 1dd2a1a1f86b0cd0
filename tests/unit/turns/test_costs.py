"""What calls cost, what they would have cost without us, and who says when it is more."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from ce_engine import (
    Author,
    AuthorKind,
    BudgetConfig,
    ContextEngine,
    HostMessage,
    Message,
    Origin,
    Role,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.errors import ConfigError
from ce_engine.schema.document import ModelUsage
from ce_engine.schema.rows import AppendModelUsage
from ce_engine.testing.host import HostApp, system, user
from ce_engine.text.relevance.relevance import LexicalIndex
from ce_engine.text.tokens.prices import LISTED, PriceTable, over_the_list
from tests.hosts.cli_host import ce, url_of
from tests.hosts.compare_host import Told, put


PATIENT = StoreConfig(deadline_s=30)
TIGHT = RuntimeConfig(
    budget=BudgetConfig(max_input_tokens=700, reserved_reply_tokens=0), store=PATIENT
)
DEARER = "CONTEXT_DEARER"
ASKED = (
    "红色台灯在三号仓库还有多少盏？",
    "灯塔项目由哪个小组负责？我们下周要开会。",
    "七号仓库的屋顶漏水，已经报修了吗？",
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return url_of(tmp_path / "ce.db")


@pytest.fixture
def engine(url: str) -> Iterator[ContextEngine]:
    made = create_context_engine(url, config=TIGHT)
    yield made
    made.sync.close()


def talk(app: HostApp, turns: int, **call: Any) -> list[Any]:
    """Questions and answers in Chinese, each long enough to fill the budget soon."""
    return [
        app.ask(f"第{n}问：{ASKED[n % 3]}" * 2, f"第{n}答：是每日记录里写的。" * 4, **call).report
        for n in range(turns)
    ]


def told(url: str, session: str, *more: str) -> list[dict[str, Any]]:
    done = ce("report", session, "--store", url, "--json", *more)
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


# Without us


def test_where_all_fits_it_costs_what_it_costs_without_us(url: str) -> None:
    engine = create_context_engine(url, config=RuntimeConfig(store=PATIENT))
    talk(HostApp(engine, Scope(session_id="s"), [system("你来帮忙。")]), 6)
    engine.sync.close()
    costs = [turn["cost"] for turn in told(url, "s")]
    assert all(cost["sent"] == cost["untouched"] > 0 for cost in costs)
    text = ce("report", "s", "--store", url).stdout
    assert re.search(r"cost +([\d,]+) for inputs, \1 without us · saved 0 \(0\.0%\)", text)
    assert "DEARER" not in text


def test_beside_a_caller_by_hand_stands_the_whole_talk(engine: ContextEngine, url: str) -> None:
    """It sends the question alone, and leaves the rest to us; what it said then is the same now."""
    last = 0
    for n in range(5):
        asked = Message(role=Role.USER, content=f"{n}: {ASKED[n % 3]}")
        report = engine.sync.prepare_turn("s", asked).report
        engine.sync.commit_assistant_message(
            "s", Message(role=Role.ASSISTANT, content="是的。" * 9)
        )
        assert report.untouched is not None
        assert report.untouched.by == "talk"
        assert report.untouched.tokens == report.token_used  # there was room for all of it
        assert (report.prefix_tokens_unchanged or 0) == (report.untouched.prefix or 0) == last
        last = report.token_used - 3  # the reply's priming
    engine.sync.close()
    assert "5 calls by hand" in " ".join(ce("report", "s", "--store", url).stdout.split())


def test_who_leaves_the_history_to_us_has_no_cost_without_us(
    engine: ContextEngine, url: str
) -> None:
    for n in range(4):
        app = HostApp(engine, Scope(session_id="s"), [system("你来帮忙。")], requests=n)
        found = app.ask(f"{n}: {ASKED[n % 3]}", "是的。").report
        assert found.restored == 2 * n
        assert found.untouched is None or not n
    engine.sync.close()
    assert [turn["cost"]["untouched"] for turn in told(url, "s")][1:] == [None] * 3
    text = " ".join(ce("report", "s", "--store", url).stdout.split())
    assert "calls with nothing to stand beside: the app leaves their history to us" in text
    assert "nobody can say" in ce("report", "s", "--store", url, "--turn", "4").stdout


def test_what_a_framework_writes_otherwise_next_time_is_lost_without_us_as_well(
    engine: ContextEngine,
) -> None:
    """Semantic Kernel (1.45) gives an answer its agent's name once the next question is asked; beside rules, too."""
    scope = Scope(session_id="s")
    engine.sync.constraints.create(scope, "Answer in one sentence.")
    app = HostApp(engine, scope, [system("You help. " * 30)])
    app.ask("How many red lamps are there?", "Forty-two red lamps are there.")
    app.ask("And how many blue ones?", "Seven.")
    first = app.messages[2].message
    named = first.model_copy(update={"author": Author(kind=AuthorKind.AGENT, id="keeper")})
    app.messages[2] = HostMessage(named, Origin.ANSWER)
    report = app.ask("And chairs?", "Four.").report
    assert report.inserted
    assert report.prefix_broken_by == "app"
    assert report.untouched is not None
    assert 0 < (report.untouched.prefix or 0) <= (report.prefix_tokens_unchanged or 0)
    assert (report.prefix_tokens_unchanged or 0) < report.token_used


def test_a_chain_in_between_ends_no_cached_prefix_of_an_agent(
    engine: ContextEngine, url: str
) -> None:
    """A provider has the agent's list in its cache still: with us and without us."""
    config = RuntimeConfig(history="session", store=PATIENT)
    agent = HostApp(engine, Scope(session_id="s"), [system("你来帮忙。")])
    for n in range(9):
        agent.ask(f"{n}: {ASKED[n % 3]}", "是的。" * 3, config=config)
        if n % 3 == 1:
            chain = HostApp(engine, Scope(session_id="s"), [system(f"文件：{n}")], requests=50 + n)
            chain.ask(f"第{n}页写了什么？", "没什么。", config=config)
    engine.sync.flush()
    reports = engine.sync.list_reports("s")
    agents = [report for report in reports if report.untouched is not None]
    assert (len(reports), len(agents)) == (12, 9)
    for before, after in pairwise(agents):
        assert after.untouched is not None
        assert after.untouched.prefix == after.prefix_tokens_unchanged
        assert (after.untouched.prefix or 0) > before.token_used * 0.9
    for report in agents[1:]:  # as they are made again
        found = engine.sync.replay("s", report.turn_id, config)
        assert found.prefix == report.prefix_tokens_unchanged


def test_a_history_that_the_app_changes_is_lost_without_us_as_well(engine: ContextEngine) -> None:
    app = HostApp(engine, Scope(session_id="s"), [system("你来帮忙。")])
    talk(app, 3)
    app.messages[0] = system("你来帮忙，今天是星期二。")
    report = app.ask("还有多少盏？", "四十二盏。").report
    assert report.untouched is not None
    assert (report.untouched.prefix, report.prefix_tokens_unchanged) == (0, 0)
    assert report.prefix_broken_by == "system"
    app.messages[1] = user("灯在哪里？请用一句话回答。")
    report = app.ask("还有多少把椅子？", "四把。").report
    assert report.prefix_broken_by == "app"


def test_tools_that_the_app_adds_are_told_as_what_broke_the_prefix(engine: ContextEngine) -> None:
    app = HostApp(engine, Scope(session_id="s"), [system("你来帮忙。")])
    talk(app, 3)
    tools = [{"type": "function", "function": {"name": "count_lamps", "parameters": {}}}]
    report = app.ask("还有多少盏？", "四十二盏。", tools=tools).report
    assert (report.prefix_tokens_unchanged, report.prefix_broken_by) == (0, "tools")
    assert app.ask("谢谢。", "不客气。", tools=tools).report.prefix_broken_by == ""


@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("system_messages", [[system("You help.")], []])
def test_a_rule_that_changed_is_told_as_what_broke_the_prefix(
    engine: ContextEngine, url: str, system_messages: list[Any], *, derived: bool
) -> None:
    """Also one that was derived from a talk: it stands quoted before the first message of a person."""
    scope = Scope(session_id="s")
    app, rules = HostApp(engine, scope, system_messages), engine.sync.constraints
    said = [app.ask("Where is the lamp?", "On the shelf.").report.prefix_broken_by]
    made = rules.create(scope, "Answer in euros.", derived=derived)
    said.append(app.ask("And the chair?", "Here.").report.prefix_broken_by)
    said.append(app.ask("And the table?", "Here.").report.prefix_broken_by)
    rules.update(scope, made.constraint_id, text="Answer in euros, with VAT.")
    said.append(app.ask("And the stool?", "Here.").report.prefix_broken_by)
    rules.delete(scope, made.constraint_id)
    said.append(app.ask("And the desk?", "Here.").report.prefix_broken_by)
    assert said == ["", "rules", "", "rules", "rules"]
    text = " ".join(ce("report", "s", "--store", url, "--turn", "4", columns=120).stdout.split())
    assert "then a rule was added, changed or deleted" in text
    assert "what is brought in changed" not in text


# Dearer


def test_a_session_that_became_dearer_says_so_once_and_why(
    engine: ContextEngine, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = HostApp(engine, Scope(session_id="s"), [system("You help.")])
    with caplog.at_level(logging.WARNING, "ce_engine"):
        found = []
        for n in range(40):  # each call another rule: nothing can be cached
            engine.sync.constraints.create(Scope(session_id="s"), f"Rule {n}: be kind." * 3)
            found.append(app.ask(f"{n}: Where?", "Here.").report)
    doubted = [report for report in found if DEARER in report.warnings]
    assert len(doubted) == 1
    assert doubted[0].dearer_causes["rules"] > 1000
    [line] = [m for m in caplog.messages if "cost more by now" in m]
    assert "session s: " in line
    assert "a rule was added, changed or deleted" in line
    engine.sync.close()
    text = " ".join(ce("report", "s", "--store", url, columns=80).stdout.split())
    assert text.startswith("DEARER than without us: ")
    assert "a rule was added, changed or deleted at turns" in text
    text = " ".join(ce("report", "s", "--store", url, "--full", columns=80).stdout.split())
    assert "DEARER by this turn than it would be without us" in text


def test_another_process_does_not_say_so_again(engine: ContextEngine, url: str) -> None:
    scope = Scope(session_id="s")
    app = HostApp(engine, scope, [system("You help.")])
    warnings = []
    for n in range(40):
        engine.sync.constraints.create(scope, f"Rule {n}: be kind." * 3)
        warnings += app.ask(f"{n}: Where?", "Here.").report.warnings
    assert warnings.count(DEARER) == 1
    engine.sync.close()
    app.engine = create_context_engine(url, config=TIGHT)
    for n in range(5):
        app.engine.sync.constraints.create(scope, f"Rule of late {n}: be kind." * 3)
        assert DEARER not in app.ask(f"{n}: And where?", "Here.").report.warnings
    app.engine.sync.close()


def test_the_engine_s_own_calls_count(url: str) -> None:
    own = ModelUsage(
        model_usage_id="o", provider="", model="m-1", prompt_tokens=300, completion_tokens=50
    )
    same = {"untouched": {"tokens": 100, "prefix": 40}}
    put(url, "s", [Told(report=same)], more=[AppendModelUsage([own])])
    text = " ".join(ce("report", "s", "--store", url).stdout.split())
    assert "DEARER than without us: 564 for 64" in text  # 300 + 4 x 50 more
    assert "the engine's own calls (+500)" in text
    found = json.loads(ce("compare", "--store", url, "--json").stdout)
    beside = found["total"]["beside"]
    assert (beside["sent"], beside["untouched"], beside["calls"]) == (564, 64, 1)


def test_what_nobody_told_is_marked(url: str) -> None:
    same = {"untouched": {"tokens": 100, "prefix": 40}}
    calls = [Told(report=same, params={"estimated": True}), Told(report=same)]
    put(url, "s", calls)
    text = " ".join(ce("report", "s", "--store", url).stdout.split())
    assert "answers ~80 (1 call estimated)" in text
    assert (
        "about 40 units: 10 tokens (estimated: nobody told)"
        in ce("report", "s", "--store", url, "--turn", "1").stdout
    )


# Prices


def test_one_table_for_all_and_a_user_s_goes_before(url: str, tmp_path: Path) -> None:
    mine = tmp_path / "价格.toml"
    mine.write_text('[models."p/gpt-4o*"]\ninput = 100\ncached = 50\noutput = 0\n', "utf-8")
    same = {"untouched": {"tokens": 400, "prefix": None}}
    put(url, "s", [Told(model="gpt-4o-2024-08-06", report=same)])
    listed = told(url, "s")[0]["cost"]
    assert listed["currency"] == "USD"
    assert listed["sent"] == pytest.approx(
        100 * 2.5 / 1e6
    )  # a prefix of 40 is too short to be cached
    own = told(url, "s", "--prices", str(mine))[0]["cost"]
    assert own["sent"] == pytest.approx((60 * 100 + 40 * 50) / 1e6)
    assert own["untouched"] == pytest.approx(400 * 100 / 1e6)
    total = json.loads(ce("compare", "--store", url, "--json", "--prices", str(mine)).stdout)[
        "total"
    ]
    assert total["beside"]["sent"] == own["sent"]


def test_a_prefix_that_is_too_short_to_be_cached_is_named_as_the_cause(url: str) -> None:
    """A few tokens more of it, and the call would have cost less than without us."""
    longer = {"untouched": {"tokens": 1740, "prefix": 1650}, "inserted": 1}
    dearer = Told(model="gpt-4o-mini", sent=1117, prompt=1117, prefix=1019, report=longer)
    cached = Told(model="gpt-4o-mini", sent=1117, prompt=1117, prefix=1024, report=longer)
    broken = Told(
        model="gpt-4o-mini",
        sent=1117,
        prompt=1117,
        prefix=200,
        report={**longer, "prefix_broken_by": "cut"},
    )
    put(url, "s", [dearer, cached, broken])
    text = ce("report", "s", "--store", url, columns=400).stdout
    causes = next(line for line in text.splitlines() if line.startswith("DEARER"))
    assert "what begins like the call before is too short to be cached at turn 1 (" in causes
    assert "the cut moved at turn 3 (" in causes
    assert "too short to be cached" in ce("report", "s", "--store", url, "--turn", "1").stdout


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("gpt-4o", True),
        ("openai/gpt-4o-2024-08-06", True),
        ("gpt-4o-audio", False),
        ("claude-sonnet-4-5-20250929", True),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", True),
        ("o3-pro", False),
        ("qwen3:8b", False),
        ("", False),
    ],
)
def test_a_listed_price_is_of_that_model_alone(model: str, known: bool) -> None:
    assert (LISTED.of(model) is not None) == known


def test_a_table_in_other_money_stands_alone() -> None:
    mine = PriceTable.parse('currency = "CNY"\n[models.qwen]\ninput = 1\noutput = 2', "p.toml")
    assert over_the_list(mine).of("gpt-4o") is None


def test_a_table_that_cannot_be_read_is_told_before_any_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for path, text in ((tmp_path / "none.toml", None), (tmp_path / "bad.toml", "[models]")):
        if text is not None:
            path.write_text(text)
        monkeypatch.setenv("CE_PRICES", str(path))
        with pytest.raises(ConfigError, match=path.name):
            create_context_engine("memory://")


# What was brought in, and why


@pytest.mark.parametrize("columns", [80, 120])
def test_a_turn_says_what_was_brought_in_and_why(
    engine: ContextEngine, url: str, columns: int
) -> None:
    app = HostApp(engine, Scope(session_id="会话"), [system("你来帮忙。")])
    talk(app, 13)
    app.ask("灯塔项目由哪个小组负责？", "不知道。")
    engine.sync.close()
    found = told(url, "会话", "--turn", "14")[0]["brought_in"]
    assert found["equal"] or found["problems"]
    best = found["brought_in"][0]
    assert ASKED[1][:12] in best["text"]
    assert best["score"] == pytest.approx(sum(best["features"].values()))
    assert best["features"]["words"] > 0
    assert any("灯塔项目" in word for word in best["words"])
    text = ce("report", "会话", "--store", url, "--turn", "14", columns=columns).stdout
    assert "own words" in text
    assert "灯塔项目" in text
    assert max(map(cell_len, text.splitlines())) <= columns


def test_the_parts_of_a_score_are_the_score() -> None:
    index = LexicalIndex()
    texts = ("We adopted bees on 8 May 2023.", "Really? 蜜蜂", "Three of them, Ann.", "Roses too.")
    for n, each in enumerate(texts):
        index.add(n, each, speaker="Ann" if n % 2 else "Bob", at="2023-05-08T10:00:00Z")
    query = "When did Ann adopt bees, how many 蜜蜂?"
    hits = index.search(query, limit=4)
    assert hits
    for n, score in hits:
        parts = index.explain(query, n)
        assert sum(parts.values()) == pytest.approx(score, rel=0.1)
    assert index.explain(query, 9) == {}
