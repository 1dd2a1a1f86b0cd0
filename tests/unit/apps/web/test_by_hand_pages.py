"""The pages of a talk by hand: each figure is told once, and says the same wherever it stands."""

from __future__ import annotations

import json
import re

import pytest
from starlette.testclient import TestClient

from ce_engine.apps.web.links import costs_url, session_url
from tests.hosts.cli_host import ce, url_of
from tests.hosts.shop_host import INVOICE, SHOP, Shop, shop_engine
from tests.unit.apps.web.visiting import plain, texts


WHO = {"id": SHOP.session_id, "user": SHOP.user_id}
TURNS = 32


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = url_of(tmp_path_factory.mktemp("shop") / "ce.db")
    engine = shop_engine(found)
    engine.sync.check()
    Shop(engine).talk(28)
    engine.sync.close()
    return found


def test_what_if_shows_the_other_input_in_its_order(pages: TestClient) -> None:
    part = pages.get("/turn/what-if", params={**WHO, "turn": "30", "window": "9000"}).text
    order = part.split('class="order"')[1].split("</ol>")[0]
    items = [plain(item) for item in re.findall(r"<li.*?</li>", order, re.DOTALL)]
    assert "[Constraints" in items[0]
    assert INVOICE in items[1]
    questions = [n for n, item in enumerate(items) if item.startswith("user")]
    assert len(questions) > 20
    assert questions == sorted(questions)


def test_no_turn_counts_fewer_than_no_messages(url: str, pages: TestClient) -> None:
    """What is stored is shortened, too: it is none of those that the app gave with the question."""
    engine = shop_engine(url)
    reports = engine.sync.list_reports(SHOP)
    engine.sync.close()
    assert any(report.shortened and report.restored for report in reports)
    assert {report.dropped for report in reports} == {0}
    for turn in (14, TURNS):
        text = plain(pages.get("/turn", params={**WHO, "turn": str(turn)}).text)
        report = reports[turn - 1]
        told = f"{report.messages_sent} sent: 2 of the 2 that the app gave, {report.restored} brought back whole"
        assert told in text
    lines = ce("report", SHOP.session_id, "--store", url, columns=200).stdout.splitlines()
    assert {line.split()[1] for line in lines if re.match(r" +\d+ +\d", line)} == {"2/2", "4/4"}


def table_of(html: str) -> list[dict[str, str]]:
    """The table of turns, a row a turn, by the first words of its heads."""
    part = html.split('id="turns"')[1]
    heads = [head.removesuffix(" ↓") for head in texts(part, "th")]
    rows = re.findall(r"<tr>(?!\s*<th)(.*?)</tr>", part, re.DOTALL)
    return [dict(zip(heads, texts(row, "td"), strict=True)) for row in rows]


def test_the_table_of_turns_has_their_costs_and_is_sorted_by_them(
    url: str, pages: TestClient
) -> None:
    """The page opens without them; they are those of `ce report`."""
    page = pages.get(session_url(SHOP.user_id, SHOP.session_id)).text
    assert {row["cost of inputs"] for row in table_of(page)} == {"…"}
    part = pages.get(costs_url(SHOP.user_id, SHOP.session_id)).text
    rows = table_of(part)
    assert [int(row["turn"]) for row in rows] == list(range(1, TURNS + 1))
    found = {row["turn"]: row["cost of inputs (USD)"] for row in rows}
    told = json.loads(ce("report", SHOP.session_id, "--store", url, "--json").stdout)
    assert found == {str(turn["turn"]): f"{turn['cost']['sent']:.6f}" for turn in told}
    assert {row["rules"] for row in rows} == {str(told[0]["report"]["payload_tokens"]["rules"])}
    orders = {
        "cost": lambda turn: turn["cost"]["sent"],
        "tokens": lambda turn: turn["report"]["token_used"],
        "effect": lambda turn: turn["cost"]["sent"] - turn["cost"]["untouched"],
    }
    for order, key in orders.items():
        part = pages.get(costs_url(SHOP.user_id, SHOP.session_id, order=order)).text
        wanted = [turn["turn"] for turn in sorted(told, key=key, reverse=True)]
        assert [int(row["turn"]) for row in table_of(part)] == wanted, order
        assert 'aria-sort="descending"' in part


def test_the_table_of_a_trace_names_answers_by_turn_and_first_words(pages: TestClient) -> None:
    page = pages.get("/turn", params={**WHO, "turn": "10"}).text
    evidence = re.search(r'href="(/evidence[^"]*)"', page)
    assert evidence is not None
    html = pages.get(evidence[1].replace("&amp;", "&")).text
    readers = re.findall(r'class="readers">(.*?)</ul>', html, re.DOTALL)
    assert readers
    for each in texts("".join(readers), "li"):
        assert re.match(r"turn \d+ \S+", each), each
