"""What calls cost, with us and without us: one figure says the same wherever it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ce_engine.apps.web.links import costs_url, session_url, turn_url
from tests.hosts.cli_host import ce, url_of
from tests.hosts.compare_host import Told, put
from tests.unit.apps.web.visiting import read, sessions_of, texts, visit


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


def test_the_same_figure_is_the_same_everywhere(url: str) -> None:
    with visit(url) as client:
        client.get(
            "/preferences?columns=1&column=sent&column=saved&column=cached&column=cost&column=without&column=effect"
        )
        row = next(
            r
            for r in re.findall(r"<tr data-row>.*?</tr>", read(client, "/"), re.DOTALL)
            if "mixed" in r
        )
        part = client.get(costs_url("", "mixed")).text
        compared = read(client, "/compare?by=session")
    sent = 3 * 100 + 300 + 500
    before, cached = 4 * 400 + 300, 3 * 40
    cost, without = 3 * 64 + 300 + 500, 3 * 364 + 300 + 400
    saved, share = f"{100 * (before - sent) / before:.1f}%", f"{100 * cached / sent:.1f}%"
    effect = f"{100 * (cost - without) / without:.1f}%"
    cells = texts(row, "td")
    assert cells == [f"{sent:,}", saved, share, f"{cost:,} units", f"{without:,} units", effect]
    told = tiles(part)
    assert told["tokens sent"] == f"{sent:,}"
    assert told[f"tokens saved: {before:,} without us"] == saved
    assert told["begins like the call before, and may be cached"] == share
    assert told[f"cost of inputs: {without:,} without us"] == f"{cost:,} units"
    assert told["effect on cost"] == effect
    lines = {
        title: texts(rest, "td")[1]  # dear, mixed, same
        for title, rest in re.findall(r'<tr><th scope="row">([^<]*)(.*?)</tr>', compared, re.DOTALL)
    }
    assert lines["tokens sent"] == f"{sent:,}"
    assert lines["tokens without us"] == f"{before:,}"
    assert lines["tokens saved"] == f"{before - sent:,} ({saved})"
    assert lines["cached prefix"] == f"{cached} ({share})"
    assert lines["cost of inputs, units"] == f"{cost:,}"
    assert lines["without us, units"] == f"{without:,}"
    assert lines["cost saved, units"] == f"{without - cost:,} ({effect.lstrip('-')})"
    assert lines["effect on cost"] == effect
    report = " ".join(ce("report", "mixed", "--store", url, columns=400).stdout.split())
    assert f"{sent:,} sent, {before:,} without us · saved {before - sent:,} ({saved})" in report
    assert f"({share}), and may be" in report
    assert (
        f"{cost:,} for inputs, {without:,} without us · saved {without - cost:,} ({effect.lstrip('-')})"
        in report
    )
    table = ce("compare", "--by", "session", "--store", url, columns=200).stdout
    assert re.search(rf"cost of inputs, units +\S+ +{cost:,} ", table)


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
        assert tiles(client.get(costs_url("", "s", lane="two")).text)["tokens sent"] == "70"
        assert "lane=two" in client.get(session_url("", "s", lane="two")).text
