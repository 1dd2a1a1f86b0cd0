"""Tool calls that were made again: on the session's page, on their results', in the search, and where an old result stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from ce_engine import create_context_engine
from ce_engine.apps.present.repeated_calls import MOST_LINES, MOST_TIMES
from ce_engine.apps.web.links import costs_url, evidence_url, turn_url
from ce_engine.audit.repeated_calls import repeated_calls
from tests.hosts.cli_host import url_of
from tests.hosts.ward_host import SCOPE, SECOND, Ward, small_talk, stock_of
from tests.unit.apps.web.visiting import plain, texts, turn_of, visit


WHO = (SCOPE.user_id, SCOPE.session_id)
QUERY = {"id": SCOPE.session_id, "user": SCOPE.user_id}
PORTAL = {"policy": "PAW-44"}


def ward_at(path: Path, tokens: int = 20_000) -> Ward:
    engine = create_context_engine(url_of(path / "ce.db"))
    engine.sync.check()
    return Ward(engine, tokens)


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    """One call brings the same, one fails first, one brings something else, and one asks for two at a time."""
    made = ward_at(tmp_path_factory.mktemp("store"))
    made.look_up("Who?", "record", '{"name": "Bo"}', "Bo.")
    made.look_up("Covered?", "cover", "no answer", "Later.", args=PORTAL, error=True)
    made.look_up("Stock?", "stock", "31 packs", "Many.", args={"item": "<b>IT-88</b>"})
    made.look_up("Again, who?", "record", '{ "name": "Bo" }', "Bo.")
    made.look_up("Covered now?", "cover", "80 %", "Yes.", args=PORTAL)
    made.look_up("Stock now?", "stock", "7 packs", "Few.", args={"item": "<b>IT-88</b>"})
    made.look_up("Sure?", "cover", "80 %", "Yes.", args=PORTAL)
    lists = [("price_list", {"of": "dental"}, "12"), ("price_list", {"of": "imaging"}, "80")]
    made.call("Prices?", lists, "12 and 80.")
    made.app.engine.sync.flush()
    yield made
    made.app.engine.sync.close()


@pytest.fixture(scope="module")
def pages(ward: Ward) -> Iterator[TestClient]:
    with visit(ward.app.engine.store.url) as client:
        yield client


def card_of(client: TestClient) -> str:
    html = client.get(costs_url(*WHO)).text
    return html[html.index('<details class="calls-again"') :].partition("</details>")[0]


def result_ids(ward: Ward, tool: str) -> list[str]:
    calls = repeated_calls(*ward.stored())
    [call] = [each for each in calls if each.tool == tool]
    return [each.evidence_id or "" for each in call.results]


# The session's page


def test_a_card_names_each_call_with_its_turns_and_what_came_of_it(
    ward: Ward, pages: TestClient
) -> None:
    card = card_of(pages)
    assert texts(card, "summary") == ["called again 3 tool calls with the same arguments"]
    lines = [plain(each) for each in re.findall(r"<li>(.*?)</li>", card, re.DOTALL)]
    assert lines == [
        (
            "stock(item='&lt;b&gt;IT-88&lt;/b&gt;') : turn 5 · turn 11 something else "
            "an older result went out after a newer one: 12 – 16"
        ),
        "record(patient_id='P-1') : turn 1 · turn 7 the same",
        (
            "cover(policy='PAW-44') : turn 3 failed · turn 9 the first result · turn 13 the same "
            "an older result went out after a newer one: 10 – 16"
        ),
    ]
    hrefs = [unescape(href) for href in re.findall(r'href="([^"]*)"', card)]
    first, second = result_ids(ward, "record")
    assert turn_url(*WHO, 7) in hrefs
    assert evidence_url(*WHO, second) in hrefs
    assert first != second


def test_a_session_of_calls_that_were_made_once_has_no_card(tmp_path: Path) -> None:
    ward = ward_at(tmp_path)
    ward.look_up("Who?", "record", "Bo", "Bo.")
    ward.app.engine.sync.flush()
    with visit(ward.app.engine.store.url) as client:
        assert "called again" not in client.get(costs_url(*WHO)).text
    ward.app.engine.sync.close()


def test_a_message_that_only_calls_tools_is_told_by_them_where_a_turn_changed(
    tmp_path: Path,
) -> None:
    ward = ward_at(tmp_path, 600)
    ward.look_up("Prices?", "price_list", "96.00 " * 60, "96.00.", args={"of": "imaging"})
    small_talk(ward, 8)
    ward.app.engine.sync.flush()
    with visit(ward.app.engine.store.url) as client:
        texts = [turn_of(QUERY, client, turn) for turn in range(3, 11)]
    cards = [text.split('id="changes"')[1].split("</section>")[0] for text in texts]
    [left] = [card for card in map(plain, cards) if "price_list" in card and "left out now" in card]
    assert "price_list(of='imaging')" in left
    ward.app.engine.sync.close()


def test_a_card_is_bounded(tmp_path: Path) -> None:
    ward = ward_at(tmp_path, 200_000)
    many = [("poll", {"n": n}, str(n)) for n in range(MOST_LINES + 2)]
    often: list[tuple[str, dict[str, Any], str]] = [("often", {}, "x")] * (MOST_TIMES + 3)
    ward.call("All?", [*many, *often], "So.")
    ward.call("All again?", many, "So.")
    ward.app.engine.sync.flush()
    with visit(ward.app.engine.store.url) as client:
        card = card_of(client)
    ward.app.engine.sync.close()
    assert card.count("<li>") == MOST_LINES
    assert "3 more" in texts(card, "p")
    assert "53 tool calls" in texts(card, "summary")[0]


# The page of a result


def test_a_result_says_where_its_call_was_made_again_and_before(
    ward: Ward, pages: TestClient
) -> None:
    def says(name: str) -> list[tuple[str, str]]:
        html = pages.get(evidence_url(*WHO, name)).text
        links = re.findall(r'<a data-again href="([^"]*)">(.*?)</a>', html)
        return [(unescape(href), text) for href, text in links]

    first, second = result_ids(ward, "record")
    assert says(first) == [(evidence_url(*WHO, second), "asked again in turn 7: the same result")]
    assert says(second) == [(evidence_url(*WHO, first), "asked before in turn 1: the same result")]
    first, second = result_ids(ward, "stock")
    assert says(first) == [(evidence_url(*WHO, second), "asked again in turn 11: another result")]
    broken, cover, sure = result_ids(ward, "cover")
    assert [text for _, text in says(cover)] == [
        "asked before in turn 3: it failed",
        "asked again in turn 13: the same result",
    ]
    assert [text for _, text in says(broken)] == [
        "asked again in turn 9: another result",
        "asked again in turn 13: another result",
    ]
    assert len(says(sure)) == 2
    document, _ = ward.stored()
    others = document.evidences.keys() - {first, second, broken, cover, sure}
    assert not says(next(n for n in others if document.evidences[n].content == "12"))


# A turn's page


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ward, TestClient]]:
    engine = create_context_engine(url_of(tmp_path_factory.mktemp("store") / "ce.db"))
    engine.sync.check()
    made = stock_of(engine)
    engine.sync.flush()
    with visit(engine.store.url) as client:
        yield made, client
    engine.sync.close()


def last_with_the_first_result(ward: Ward) -> int:
    return max(n for n, sent in enumerate(ward.inputs, 1) if "count 31" in sent)


def test_a_result_that_is_older_than_a_later_one_is_marked(
    stock: tuple[Ward, TestClient],
) -> None:
    ward, client = stock
    newer = result_ids(ward, "stock")[1]
    seen = set[str]()
    for turn, sent in enumerate(ward.inputs, 1):
        html = client.get(turn_url(*WHO, turn)).text
        marks = re.findall(r'<a class="chip warn older" href="([^"]*)">(.*?)</a>', html)
        assert bool(marks) == ("count 31" in sent and turn > SECOND), turn
        for href, words in marks:
            assert unescape(href) == evidence_url(*WHO, newer)
            is_here = "here, too" if "7 left" in sent else "not here"
            assert words == f"older than the result of turn {SECOND}, which is {is_here}"
            seen.add(is_here)
    assert seen == {"here, too", "not here"}


def test_the_mark_stands_with_the_row(
    stock: tuple[Ward, TestClient],
) -> None:
    ward, client = stock
    last = last_with_the_first_result(ward)
    html = client.get(turn_url(*WHO, last)).text
    rows = [step for step in html.split('<div class="step is-') if "chip warn older" in step]
    assert all("carprofen" in row for row in rows)
    assert rows
    assert "older than" not in client.get(turn_url(*WHO, 2)).text


def test_the_mark_is_said_in_chinese_too(stock: tuple[Ward, TestClient]) -> None:
    ward, client = stock
    headers = {"accept-language": "zh"}
    html = client.get(turn_url(*WHO, last_with_the_first_result(ward)), headers=headers).text
    assert "older than" not in html
    assert f"比第 {SECOND} 轮的结果旧" in html


# The search


def hits_of(client: TestClient, text: str) -> list[str]:
    html = client.get("/session/find", params={**QUERY, "find": text}).text
    return re.findall(r"<li>.*?</li>", html, re.DOTALL)


def test_each_call_of_a_message_that_has_the_word_is_shown(pages: TestClient) -> None:
    [both] = [plain(hit) for hit in hits_of(pages, "price_list") if "dental" in hit]
    assert "price_list (of=" in both
    assert "'dental'" in both
    assert "'imaging'" in both
    [second] = [plain(hit) for hit in hits_of(pages, "imaging") if "price_list" in hit]
    assert "imaging" in second
    assert "dental" not in second


def test_a_call_is_shown_beside_the_words_of_its_message(tmp_path: Path) -> None:
    ward = ward_at(tmp_path)
    ward.ask("Is it stock?", "Yes.")
    ward.look_up("Is that all of the lot?", "stock", "4", "Stock is 4.", args={"lot": 1})
    ward.app.engine.sync.flush()
    with visit(ward.app.engine.store.url) as client:
        shown = [plain(hit) for hit in hits_of(client, "lot")]
    ward.app.engine.sync.close()
    assert sum("stock( lot =1)" in hit for hit in shown) == 1


def test_on_a_turn_a_call_is_shown_round_what_is_found_in_it(tmp_path: Path) -> None:
    ward = ward_at(tmp_path)
    long_note = {"note": "many words " * 80 + "and the needle at last"}
    ward.call("Write it down.", [("note", {"of": 1}, "ok"), ("note", long_note, "ok")], "Done.")
    ward.app.engine.sync.flush()
    with visit(ward.app.engine.store.url) as client:
        shown = client.get(turn_url(*WHO, 1, find="needle")).text
        given = client.get(turn_url(*WHO, 2, find="needle")).text
        beside = client.get(turn_url(*WHO, 1, find="needle", rest=1)).text
    ward.app.engine.sync.close()
    assert all(texts(html, "mark").count("needle") > 1 for html in (shown, given, beside))


@pytest.mark.parametrize("text", ["no answer", "80 %", "31 packs"])
def test_a_result_is_of_the_turn_that_asked_for_it_failed_or_not(
    ward: Ward, pages: TestClient, text: str
) -> None:
    document, _ = ward.stored()
    found = hits_of(pages, text)
    names = [name for hit in found for name in re.findall(r"evidence=([^\"&]*)", hit)]
    results = [name for name in names if document.evidences[name].content == text]
    assert results
    for name in results:
        page = pages.get(evidence_url(*WHO, name)).text
        table = page.split("The same as a table")[-1]
        [turn] = re.findall(r'<td class="number"><a[^>]*>(\d+)</a>', table)
        own = [hit for hit in found if name in hit]
        assert [re.findall(r">turn (\d+)<", hit)[0] for hit in own] == [turn]
