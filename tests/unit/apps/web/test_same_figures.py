"""What calls cost, with us and without us: one figure says the same wherever it stands."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ce_engine.apps.present.amounts import Amounts
from ce_engine.apps.present.links import usage_words
from ce_engine.apps.web.links import costs_url, session_url, turn_url
from ce_engine.schema.document import ModelUsage
from ce_engine.schema.enums import TurnStatus
from ce_engine.text.tokens.prices import LISTED, RELATIVE
from tests.hosts.cli_host import ce, url_of
from tests.hosts.compare_host import Told, put
from tests.unit.apps.web.visiting import plain, read, sessions_of, texts, visit


APART = {"untouched": None}
"""The report of a call of which nobody can say what it would have been without us."""

# In units: 1 an input token, 0.1 a cached one. Without us: 400 - 40 cached + 4 = 364.
CHEAP = Told(sent=100, prefix=40)  # 60 + 4 = 64
DEAR = Told(
    sent=500, prefix=0, report={"prefix_broken_by": "cut"}
)  # 500, 100 more than 400 uncached
UNKNOWN = Told(sent=300, prefix=0, report=APART)  # 300, in both


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A session that became cheaper with one dearer turn, one that became dearer, and one as it was."""
    found = url_of(tmp_path / "ce.db")
    put(found, "mixed", [CHEAP, CHEAP, UNKNOWN, DEAR, CHEAP])
    put(found, "dear", [DEAR])
    put(found, "same", [Told(sent=400)])
    return found


def tiles(part: str) -> dict[str, str]:
    """The figures of a session by their first words."""
    pairs = re.findall(r'tile[^"]*"><b>(.*?)</b><span>(.*?)</span>', part, re.DOTALL)
    return {
        " ".join(what.split()): " ".join(re.sub(r"<[^>]*>", "", value).split())
        for value, what in pairs
    }


SENT, WITHOUT, CACHED = 3 * 100 + 300 + 500, 4 * 400 + 300, 3 * 40
COST, COST_WITHOUT = 3 * 64 + 300 + 500, 3 * 364 + 300 + 400
SAVED = f"{100 * (WITHOUT - SENT) / WITHOUT:.1f}%"
SHARE = f"{100 * CACHED / SENT:.1f}%"
LESS = f"{100 * (COST_WITHOUT - COST) / COST_WITHOUT:.1f}%"
"""The figures of the session `mixed`."""


def test_the_list_of_sessions_has_them(url: str) -> None:
    columns = "&".join(f"column={name}" for name in "sent saved cached cost without effect".split())
    with visit(url) as client:
        client.get(f"/preferences?columns=1&{columns}")
        html = read(client, "/")
    [row] = [r for r in re.findall(r"<tr data-row>.*?</tr>", html, re.DOTALL) if "mixed" in r]
    costs = [f"{COST:,} units", f"{COST_WITHOUT:,} units"]
    assert texts(row, "td") == [f"{SENT:,}", SAVED, SHARE, *costs, f"-{LESS}"]


def test_the_page_of_the_session_has_them(url: str) -> None:
    with visit(url) as client:
        told = tiles(client.get(costs_url("", "mixed")).text)
    [sent] = [value for caption, value in told.items() if caption.startswith("tokens sent; ")]
    assert sent == f"{SENT:,}"
    assert told[f"tokens saved: {WITHOUT:,} without us"] == SAVED
    assert told["begins like the call before, and may be cached"] == SHARE
    assert (
        told[f"cost of inputs by our own count: {COST_WITHOUT:,} without us"] == f"{COST:,} units"
    )
    assert told["effect on cost"] == f"-{LESS}"


def test_the_comparison_has_them(url: str) -> None:
    with visit(url) as client:
        html = read(client, "/compare?by=session")
    lines = {
        title: texts(rest, "td")[1]  # dear, mixed, same
        for title, rest in re.findall(r'<tr><th scope="row">([^<]*)(.*?)</tr>', html, re.DOTALL)
    }
    wanted = {
        "tokens sent": f"{SENT:,}",
        "tokens without us": f"{WITHOUT:,}",
        "tokens saved": f"{WITHOUT - SENT:,} ({SAVED})",
        "begins alike": f"{CACHED} ({SHARE})",
        "cacheable": f"{CACHED} ({SHARE})",
        "cost of inputs, units": f"{COST:,}",
        "without us, units": f"{COST_WITHOUT:,}",
        "cost saved, units": f"{COST_WITHOUT - COST:,} ({LESS})",
        "effect on cost, in units": f"-{LESS}",
        "not comparable, units": "300",
    }
    assert {title: lines[title] for title in wanted} == wanted


def test_the_commands_have_them(url: str) -> None:
    report = " ".join(ce("report", "mixed", "--store", url, columns=400).stdout.split())
    less = f"saved {WITHOUT - SENT:,} ({SAVED})"
    assert f"{SENT:,} sent, {WITHOUT:,} without us · {less}" in report
    assert f"({SHARE}), and may be" in report
    less = f"saved {COST_WITHOUT - COST:,} ({LESS})"
    assert f"{COST:,} for inputs, {COST_WITHOUT:,} without us · {less}" in report
    table = ce("compare", "--by", "session", "--store", url, columns=200).stdout
    assert re.search(rf"cost of inputs, units +\S+ +{COST:,} ", table)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((0.27517, 0.27637, 1.0380), ["0.2752", "0.2764", "1.0380"]),
        ((1234.5, 99.0), ["1,234.50", "99.00"]),
        ((0.0000123,), ["0.000012"]),
        ((0.0, 2.0), ["0.000", "2.000"]),
        ((), []),
    ],
)
def test_money_has_as_many_places_as_tell_amounts_apart(
    values: tuple[float, ...], shown: list[str]
) -> None:
    amounts = Amounts.of(LISTED, values)
    assert [amounts.bare(value) for value in values] == shown
    assert amounts.text(2.5).endswith(" USD")
    assert Amounts.of(RELATIVE, values).text(2.5) == "2 units"


def test_a_session_that_became_dearer_and_one_with_dearer_turns_are_marked_apart(url: str) -> None:
    with visit(url) as client:
        page = read(client, "/")
        assert sorted(sessions_of(read(client, "/?mark=dearer"))) == ["dear"]
        assert sorted(sessions_of(read(client, "/?mark=dearer_turns"))) == ["dear", "mixed"]
    rows = re.findall(r"<tr data-row>.*?</tr>", page, re.DOTALL)
    marks = {
        name: [t for r in rows if f"<bdi>{name}" in r for t in texts(r, "span")]
        for name in ("mixed", "dear", "same")
    }
    assert "session dearer" not in marks["mixed"]
    assert "1 dearer turn" in marks["mixed"]
    assert {"session dearer", "1 dearer turn"} <= set(marks["dear"])
    assert not [mark for mark in marks["same"] if "dearer" in mark]


def test_a_session_lists_all_turns_that_became_dearer(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ce.db")
    put(url, "s", [DEAR if n % 3 == 0 else CHEAP for n in range(90)])
    with visit(url) as client:
        part = client.get(costs_url("", "s")).text
        links = re.findall(r'<li data-dearer="(\d+)"><a href="([^"]*)"', part)
        assert [int(turn) for turn, _ in links] == [n + 1 for n in range(90) if n % 3 == 0]
        items = [item for item in texts(part, "li") if item.startswith("turn")]
        assert items[0] == "turn 1 +100 units (+25.0%) the cut moved"
        assert (
            "30 turns cost over 1 % more than without us, though the session became no dearer"
            in " ".join(texts(part, "summary")[0].split())
        )
        dear = client.get(links[0][1].replace("&amp;", "&")).text
        cheap = client.get(turn_url("", "s", 2)).text
    assert "this turn dearer than without us" in dear
    assert "by 100 units: the cut moved" in dear
    assert "dearer" not in texts(cheap, "main")[0]


def test_a_lane_has_its_own_sums(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ce.db")
    put(url, "s", [Told(agent="one", sent=100), Told(agent="two", sent=70)])
    with visit(url) as client:
        told = tiles(client.get(costs_url("", "s", lane="two")).text)
        assert told["tokens sent; 90 as told of 1 call, 90 each"] == "70"
        assert "lane=two" in client.get(session_url("", "s", lane="two")).text


KNOWN = Told(
    model="gpt-4o-mini",
    sent=1000,
    prompt=1000,
    prefix=900,
    report={"untouched": {"tokens": 3000, "prefix": 2800}},
)
"""Its cached token costs half of a new one, from 1,024 on: 1,000 for 3,000 - 2,800 / 2 = 1,600."""


def test_a_session_has_the_same_effect_in_money_and_in_units(tmp_path: Path) -> None:
    """Also beside sessions whose models have no price, and what is too short to be cached is not told as cached."""
    url = url_of(tmp_path / "ce.db")
    put(url, "known", [KNOWN])
    put(url, "unknown", [CHEAP])
    with visit(url) as client:
        told = tiles(client.get(costs_url("", "known")).text)
        html = read(client, "/compare?by=session")
        client.get("/preferences?columns=1&column=effect")
        [row] = [
            r
            for r in re.findall(r"<tr data-row>.*?</tr>", read(client, "/"), re.DOTALL)
            if ">known" in r
        ]
    assert told["effect on cost"] == "-37.5%"
    assert texts(row, "td") == ["-37.5%"]
    lines = {
        title: texts(rest, "td")[0]
        for title, rest in re.findall(r'<tr><th scope="row">([^<]*)(.*?)</tr>', html, re.DOTALL)
    }
    assert lines["effect on cost, in units"] == "-37.5%"
    assert (lines["begins alike"], lines["cacheable"]) == ("900 (90.0%)", "0 (0.0%)")
    assert told["begins like the call before: too few tokens at a time to be cached"] == "90.0%"
    report = " ".join(ce("report", "known", "--store", url, columns=400).stdout.split())
    assert "(90.0%): too few tokens at a time to be cached" in report
    assert "saved 0.000090 (37.5%)" in report


TOLD_CACHED = Told(sent=100, prompt=90, params={"cache_read": 32})


@pytest.mark.parametrize(
    ("language", "of_turn", "of_session"),
    [
        (
            "en",
            "as told 101 units: 61 for 90 tokens of input (32 of them cached: 35.6%), 40 for an answer of 10 tokens; by our own count 100 went out",
            "as told 199 units: 119 for 180 tokens of input (32 of them cached: 17.8%; of 1 call nobody told: what begins alike counts as cached, too), 80 for answers of 20 tokens, in 2 calls; by our own count 200 went out",
        ),
        (
            "zh",
            "服务商告知 101 相对单位：输入 90 token（其中 32 已缓存：35.6%），计 61；回答 10 token，计 40；按我们自己的计数发出 100",
            "服务商告知 199 相对单位：输入 180 token（其中 32 已缓存：17.8%；有 1 次调用没有缓存方面的信息：与上一次开头相同的部分也按已缓存计），计 119；回答 20 token，计 80；共 2 次调用；其中按我们自己的计数发出 200",
        ),
    ],
)
def test_what_the_provider_told_stands_beside_our_own_count(
    tmp_path: Path, language: str, of_turn: str, of_session: str
) -> None:
    found = url_of(tmp_path / "ce.db")
    put(found, "told", [TOLD_CACHED, CHEAP])
    with visit(found) as client:
        client.headers["accept-language"] = language
        assert of_turn in plain(client.get(turn_url("", "told", 1)).text)
        assert of_session in plain(client.get(costs_url("", "told")).text)


@pytest.mark.parametrize(
    ("prompt", "words"), [(1100, ": the provider counts 10% more"), (1099, ""), (900, "")]
)
def test_where_a_provider_counts_notably_more_that_is_said(
    tmp_path: Path, prompt: int, words: str
) -> None:
    found = url_of(tmp_path / "ce.db")
    put(found, "told", [Told(sent=1000, prompt=prompt)])
    with visit(found) as client:
        for html in (client.get(turn_url("", "told", 1)), client.get(costs_url("", "told"))):
            after = plain(html.text).split("by our own count 1,000 went out")[1]
            assert after.removeprefix(" in them").startswith(words or " ")
            assert ("the provider counts" in after) == bool(words)


def test_calls_that_failed_untold_are_not_said_to_stand_with_our_count(tmp_path: Path) -> None:
    found = url_of(tmp_path / "ce.db")
    failed = Told(prompt=0, completion=0, status=TurnStatus.FAILED)
    put(found, "failed", [CHEAP, failed, Told(prompt=0)])
    with visit(found) as client:
        html = plain(read(client, "/compare?by=session"))
    assert "of 1 calls no provider told the tokens: our own count stands for it" in html
    assert "1 call failed, and no provider told its tokens: it counts as costing nothing" in html
    table = ce("compare", "--by", "session", "--store", found, columns=200).stdout
    assert "1 call failed, and no provider told its tokens" in table


def test_what_is_taken_to_be_cached_is_said_though_others_told_it(tmp_path: Path) -> None:
    found = url_of(tmp_path / "ce.db")
    cheap, told_cached = (replace(each, model="gpt-4o") for each in (CHEAP, TOLD_CACHED))
    put(found, "both", [told_cached, cheap, cheap])
    with visit(found) as client:
        html = plain(read(client, "/compare?by=session"))
    told = "calls that begin like the one before no provider told what it had cached"
    assert f"of 2 {told}" in html


def test_a_trace_says_whose_count_its_tokens_are() -> None:
    usage = ModelUsage(model_usage_id="u", provider="p", model="m", prompt_tokens=9)
    assert usage_words(usage) == "m, 9 + 0 tokens (as the provider told)"
    ours = usage.model_copy(update={"params": {"estimated": True}})
    assert usage_words(ours) == "m, ~9 + 0 tokens (by our own count)"
