"""The turns of a session as columns, and the picture that is drawn of them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    RuntimeConfig,
    Scope,
    TurnRow,
    TurnStatus,
    create_context_engine,
)
from ce_engine.apps.present.timeline import LAYERS, Timeline, timeline
from ce_engine.apps.present.timeline_svg import drawing, gutter, height, scale, short
from ce_engine.testing.host import HostApp, system
from tests.hosts.cli_host import TALK, TIGHT, talk


SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), config=TIGHT, token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


@pytest.fixture
def rows(engine: ContextEngine) -> list[TurnRow]:
    """A talk that is far over its budget: a tool, a document, small talk."""
    talk(engine, chatter=12)
    engine.sync.flush()
    return list(engine.sync.list_turns(TALK))


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def test_the_columns_say_what_the_reports_say(engine: ContextEngine, rows: list[TurnRow]) -> None:
    found, reports = timeline(rows), engine.sync.list_reports(TALK)
    assert found.turns == list(range(1, len(rows) + 1))
    assert found.used == [report.token_used for report in reports]
    assert found.budget == [report.token_budget for report in reports]
    assert found.left_out == [report.dropped + report.orphans_removed for report in reports]
    assert found.app_messages == [report.messages_in for report in reports]
    assert found.without == [r.untouched.tokens if r.untouched else 0 for r in reports]
    moved = [place for place, r in enumerate(reports) if r.prefix_broken_by == "cut"]
    assert found.moved == moved
    assert moved


def test_the_layers_add_up_to_what_went_out(rows: list[TurnRow]) -> None:
    found = timeline(rows)
    assert [sum(all_) for all_ in zip(*found.layers.values(), strict=True)] == found.used
    assert sum(found.layers["retrieved"]) > 0
    assert sum(found.layers["system"]) > 0


def test_the_reserve_is_the_one_that_was_set(rows: list[TurnRow]) -> None:
    found = timeline(rows)
    assert set(found.reserve) == {1200 - (found.budget[0] or 0)}


def test_a_reserve_that_nobody_set_is_the_default() -> None:
    row = TurnRow(
        "t",
        report={
            "token_budget": 7168,
            "token_used": 5,
            "extra": {"replay": {"config": "c", "settings": {}}},
        },
    )
    assert timeline([row]).reserve == [1024]
    assert timeline([TurnRow("t")]).reserve == [0]


def test_a_turn_without_a_report_is_there_and_empty() -> None:
    found = timeline([TurnRow("t", status=TurnStatus.FAILED)])
    assert (found.used, found.budget, found.marks) == ([0], [0], {0: ["failed"]})
    assert parsed(drawing(found)) is not None


def test_an_older_release_told_layers_only() -> None:
    report = {"token_used": 100, "layers": {"rules": {"tokens": 30}, "immediate": {"tokens": 60}}}
    found = timeline([TurnRow("t", report=report)])
    assert {name: column[0] for name, column in found.layers.items() if column[0]} == {
        "rules": 30,
        "immediate": 60,
        "tools": 10,
    }


def test_one_lane_keeps_the_numbers_of_the_session() -> None:
    rows = [TurnRow("a", lane="x"), TurnRow("b", lane="y"), TurnRow("c", lane="x")]
    assert timeline(rows, "x").turns == [1, 3]
    assert timeline(rows).lanes == ["x", "y"]
    assert timeline(rows).lane == [0, 1, 0]


def test_what_deserves_a_look_is_marked_worst_first() -> None:
    report = {"over_budget": True, "conflicts": [{}], "degradations": ["CONTEXT_STORE_UNAVAILABLE"]}
    found = timeline([TurnRow("t", report=report), TurnRow("u")])
    assert found.marks == {0: ["over_budget", "degraded", "conflict"]}


@pytest.mark.parametrize(("action", "mark"), [("kept", "conflict_note"), ("dropped", "conflict")])
def test_whether_the_model_was_told_that_sources_disagree_is_another_mark(
    action: str, mark: str
) -> None:
    """The turns whose notes went out are otherwise found by opening each page."""
    note = {"block_id": "conflicts", "action": action, "reason": "chosen"}
    found = timeline([TurnRow("t", report={"conflicts": [{}], "prune_decisions": [note]})])
    assert found.marks == {0: [mark]}


def tops(svg: str, kind: str) -> list[int]:
    """The heights of the steps of a layer's shape, from its path."""
    path = next(e for e in parsed(svg).iter(f"{SVG}path") if e.get("class") == kind)
    found: list[int] = []
    y = 0
    for letter, number in re.findall(r"([MVhz])([-\d.]+)?", path.get("d") or ""):
        if letter == "V":
            y = int(number)
        elif letter == "h":
            found += [y] * int(number)
    return found


def test_the_picture_has_a_step_a_turn_and_a_layer(rows: list[TurnRow]) -> None:
    found = timeline(rows)
    svg = drawing(found)
    heights = tops(svg, "immediate")
    assert len(heights) == len(rows)
    highest = heights.index(min(heights))
    assert found.used[highest] == max(found.used)
    assert parsed(svg).get("viewBox") == f"0 0 {len(rows)} {height(found)}"


def test_the_picture_of_many_turns_is_one_path_a_layer() -> None:
    report = {
        "token_budget": 1500,
        "payload_tokens": {"system": 50, "knowledge": 400, "conversation": 600},
        "token_used": 1050,
        "messages_in": 90,
        "dropped": 70,
        "prefix_tokens_unchanged": 400,
    }
    rows = [
        TurnRow(str(n), lane="ab"[n % 2], report={**report, "token_used": 1000 + n % 90})
        for n in range(5000)
    ]
    svg = drawing(timeline(rows))
    assert len(svg) < 400_000
    assert len(list(parsed(svg).iter())) < 40


def test_names_that_are_no_text_of_ours_are_escaped() -> None:
    found = timeline([TurnRow("t", lane="<script>alert(1)</script>\u202e\x1b[31m")])
    picture = drawing(found, address=lambda turn: f'#{turn}"><script>') + gutter(found)
    assert "<script" not in picture
    assert "\u202e" not in picture
    assert "\x1b" not in picture


def test_no_turn_is_drawn_too() -> None:
    assert parsed(drawing(Timeline())) is not None
    assert parsed(gutter(Timeline())) is not None


def test_the_scale_is_round_and_not_exceeded() -> None:
    for most in (1, 7, 99, 1500, 2000, 128_000, 999_999):
        found = Timeline(turns=[1], used=[most], budget=[0], reserve=[0])
        assert scale(found) >= most
        assert scale(found) % 4 == 0
    assert [short(n) for n in (7, 1500, 120_000, 3_443_627)] == ["7", "1.5k", "120k", "3.44M"]


def test_every_layer_of_a_report_has_its_place(engine: ContextEngine) -> None:
    scope = Scope(session_id="s", user_id="u")
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=4000))
    app = HostApp(engine, scope, [system("You help.")])
    app.ask("Hello?", "Hi.", config=config)
    engine.sync.flush()
    found = timeline(engine.sync.list_turns(scope))
    assert set(found.layers) == set(LAYERS)
    assert found.layers["system"][0] > 0
    assert found.layers["immediate"][0] > 0
