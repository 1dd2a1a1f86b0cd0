"""`ce compare`: recorded calls by framework, model, agent, session or A/B tag."""

from __future__ import annotations

import csv
import html
import io
import json
import os
import re
import stat
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ce_engine.schema.document import (
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    ModelUsage,
    ToolCall,
    ToolProvider,
)
from ce_engine.schema.enums import (
    EvidenceType,
    ModelUsageStage,
    ProviderKind,
    SourceKind,
    ToolCallStatus,
    TurnStatus,
)
from ce_engine.schema.rows import (
    AppendModelUsage,
    AppendToolCalls,
    EvidenceRow,
    PutEvidence,
    ToolCallRow,
)
from tests.hosts.cli_host import ce, url_of
from tests.hosts.compare_host import Told, put, talk


@pytest.fixture(params=["ce.db", "folder"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(tmp_path / request.param)


def compared(url: str, *args: str) -> dict[str, Any]:
    done = ce("compare", "--json", "--store", url, *args)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.req("A-23", "A-31")
@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("framework", {"crewai", "haystack"}),
        ("session", {"one", "二"}),
        ("model", {"model-1"}),
        ("tag:variant", {"a", "乙"}),
        ("tag:nothing", {""}),
    ],
)
def test_calls_of_the_engine_are_grouped(url: str, by: str, names: set[str]) -> None:
    talk(url, "one", "crewai", "a")
    talk(url, "二", "haystack", "乙")
    found = compared(url, "--by", by)
    assert set(found["groups"]) == names
    assert found["total"]["calls"] == 4
    for figures in found["groups"].values():
        share = 4 // figures["calls"]
        assert figures["tool_calls"] * share == 4
        assert figures["tool_errors"] * share == 2
        assert figures["completion_tokens"] * share == 22
        assert figures["provider_cached"] * share == 64
        assert figures["redactions"] * share >= 2
        assert figures["tokens_sent"] == figures["tokens_before"] > 0  # there was room
        assert figures["evidence_used"] > 0
        assert figures["latency_ms"]["p50"] == 30
        assert figures["first_token_ms"] == {"p50": 9, "p95": 9, "n": figures["calls"] // 2}


def test_the_figures_add_up(url: str) -> None:
    reports = {
        "dropped": 3,
        "injected_evidence_ids": ["e1", "e2"],
        "degradations": ["CONTEXT_RENDER_FAILED: e1", "CONTEXT_RENDER_FAILED: e2"],
        "over_budget": True,
        "redactions": [{"evidence_id": "e1", "rules_applied": ["mail"], "fields_redacted": 2}],
    }
    failed = Told(status=TurnStatus.FAILED, prompt=0, completion=0, latency_ms=0, prefix=None)
    put(url, "s", [Told(report=reports), Told(report=reports, latency_ms=40), failed])
    figures = compared(url)["groups"]["acme"]
    wanted = {
        "calls": 3,
        "sessions": 1,
        "failed": 1,
        "tokens_sent": 300,
        "tokens_before": 1200,
        "tokens_saved": 900,
        "cached_prefix": 80,
        "usage_told": 2,
        "pruned": 2,
        "left_out": 6,
        "over_budget": 2,
        "evidence_used": 2,
        "redactions": 1,
        "degradations": 2,
        "degradation_codes": {"CONTEXT_RENDER_FAILED": 2},
        "latency_ms": {"p50": 20, "p95": 40, "n": 2},
        "first_token_ms": None,
        "cost": None,
    }
    assert {name: figures[name] for name in wanted} == wanted


def test_calls_that_were_left_are_told_apart_from_failed_ones(url: str) -> None:
    ends = (TurnStatus.INCOMPLETE, TurnStatus.ABANDONED, TurnStatus.OPEN, TurnStatus.FAILED)
    put(url, "s", [Told(status=status) for status in ends])
    total = compared(url)["total"]
    assert (total["failed"], total["unfinished"]) == (1, 3)
    lines = ce("compare", "--store", url).stdout.splitlines()
    assert any(line.split() == ["unfinished", "3"] for line in lines)


def test_percentiles_are_values_that_were_told(url: str) -> None:
    put(url, "s", [Told(latency_ms=number) for number in range(1, 101)])
    assert compared(url)["total"]["latency_ms"] == {"p50": 50, "p95": 95, "n": 100}


def test_what_the_engine_asked_itself_is_its_own_and_counts(url: str) -> None:
    usage = ModelUsage(
        model_usage_id="own",
        provider="p",
        model="m-1",
        stage=ModelUsageStage.SUMMARIZE,
        prompt_tokens=70,
    )
    evidence = Evidence(
        evidence_id="e",
        type=EvidenceType.LLM_OUTPUT,
        source=EvidenceSource(kind=SourceKind.LLM),
        metadata={"created_at": "2026-11-21T00:00:00.000Z"},
        links=EvidenceLinks(model_usage_id="own"),
    )
    put(url, "s", [Told()], more=[AppendModelUsage([usage]), PutEvidence(EvidenceRow(evidence))])
    found = compared(url, "--by", "agent")["groups"]
    assert set(found) == {"planner", "(engine's own)"}
    assert found["(engine's own)"]["tokens_sent"] == 70
    assert found["(engine's own)"]["tokens_saved"] == -70
    assert compared(url)["groups"]["acme"]["calls"] == 2  # the session has no other framework
    assert compared(url, "--since", "2026-11-21")["total"]["tokens_sent"] == 70


def test_what_the_app_s_cache_answered_was_not_sent(url: str) -> None:
    put(url, "s", [Told(params={"cached": True}, prompt=0, completion=0), Told()])
    total = compared(url)["total"]
    assert (total["calls"], total["from_cache"]) == (2, 1)
    assert (total["tokens_sent"], total["tokens_before"]) == (100, 400)
    assert "1 calls were answered from the app's own cache" in ce("compare", "--store", url).stdout


def test_a_retrieval_is_of_the_call_that_it_was_made_for(url: str) -> None:
    calls = [
        Told(agent="one", at="2026-11-20T10:00:00.000Z"),
        Told(agent="two", at="2026-11-20T11:00:00.000Z"),
    ]
    times = ("2026-11-20T09:59:59.000Z", "2026-11-20T10:30:00.000Z", "2026-11-20T12:00:00.000Z")
    rows = [
        ToolCallRow(
            ToolCall(
                tool_call_id=f"run-{n}",
                tool="shelf",
                provider=ToolProvider(kind=ProviderKind.BUILTIN),
                called_at=at,
                status=ToolCallStatus.ERROR if n else ToolCallStatus.SUCCESS,
            )
        )
        for n, at in enumerate(times)
    ]
    put(url, "s", calls, more=[AppendToolCalls(rows)])
    found = compared(url, "--by", "agent")["groups"]
    told = {name: (f["tool_calls"], f["tool_errors"]) for name, f in found.items()}
    assert told == {"one": (1, 0), "two": (2, 2)}


def test_two_users_may_have_a_session_of_one_name(url: str) -> None:
    put(url, "s", [Told()], user_id="a")
    put(url, "s", [Told()], user_id="b")
    assert compared(url)["total"]["sessions"] == 2
    assert compared(url, "--user", "a")["total"]["calls"] == 1
    assert compared(url, "--user", "a", "s")["total"]["calls"] == 1
    assert ce("compare", "s", "--store", url).exit_code == 1  # whose?


def test_only_some_sessions_and_times(url: str) -> None:
    put(url, "one", [Told(at="2026-11-20T10:00:00.000Z"), Told(at="2026-11-21T10:00:00.000Z")])
    put(url, "two", [Told(at="2026-11-22T10:00:00.000Z")])
    assert compared(url, "two")["total"]["calls"] == 1
    assert compared(url, "--since", "2026-11-21")["total"]["calls"] == 2
    assert compared(url, "--until", "2026-11-21T12:00+02:00")["total"]["calls"] == 1
    assert compared(url, "--since", "2026-11-21", "--until", "2026-11-22")["total"]["calls"] == 1
    hours = (datetime.now(UTC) - datetime(2026, 11, 20, tzinfo=UTC)) // timedelta(hours=1)
    assert compared(url, "--since", f"{hours + 24}h")["total"]["calls"] == 3
    assert "'nobody'" in ce("compare", "nobody", "--store", url).stderr


PRICES = """
currency = "CNY"
per = 1000
[models."m-1"]
input = 1.0
cached = 0.1
output = 4.0
[models."m-2*"]
input = 2.0
output = 2.0
"""


@pytest.fixture
def prices(tmp_path: Path) -> str:
    path = tmp_path / "价格.toml"
    path.write_text(PRICES, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("call", "cost"),
    [
        # The provider's prompt has 90 tokens where we counted 100, so 36 of them are the prefix of 40.
        (Told(), (54 * 1.0 + 36 * 0.1 + 10 * 4.0) / 1000),
        (Told(params={"cached_tokens": 60}), (30 * 1.0 + 60 * 0.1 + 10 * 4.0) / 1000),
        (Told(params={"cache_read": 0}), (90 * 1.0 + 10 * 4.0) / 1000),
        (Told(prefix=None), (90 * 1.0 + 10 * 4.0) / 1000),
        (Told(params={"estimated": True}), (60 * 1.0 + 40 * 0.1 + 10 * 4.0) / 1000),
        (Told(model="m-2-2026"), (90 * 2.0 + 10 * 2.0) / 1000),
        (Told(params={"cached": True}), 0.0),
        (Told(status=TurnStatus.FAILED, prompt=0, completion=0), 0.0),
    ],
)
def test_the_cost_has_the_cached_prefix_apart(
    url: str, prices: str, call: Told, cost: float
) -> None:
    put(url, "s", [call])
    found = compared(url, "--prices", prices)
    assert found["currency"] == "CNY"
    told = found["total"]["cost"]
    assert told == {"amount": pytest.approx(cost), "unpriced": 0, "unpriced_models": []}


def test_a_model_without_a_price_has_no_cost(url: str, prices: str) -> None:
    put(url, "s", [Told(), Told(model="神秘"), Told(model="神秘")])
    found = compared(url, "--prices", prices, "--by", "model")
    assert found["groups"]["神秘"]["cost"]["unpriced"] == 2
    assert found["total"]["cost"]["unpriced_models"] == ["神秘"]
    text = ce("compare", "--by", "model", "--prices", prices, "--store", url, columns=120).stdout
    (line,) = (line for line in text.splitlines() if line.lstrip().startswith("billed "))
    assert re.fullmatch(r" *billed +0\.0976 CNY +- +0\.0976 CNY \+ 2 unpriced *", line)
    assert "2 calls have no price: 神秘" in text


def test_a_model_that_nobody_named_is_said_to_have_no_name(url: str, prices: str) -> None:
    put(url, "s", [Told(), Told(model="")])
    text = ce("compare", "--prices", prices, "--store", url, columns=120).stdout
    assert "have no price: a model that the framework did not name" in text


def test_a_json_table_and_what_is_wrong_with_others(url: str, tmp_path: Path) -> None:
    put(url, "s", [Told()])
    good = tmp_path / "p.json"
    good.write_text(json.dumps({"models": {"*": {"input": 1, "output": 1}}}))
    assert compared(url, "--prices", str(good))["total"]["cost"]["amount"] == pytest.approx(1e-4)
    for text, what in [
        ("[models.m]\ninput = -1\noutput = 0", "models.m.input"),
        ("[models.m]\ninput = 1", "models.m.output"),
        ("[models]", "models"),
        ("models = ", "Invalid value"),
    ]:
        bad = tmp_path / "bad.toml"
        bad.write_text(text)
        done = ce("compare", "--store", url, "--prices", str(bad))
        assert done.exit_code == 1
        assert what in done.stderr
        assert "gpt-4o-mini" in done.stderr  # what one looks like
    assert ce("compare", "--store", url, "--prices", str(tmp_path / "none.toml")).exit_code == 1


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["--by", "colour"], "tag:NAME"),
        (["--by", "tag:"], "tag:NAME"),
        (["--since", "yesterday"], "2026-11-23T14:30Z"),
        (["--csv", "--json"], "Choose one"),
        (["--html", "/no/such/folder/x.html"], "cannot be written"),
    ],
)
def test_wrong_options_are_told_with_a_cure(tmp_path: Path, args: list[str], what: str) -> None:
    put(url := url_of(tmp_path / "ce.db"), "s", [Told()])
    done = ce("compare", "--store", url, *args)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert what in done.stderr


def test_the_page_is_a_new_file_of_its_owner_alone(tmp_path: Path) -> None:
    put(url := url_of(tmp_path / "ce.db"), "s", [Told()])
    page = tmp_path / "page.html"
    assert ce("compare", "--store", url, "--html", str(page)).exit_code == 0
    if os.name == "posix":
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
    other = tmp_path / "other"
    other.write_text("mine", encoding="utf-8")
    for there, text in ((page, page.read_text("utf-8")), (tmp_path / "link.html", "mine")):
        if there != page:
            there.symlink_to(other)
        done = ce("compare", "--store", "sqlite:///none.db", "--html", str(there))
        assert done.exit_code == 1
        assert "is there already" in done.stderr  # before anything is read
        assert there.read_text("utf-8") == text


def test_no_calls_are_said_to_be_none(tmp_path: Path) -> None:
    put(url := url_of(tmp_path / "ce.db"), "s", [Told()])
    assert "no calls" in ce("compare", "--since", "2030-01-01", "--store", url).stdout
    assert compared(url, "--since", "2030-01-01")["groups"] == {}
    page = tmp_path / "none.html"
    assert (
        ce("compare", "--until", "2000-01-01", "--store", url, "--html", str(page)).exit_code == 0
    )
    assert "0 calls" in page.read_text("utf-8")


def test_the_csv_has_a_row_a_group_and_no_formulas(url: str) -> None:
    put(url, "s", [Told(agent="=HYPERLINK(1)"), Told(agent='规划, "者"\n'), Told()])
    text = ce("compare", "--by", "agent", "--csv", "--store", url).stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["agent"] for row in rows] == ["'=HYPERLINK(1)", "planner", '规划, "者"\n']
    assert {row["tokens_saved"] for row in rows} == {"300"}
    assert {row["latency_ms_p95"] for row in rows} == {"20"}


def test_many_groups_stand_below_each_other_and_none_is_lost(url: str) -> None:
    names = [f"代理 {number:02}" for number in range(30)]
    put(url, "s", [Told(agent=name) for name in names])
    text = ce("compare", "--by", "agent", "--store", url, columns=80).stdout
    assert all(name in text for name in names)
    assert all(len(line) <= 80 for line in text.splitlines())


HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(1)>\u202e{{7*7}}\x1b[31m"


class Tags(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_is_one_file_and_stored_text_is_text(tmp_path: Path, prices: str) -> None:
    url = url_of(tmp_path / "ce.db")
    put(url, "s", [Told(agent=HOSTILE, model=HOSTILE), Told(agent="规划者"), Told(agent="")])
    page = tmp_path / "page.html"
    done = ce("compare", "--by", "agent", "--store", url, "--prices", prices, "--html", str(page))
    assert done.exit_code == 0
    text = page.read_text("utf-8")
    tags = Tags(text).found
    assert {tag for tag, _ in tags} & {"script", "img", "link", "iframe", "object", "a"} == set()
    assert not any(name in attrs for _, attrs in tags for name in ("src", "href", "onerror"))
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    assert html.escape("<img src=x onerror=alert(1)>") in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "规划者" in text
    assert "(none)" in text
    assert "prefers-color-scheme: dark" in text


@pytest.mark.req("A-23")
def test_the_page_shows_each_group_and_its_figures(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ce.db")
    put(url, "s", [Told(framework="crewai"), Told(framework="haystack", before=50, sent=80)])
    page = tmp_path / "page.html"
    ce("compare", "--store", url, "--html", str(page))
    text = page.read_text("utf-8")
    assert text.count("<bdi>crewai</bdi>") >= 4  # a bar in each panel, a column of the table
    assert "100 of 400 · 75.0% saved" in text
    assert "80 of 50 · 60.0% more than without us" in text
    assert "Billed" not in text  # nobody gave prices
    assert "in units" in text
    put(url, "large", [Told(sent=1_300, before=3_400_000)])
    page.unlink()
    ce("compare", "large", "--store", url, "--html", str(page))
    assert "1.30k of 3.40M" in page.read_text("utf-8")  # one under another, they are as long
    other = tmp_path / "many.html"
    put(url, "many", [Told(agent=f"agent-{number:03}", sent=number) for number in range(40)])
    ce("compare", "many", "--by", "agent", "--store", url, "--html", str(other))
    assert "agent-039" in other.read_text("utf-8")
    assert "16 groups with fewer tokens" in other.read_text("utf-8")
