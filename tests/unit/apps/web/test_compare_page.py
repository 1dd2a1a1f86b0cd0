"""The charts of `ce compare` in the page."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.testclient import TestClient

from ce_engine.audit.compare.reading import read_calls
from ce_engine.stores import open_store
from tests.hosts.cli_host import url_of
from tests.hosts.compare_host import Told, put
from tests.unit.apps.web.visiting import plain, read, status, texts, visit


def cells(html: str) -> dict[str, list[str]]:
    """The figures of each line."""
    rows = re.findall(r'<tr><th scope="row">([^<]*)(.*?)</tr>', html, re.DOTALL)
    return {title: texts(rest, "td") for title, rest in rows}


def test_calls_stand_side_by_side(many_pages: TestClient) -> None:
    html = read(many_pages, "/compare")
    assert status(html).startswith("6 calls · 6 sessions · ")
    heads = [head for head in texts(html, "th") if head in ("autogen", "langchain", "all")]
    assert heads == ["autogen", "langchain", "all"]
    assert cells(html)["calls"] == ["2", "4", "6"]
    assert "<svg" in html


def test_other_groupings_and_choices(many_pages: TestClient) -> None:
    html = read(many_pages, "/compare?by=model")
    assert cells(html)["calls"] == ["4", "2", "6"]
    assert cells(read(many_pages, "/compare?by=session&user=ana"))["calls"] == ["1", "1", "1", "3"]
    assert cells(read(many_pages, "/compare?framework=autogen"))["calls"] == ["2"]
    assert "No calls to compare" in read(many_pages, "/compare?until=2001-01-01")


def test_what_nothing_is_grouped_by_is_told(many_pages: TestClient) -> None:
    answer = many_pages.get("/compare?by=weather")
    assert answer.status_code == 400
    assert "weather" in answer.text
    assert "but by framework" in answer.text


async def test_the_figures_are_those_of_the_command(talk_url: str) -> None:
    store = open_store(talk_url)
    calls = await read_calls(store, await store.list_sessions(account_id="acme", user_id=None))
    await store.close()
    with visit(talk_url, account="acme") as client:
        html = read(client, "/compare")
    assert cells(html)["tokens sent"] == [f"{sum(call.sent for call in calls):,}"]
    assert cells(html)["evidence used"] == [str(len({e for call in calls for e in call.evidence}))]


def test_it_is_in_chinese_too(many_pages: TestClient) -> None:
    html = read(many_pages, "/compare", **{"accept-language": "zh"})
    assert cells(html)["调用"] == ["2", "4", "6"]
    assert "Tokens of all calls" not in html


def test_the_tag_that_says_the_framework_is_no_choice_beside_the_framework(
    many_pages: TestClient,
) -> None:
    html = read(many_pages, "/compare")
    assert 'value="framework"' in html
    assert "tag:framework" not in html
    assert "framework=langchain" not in html + read(many_pages, "/")


EXACT = {"estimator": "tiktoken o200k_base (exact)"}
BOUND = {"estimator": "tiktoken o200k_base + 20 % (upper bound)"}


def test_groups_that_are_counted_in_other_ways_say_so_beside_their_bars(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ce.db")
    put(url, "s", [Told("acme", report=EXACT)])
    put(url, "t", [Told("blue", report=BOUND)])
    with visit(url) as client:
        html = read(client, "/compare")
        groups = [plain(f"<div{group}") for group in html.split('<div class="group"')[1:]]
        alike = read(client, "/compare?framework=acme")
    counted = [group for group in groups if "tokens counted by" in group]
    assert any("acme" in group and "(exact)" in group for group in counted)
    assert any("blue" in group and "(upper bound)" in group for group in counted)
    assert "tokens counted by" not in alike


def test_a_model_that_nobody_named_is_told_as_that(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ce.db")
    put(url, "s", [Told(model=""), Told(model="gpt-4o-mini")])
    with visit(url) as client:
        text = plain(read(client, "/compare"))
        chinese = plain(read(client, "/compare", **{"accept-language": "zh"}))
    assert "a model that the framework did not name" in text
    assert "(none)" not in text
    assert "框架没有说明的模型" in chinese
