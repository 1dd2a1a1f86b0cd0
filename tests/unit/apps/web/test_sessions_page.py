"""The list of sessions: search, filters, columns, order, pages, and what to do where there is nothing."""

from __future__ import annotations

import contextlib
import re
import shutil
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ce_engine import Report, Scope, create_context_engine, open_store
from ce_engine.schema.report import ConflictRecord
from ce_engine.schema.rows import CreateSession, PutTurn
from ce_engine.stores.urls import local_path
from ce_engine.testing import samples
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import TALK, url_of
from tests.unit.apps.web.visiting import plain, read, sessions_of, status, texts, visit


ALL = [f"chat-{number}" for number in (5, 4, 3, 2, 1, 0)]


def test_sessions_are_there_newest_first(many_pages: TestClient) -> None:
    html = read(many_pages, "/")
    assert sessions_of(html) == ALL
    assert status(html) == "6 sessions · compare them"


def test_the_sessions_of_a_list_are_compared_with_one_click(many_pages: TestClient) -> None:
    read(many_pages, "/")
    html = read(many_pages, "/?user=ana&framework=langchain&sort=turns&turned=1")
    [address] = re.findall(r'href="(/compare\?[^"]+)"', html)
    compared = read(many_pages, unescape(address))
    assert "by=session" in address
    assert {"chat-3", "chat-1"} <= set(texts(compared, "th"))
    assert not {"chat-5", "chat-0"} & set(texts(compared, "th"))
    assert "compare them" not in read(many_pages, "/?q=chat-5")


def test_a_line_tells_what_the_calls_of_a_session_tell(talk_pages: TestClient) -> None:
    html = read(talk_pages, "/")
    heads = texts(html, "th")
    assert heads[:2] == ["Session", "User"]
    [row] = texts(html, "tr")[1:]
    assert TALK.session_id in row
    assert "奥斯陆天气如何?" in row  # how it began
    assert "model-1" in row
    cells = dict(zip(heads[1:], texts(html, "td"), strict=False))
    assert cells["Turns"] == "15"
    assert float(cells["Tokens saved"].rstrip("%")) > 0
    assert cells["User"] == "张伟"
    assert cells["Effect on cost"].startswith(("+", "-"))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=Invoice+5%3F", ["chat-5"]),
        ("q=INVOICE%20ana", ["chat-5", "chat-3", "chat-1"]),
        ("q=qwen", ["chat-3", "chat-0"]),
        ("q=nobody", []),
        ("framework=autogen", ["chat-5", "chat-4"]),
        ("user=ana&framework=langchain", ["chat-3", "chat-1"]),
        ("user=-", ["chat-4", "chat-2", "chat-0"]),
        ("model=gpt-4o", ["chat-5", "chat-4", "chat-2", "chat-1"]),
        ("time=1h", ALL),
        ("until=2001-01-01", []),
        ("since=2001-01-01", ALL),
        ("until=9999-12-31", ALL),
        ("until=9999-12-30", ALL),
        ("since=0001-01-01T00:00:00%2B23:59", ALL),
        ("since=9999-12-31T23:59:59-23:59&until=0001-01-01", []),
        ("mark=conflicts", []),
        ("sort=session", ALL[::-1]),
        ("sort=session&turned=1", ALL),
        ("turned=1", ALL[::-1]),
        ("page=99", ALL),
        ("page=x&sort=nothing&mark=nothing&time=nothing", ALL),
    ],
)
def test_a_choice_of_sessions(many_pages: TestClient, query: str, found: list[str]) -> None:
    read(many_pages, "/")
    assert sessions_of(read(many_pages, f"/?{query}")) == found


def test_what_was_chosen_stays_in_the_form_and_in_the_links(many_pages: TestClient) -> None:
    html = read(many_pages, "/?q=invoice&user=ana&mark=failed&sort=turns")
    assert 'name="q" value="invoice"' in html
    assert 'name="user" value="ana"' in html
    assert 'value="failed" checked' in html
    html = read(many_pages, "/?q=chat&user=ana&sort=turns")
    assert "/?q=chat&amp;user=ana&amp;sort=turns&amp;turned=1" in html
    assert 'aria-sort="descending"' in html


def test_htmx_gets_the_list_alone(many_pages: TestClient) -> None:
    html = read(many_pages, "/?q=chat-2", **{"hx-request": "true", "hx-target": "list"})
    assert sessions_of(html) == ["chat-2"]
    assert "<html" not in html


def test_columns_are_chosen_and_stay(many_pages: TestClient) -> None:
    answer = many_pages.get(
        "/preferences?back=/%3Fq%3Dchat&columns=1&column=cost&column=tags&column=nothing"
    )
    assert str(answer.url).endswith("/?q=chat")
    assert texts(answer.text, "th")[:3] == ["Session", "Tags", "Cost of inputs"]
    assert texts(read(many_pages, "/"), "th")[:3] == ["Session", "Tags", "Cost of inputs"]
    html = many_pages.get("/preferences?columns=1").text  # none
    assert texts(html, "th")[0] == "Session"
    assert "Cost" not in texts(html, "th")


async def filled(url: str, sessions: int, *, ephemeral: bool = False) -> None:
    store = open_store(url)
    for number in range(sessions):
        scope = Scope(session_id=f"s-{number:03}")
        await store.apply(
            scope, [CreateSession(b"salt", "key", ephemeral=ephemeral), *samples.message("m")]
        )
    await store.close()


async def test_a_page_has_fifty_of_them(empty_url: str) -> None:
    await filled(empty_url, 120)
    with visit(empty_url) as client:
        first, last = read(client, "/?sort=session"), read(client, "/?sort=session&page=3")
    assert sessions_of(first) == [f"s-{number:03}" for number in range(50)]
    assert sessions_of(last) == [f"s-{number:03}" for number in range(100, 120)]
    assert "101 to 120 of 120" in last
    assert "/?sort=session&amp;page=2" in first


async def test_ephemeral_runs_are_apart(empty_url: str) -> None:
    await filled(empty_url, 3, ephemeral=True)
    with visit(empty_url) as client:
        html = read(client, "/")
        assert sessions_of(html) == []
        assert "/?all=1" in html
        assert len(sessions_of(read(client, "/?all=1"))) == 3


async def test_marks_say_what_deserves_a_look(empty_url: str) -> None:
    store = open_store(empty_url)
    report = Report(
        turn_id="t",
        degradations=["CONTEXT_STORE_UNAVAILABLE"],
        over_budget=True,
        conflicts=[ConflictRecord(evidence_ids=["a", "b"], field_path="total", resolution="both")],
    ).model_dump(mode="json")
    turns = {"bad": samples.turn("t", report=report), "good": samples.turn("u", report={})}
    for name, turn in turns.items():
        await store.apply(Scope(session_id=name), [CreateSession(b"salt", "key"), PutTurn(turn)])
    await store.close()
    with visit(empty_url) as client:
        read(client, "/")
        pages = [
            read(client, f"/?mark={mark}") for mark in ("degraded", "over_budget", "conflicts")
        ]
    assert [sessions_of(html) for html in pages] == [["bad"]] * 3
    assert "the store was unavailable" in pages[0]


def test_an_empty_store_says_how_to_fill_it(empty_url: str) -> None:
    with visit(empty_url) as client:
        html = read(client, "/")
        assert "Nothing is recorded yet" in html
        assert "ce demo" in html
        assert "Waiting for the first turn" in client.get("/live").text
        assert "No calls to compare" in client.get("/compare").text


def test_nothing_that_matches_says_how_to_go_on(many_pages: TestClient) -> None:
    html = read(many_pages, "/?q=nobody")
    assert "No session matches" in html
    assert 'href="/"' in html


def test_what_is_recorded_while_the_page_is_there_appears(empty_url: str) -> None:
    engine = create_context_engine(empty_url)
    with visit(empty_url) as client:
        assert sessions_of(read(client, "/")) == []
        HostApp(engine, Scope(session_id="late")).ask("Are you there?", "Yes.")
        engine.sync.close()
        tries = (sessions_of(read(client, "/")) for _ in range(600))
        assert next(filter(None, tries)) == ["late"]
        assert any("Are you there?" in read(client, "/") for _ in range(600))  # its calls follow


def test_a_look_for_sources_that_disagree_says_which_are_found(many_pages: TestClient) -> None:
    html = read(many_pages, "/?mark=conflicts")
    assert status(html).startswith("0 sessions")
    assert "Prose is not read: two documents may contradict each other" in plain(
        html.partition('id="list"')[2]
    )
    assert "Prose is not read" in html.partition('value="conflicts"')[0].rpartition("title=")[2]
    assert "Prose is not read" not in plain(read(many_pages, "/").partition('id="list"')[2])
    chinese = many_pages.get("/?mark=conflicts", headers={"accept-language": "zh"}).text
    assert "不读取普通文字" in chinese.partition('id="list"')[2]


def test_a_session_that_was_deleted_is_in_no_list_from_then_on(
    many_url: str, tmp_path: Path
) -> None:
    """Whatever else the page's process knows of it; the next full listing is a minute away."""
    for end in ("", ".key"):
        shutil.copy(local_path(many_url + end), tmp_path / f"ce.db{end}")
    url = url_of(tmp_path / "ce.db")
    with visit(url) as client:
        assert sessions_of(read(client, "/")) == ALL
        with contextlib.closing(create_context_engine(url).sync) as engine:
            for name in ("chat-5", "chat-2"):
                user = "ana" if name == "chat-5" else ""
                engine.delete_session(Scope(session_id=name, user_id=user))
        html = read(client, "/")
        assert sessions_of(html) == ["chat-4", "chat-3", "chat-1", "chat-0"]
        assert "invoice 5" not in html
        assert "chat-2" not in read(client, "/beside?id=chat-4&user=&turn=1")
