"""What people asked the page of a session in which things went wrong, and did not find."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from starlette.testclient import TestClient

from ce_engine import (
    BudgetConfig,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.apps.present.language import languages
from ce_engine.apps.web.links import costs_url
from ce_engine.schema.enums import TurnStatus
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user
from tests.hosts.cli_host import ce, url_of
from tests.hosts.compare_host import Told, put
from tests.unit.apps.web.visiting import plain, read, visit


SCOPE = Scope(session_id="shop", user_id="ana")
WHO = {"id": SCOPE.session_id, "user": SCOPE.user_id}
TICKET = "For project Blue Heron our ticket is ZX-48213, see the board."


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A ticket that is told of (1), lookups with long results, two mail addresses (9), and a question for the ticket."""
    found = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    config = RuntimeConfig(
        budget=BudgetConfig(max_input_tokens=900, reserved_reply_tokens=0),
        store=StoreConfig(deadline_s=30),
        tool_results="compact",
    )
    engine = create_context_engine(found, config=config)
    engine.sync.check()
    app = HostApp(engine, SCOPE, [system("You help.")])
    app.ask(TICKET, "Noted.")
    for n in range(2):
        asked = app.prepare(user(f"What does shelf {n} hold?"))
        app.commit(asked, tool_calls((f"c{n}", "stocktake", {"shelf": n})))
        text = f"Shelf {n} holds boxes of lamps and screws. " * 12
        asked = app.prepare(tool_result(f"c{n}", text), new_request=False)
        for step in range(3 * n):  # which say the same
            app.commit(asked, tool_calls((f"c{n}-{step}", "recount", {"shelf": n})))
            result = tool_result(f"c{n}-{step}", text)
            asked = app.prepare(result, new_request=False)
        app.commit(asked, assistant(f"Shelf {n} holds lamps."))
    app.ask("Write to jane.doe@example.com and bob@example.com.", "I did.")
    app.ask("Which is our ticket of Blue Heron?", "It is ZX-48213.")
    engine.sync.close()
    return found


def test_a_call_that_went_wrong_in_three_ways_counts_once(tmp_path: Path) -> None:
    found = url_of(tmp_path / "ce.db")
    bad = {"over_budget": True, "degradations": ["CONTEXT_BUDGET_EXCEEDED", "CONTEXT_PRUNE_FAILED"]}
    put(found, "s", [Told(), Told(status=TurnStatus.FAILED, report=bad), Told(report=bad)])
    with visit(found) as client:
        html = read(client, "/compare")
    assert re.search(r"\b2 calls went wrong: failed, .* each counts once", plain(html))


def test_a_tool_is_found_by_its_name(pages: TestClient) -> None:
    part = pages.get("/session/find", params={**WHO, "find": "Stocktake"}).text
    text = plain(part)
    assert "stocktake (shelf=0)" in text
    assert "stocktake (shelf=1)" in text
    turns = {int(n) for n in re.findall(r'data-row href="/turn\?[^"]*turn=(\d+)', part)}
    assert {2, 4} <= turns
    assert "No message, no tool" in plain(
        pages.get("/session/find", params={**WHO, "find": "forklift"}).text
    )


def test_where_a_whole_text_stands_nowhere_its_words_are_offered(pages: TestClient) -> None:
    part = pages.get("/session/find", params={**WHO, "find": "stocktake ZX-48213"}).text
    assert "It is looked for as one text. Its words: stocktake ZX-48213" in plain(part)
    ways = re.findall(r'href="/session\?([^"#]*)#find"', part)
    words = [parse_qs(unescape(way))["find"] for way in ways]
    assert words[:2] == [["stocktake"], ["ZX-48213"]]
    for [word] in words[:2]:
        assert " hit" in plain(pages.get("/session/find", params={**WHO, "find": word}).text)
    alone = plain(pages.get("/session/find", params={**WHO, "find": "forklift"}).text)
    assert "as one text" not in alone


def test_an_answer_that_rests_on_what_somebody_said_says_so_in_their_words(
    pages: TestClient,
) -> None:
    html = pages.get("/turn", params={**WHO, "turn": "10"}).text
    address = re.search(r'href="(/trace\?[^"]*)">what its answer rests on', html)
    assert address is not None
    traced = plain(pages.get(address[1].replace("&amp;", "&")).text)
    told = traced.partition("It has the words of what people said")[2]
    assert TICKET in told
    assert "asked in turn 1" in told
    assert "What does shelf" not in told
    other = pages.get("/turn", params={**WHO, "turn": "9"}).text
    address = re.search(r'href="(/trace\?[^"]*)">what its answer rests on', other)
    assert address is not None
    assert "what people said" not in plain(pages.get(address[1].replace("&amp;", "&")).text)


def test_where_something_was_redacted_or_shortened_is_listed_without_a_text(
    pages: TestClient,
) -> None:
    html = pages.get("/session", params=WHO).text
    spots = [
        plain(each) for each in re.findall(r'<details class="spots">.*?</details>', html, re.DOTALL)
    ]
    [redacted] = [each for each in spots if "redacted" in each]
    assert redacted.startswith("2 places redacted in turn 9 (×2)")
    [shortened] = [each for each in spots if "shortened in" in each]
    told = re.match(r"tool results shortened in (\d+) turns? in turns? ([\d, (×)]+)", shortened)
    assert told is not None
    assert len(told[2].split(",")) == int(told[1])
    assert "The same result went out before: a reference stands for it." in shortened
    assert not any("Shelf" in each or "example" in each for each in spots)
    assert re.search(r'<details class="spots">.*?href="/turn\?[^"]*turn=9"', html, re.DOTALL)


def test_dearer_says_what_a_cached_token_is_taken_to_cost(tmp_path: Path) -> None:
    found = url_of(tmp_path / "ce.db")
    put(found, "s", [Told(sent=900, before=400, prefix=0), Told(sent=900, before=400, prefix=100)])
    taken = "[if a cached token costs 10 % of a new one]"
    text = " ".join(ce("report", "s", "--store", found).stdout.split())
    assert re.search(r"DEARER than without us: .*" + re.escape(taken), text)
    assert "were nothing cached: 1,800 for inputs, 800 without us" in text
    assert taken in " ".join(ce("report", "s", "--turn", "1", "--store", found).stdout.split())
    with visit(found) as client:
        part = plain(client.get(costs_url("", "s")).text)
        assert "DEARER than without us: 1,710 for 710 (+140.8%)" in part
        assert taken in part
        assert "were nothing cached: 1,800 for inputs, 800 without us" in part
        assert taken in plain(client.get("/turn", params={"id": "s", "turn": "2"}).text)


def test_a_search_that_finds_nothing_says_what_to_do_next(pages: TestClient) -> None:
    text = plain(read(pages, "/?q=forklift"))
    assert "No session matches" in text
    assert "looks at ids, users, frameworks, models, tags and first questions" in text
    assert "Where does it stand?" in text
    assert "Take the words away" in text
    assert languages()["zh"]("No session matches") in plain(
        read(pages, "/?q=forklift", **{"accept-language": "zh"})
    )
