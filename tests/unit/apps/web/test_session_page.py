"""The page of a session: its turns as a picture and a table, what they cost, and where a word stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from ce_engine import EvidenceSource, EvidenceType, SourceKind, create_context_engine
from ce_engine.apps.web.links import session_url
from ce_engine.apps.web.pages.session import ROWS
from ce_engine.schema.rows import PutTurn, TurnRow
from ce_engine.schema.scope import Scope
from tests.hosts.cli_host import TALK, ce, url_of
from tests.unit.apps.web.hostile import RAW, SCOPE, fill_hostile
from tests.unit.apps.web.visiting import plain, texts, visit


PAGE = session_url(TALK.user_id, TALK.session_id)
WHO = {"id": TALK.session_id, "user": TALK.user_id}


@pytest.fixture(scope="module")
def hostile_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fill_hostile(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def hostile_pages(hostile_url: str) -> Iterator[TestClient]:
    with visit(hostile_url) as client:
        yield client


def columns(html: str) -> dict[str, Any]:
    """What the picture's script reads."""
    found = re.search(r'id="timeline-data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    read: dict[str, Any] = json.loads(found[1])
    return read


def test_the_page_says_what_the_report_says(talk_pages: TestClient, talk_url: str) -> None:
    told = json.loads(
        ce("report", TALK.session_id, "--store", talk_url, "--account", "acme", "--json").stdout
    )
    html = talk_pages.get(PAGE).text
    found = columns(html)
    assert found["used"] == [turn["report"]["token_used"] for turn in told]
    assert found["turns"] == [turn["turn"] for turn in told]
    cells = texts(html, "td")
    assert f"{told[-1]['report']['token_used']:,}" in cells
    left_out = f"{told[-1]['report']['dropped']:,} / {told[-1]['report']['messages_in']:,}"
    assert any(cell == left_out or cell.endswith(f" {left_out}") for cell in cells)
    part = talk_pages.get("/session/costs", params=WHO).text
    assert f"{sum(found['used']):,}" in texts(part, "b")


def test_every_turn_has_its_link(talk_pages: TestClient) -> None:
    html = talk_pages.get(PAGE).text
    links = re.findall(r'data-row href="(/turn\?[^"]*)"', html)
    assert len(links) == len(columns(html)["turns"])
    for link in (links[0], links[-1]):
        assert talk_pages.get(link.replace("&amp;", "&")).status_code == 200


def test_a_turn_says_how_many_more_messages_it_left_out(talk_pages: TestClient) -> None:
    """Where the cut moved, and how far, is seen without subtracting."""
    html = talk_pages.get(PAGE).text
    cells = re.findall(
        r'<td class="number nowrap">(?:<span class="soft small">\+(\d+) </span>)?(?:(\d+) / \d+|–)</td>',
        html,
    )
    more, left_out = ([int(cell[n] or 0) for cell in cells] for n in (0, 1))
    assert any(more)
    assert more == [max(0, after - before) for before, after in pairwise([0, *left_out])]


def test_what_it_cost_comes_in_a_part_of_its_own(talk_pages: TestClient, talk_url: str) -> None:
    part = talk_pages.get("/session/costs", params=WHO).text
    told = ce(
        "report", TALK.session_id, "--store", talk_url, "--account", "acme", columns=400
    ).stdout
    lines = [line for line in texts(part, "dd") if line]
    assert lines
    assert all(line in told for line in lines)


def test_a_word_is_found_with_the_turn_that_it_is_of(talk_pages: TestClient) -> None:
    part = talk_pages.get("/session/find", params={**WHO, "find": "WATER"}).text
    assert "water" in [text.lower() for text in texts(part, "mark")]
    assert "/turn?" in part
    none = talk_pages.get("/session/find", params={**WHO, "find": "zebra"}).text
    assert "never stored" in none
    chinese = talk_pages.get("/session/find", params={**WHO, "find": "天气"}).text
    assert texts(chinese, "mark") == ["天气"]


def test_chinese_is_whole(talk_pages: TestClient) -> None:
    html = talk_pages.get(PAGE, headers={"accept-language": "zh-CN"}).text
    assert '<html lang="zh"' in html
    assert "每一轮发出了什么" in html
    part = talk_pages.get("/session/costs", params=WHO, headers={"accept-language": "zh"}).text
    assert "不用我们" in part


@pytest.mark.parametrize(
    "query",
    [
        {"id": "no-such-session", "user": TALK.user_id},
        {"id": TALK.session_id, "user": "somebody else"},
        {"id": TALK.session_id},
        {},
    ],
)
@pytest.mark.parametrize(
    "path",
    [
        "/session",
        "/session/costs",
        "/session/find",
        "/turn",
        "/turn/what-if",
        "/evidence",
        "/trace",
    ],
)
def test_what_is_anothers_is_not_there(
    talk_pages: TestClient, path: str, query: dict[str, str]
) -> None:
    answer = talk_pages.get(path, params={**query, "turn": "1", "find": "x"})
    assert answer.status_code == 404
    assert "4 度" not in answer.text


def test_a_chosen_user_hides_all_others(talk_url: str) -> None:
    with visit(talk_url, account="acme", user="somebody else") as client:
        assert client.get(PAGE).status_code == 404


def test_a_hostile_session_harms_nothing(hostile_pages: TestClient) -> None:
    who = {"id": SCOPE.session_id, "user": SCOPE.user_id}
    for path, more in (
        ("/session", {}),
        ("/session", {"find": "<script>"}),
        ("/session/find", {"find": "<script>"}),
        ("/session/costs", {}),
        ("/turn", {"turn": "3"}),
        ("/turn", {"turn": "11"}),
        ("/turn", {"turn": "12"}),
        ("/turn", {"turn": "12", "find": "<script>"}),
        ("/turn/what-if", {"turn": "11", "window": "4000"}),
    ):
        answer = hostile_pages.get(path, params={**who, **more})
        assert answer.status_code == 200, (path, more)
        assert len(answer.text) < 1_500_000
        for raw in RAW:
            assert raw not in answer.text, (path, more, raw)
        if path == "/turn":
            assert "&lt;script&gt;alert(1)" in answer.text
        assert not re.search(r'href="\s*javascript:', answer.text)


def test_many_turns_are_one_page_of_a_table_each(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ce.db")
    scope = Scope(session_id="long", user_id="u")
    report = {"stable_prefix_hash": "x", "token_used": 900, "token_budget": 1000}
    engine = create_context_engine(url)
    engine.sync.record_event(scope, "planner", {"step": 1})
    turns = [PutTurn(TurnRow(f"t{n}", report=report)) for n in range(3 * ROWS)]
    engine.loop.run(engine.store.apply(scope, turns))
    engine.sync.close()
    with visit(url) as client:
        first, last, odd = (
            client.get("/session", params={"id": "long", "user": "u", "page": page}).text
            for page in ("1", "3", "x9")
        )
    assert len(columns(first)["turns"]) == 3 * ROWS
    assert first.count("data-row") == last.count("data-row") == odd.count("data-row") == ROWS
    assert f">{3 * ROWS}</a>" in last


def test_what_is_found_says_where_it_went(talk_pages: TestClient) -> None:
    part = talk_pages.get("/session/find", params={**WHO, "find": "rain"}).text
    text = " ".join(re.sub(r"<[^>]*>", " ", part).split())
    assert re.search(r"Where it went, by turns: as a message 3 – \d+ · quoted \d+", text)
    links = re.findall(r'href="(/turn\?[^"]*)"', part)
    assert links
    assert all("find=" in link for link in links)


def test_the_word_stays_in_the_address_and_in_the_links_to_turns(talk_pages: TestClient) -> None:
    part = talk_pages.get("/session/find", params={**WHO, "find": "天气", "lane": ""})
    address = part.headers["hx-replace-url"]
    html = talk_pages.get(address).text
    assert 'value="天气"' in html
    assert all("find=" in link for link in re.findall(r'data-row href="(/turn\?[^"]*)"', html))


def test_a_turn_is_opened_by_its_number(talk_pages: TestClient) -> None:
    html = talk_pages.get(PAGE).text
    form = re.search(r'<form class="go-to" action="/turn">(.*?)</form>', html, re.DOTALL)
    assert form is not None
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form[1]))
    answer = talk_pages.get("/turn", params={**fields, "turn": "3"})
    assert "Turn 3 of" in answer.text


def test_the_search_stands_above_the_picture(talk_pages: TestClient) -> None:
    html = talk_pages.get(PAGE).text
    assert html.index('type="search"') < html.index('class="timeline"')


def test_calls_are_told_apart_from_the_questions_that_they_are_for(talk_pages: TestClient) -> None:
    who = {"id": TALK.session_id, "user": TALK.user_id}
    for address in ("/session", "/session/costs"):
        text = plain(talk_pages.get(address, params=who).text)
        assert "15 turns, each a call of a model, for 14 questions" in text


def test_going_to_a_turn_and_looking_for_a_word_stand_apart(talk_pages: TestClient) -> None:
    who = {"id": TALK.session_id, "user": TALK.user_id}
    html = talk_pages.get("/session", params=who).text
    box = html.partition('id="find-title"')[2].partition("</section>")[0]
    assert 'name="find"' in box
    assert "Go to turn" not in box
    assert 'aria-label="Go to turn"' in html.partition('id="find-title"')[0]


def test_a_question_is_reached_by_its_number_and_the_turn_tells_which_it_is(
    talk_pages: TestClient,
) -> None:
    who = {"id": TALK.session_id, "user": TALK.user_id}
    html = talk_pages.get("/session", params=who).text
    assert re.search(r'to question <input name="question"[^>]* max="14"', html)
    rows = html.split('id="turns"')[1].split("<tbody>")[1]
    asked = [int(n) for n in re.findall(r"</a></td>\s*<td class=\"number\">(\d+)</td>", rows)]
    assert len(asked) == 15
    assert set(asked) == set(range(1, 15))
    twice = next(n for n in range(1, 15) if asked.count(n) == 2)
    first = asked.index(twice) + 1
    text = plain(talk_pages.get("/turn", params={**who, "question": str(twice)}).text)
    assert f"Turn {first} of 15" in text
    assert f"question {twice}, its call 1 of 2" in text
    text = plain(talk_pages.get("/turn", params={**who, "turn": str(first + 1)}).text)
    assert f"question {twice}, its call 2 of 2" in text
    answer = talk_pages.get("/turn", params={**who, "question": "15"})
    assert answer.status_code == 404


def test_where_each_call_is_a_question_nothing_is_said_of_questions(many_pages: TestClient) -> None:
    who = {"id": "chat-1", "user": "ana"}
    assert "to question" not in many_pages.get("/session", params=who).text
    assert many_pages.get("/turn", params={**who, "turn": "1"}).status_code == 200
    assert many_pages.get("/turn", params={**who, "question": "1"}).status_code == 404


def test_a_document_is_found_by_its_name(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ce.db")
    scope = Scope(session_id="office", user_id="ana")
    engine = create_context_engine(url)
    source = EvidenceSource(kind=SourceKind.RAG, name="Code", uri="files/bylaw-2019.md")
    engine.sync.record_evidence(
        scope, "Two places each.", source, EvidenceType.RAG_DOC, metadata={"title": "Parking bylaw"}
    )
    engine.sync.close()
    with visit(url) as client:
        for wanted in ("bylaw-2019", "Parking bylaw"):
            query = {"id": "office", "user": "ana", "find": wanted}
            html = client.get("/session/find", params=query).text
            assert f"<mark>{wanted}</mark>" in html
            assert "/evidence?" in html
