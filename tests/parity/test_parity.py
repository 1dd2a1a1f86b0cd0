"""One job in every framework: the same rows are stored, but for what a framework does not tell; the page says what."""

from __future__ import annotations

from copy import deepcopy

import pytest

from tests.parity import page
from tests.parity.abilities import YES, abilities
from tests.parity.rows import ABSENT, differences, rows
from tests.parity.scenario import FRAMEWORKS, Outcome, installed, play


HERE = [name for name in FRAMEWORKS if installed(name)]
PARTS = ("talk", "finding", "streaming")


@pytest.fixture(params=FRAMEWORKS)
def outcome(request: pytest.FixtureRequest) -> Outcome:
    if request.param not in HERE:
        pytest.skip(f"{request.param} is not installed")
    return play(request.param)


@pytest.mark.req("A-23", "A-24")
@pytest.mark.parametrize("part", PARTS)
def test_the_rows_are_equal_but_for_what_a_framework_does_not_tell(part: str) -> None:
    parts = {name: play(name).parts() for name in HERE}
    stored = {name: rows(found[part]) for name, found in parts.items() if part in found}
    assert differences(stored) == []


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("tool call", "status", "timeout"),
        ("evidence", "confidence", 0.11),
        ("message", "parent", 77),
        ("turn", "status", "failed"),
        ("model usage", "stage", "plan"),
    ],
)
def test_a_row_that_differs_is_seen(kind: str, field: str, value: object) -> None:
    same = rows(play(HERE[0]).talk)
    other = deepcopy(same)
    assert differences({"one": same, "other": other}) == []
    place = next(n for n, row in enumerate(other[kind]) if row[field] not in ABSENT)
    other[kind][place][field] = value
    (line,) = differences({"one": same, "other": other})
    assert line.startswith(f"{kind} {place}, {field}: ")
    other[kind][place][field] = None  # not told
    assert differences({"one": same, "other": other}) == []
    del other[kind][-1]
    assert differences({"one": same, "other": other}) != []


@pytest.mark.req("A-23", "A-24")
def test_every_framework_does_the_job(outcome: Outcome) -> None:
    found = abilities(outcome)
    for line in ("an early turn is found again", "parallel calls, each with its result"):
        assert found[line] == YES, line
    assert found["prepared at each model call"].startswith(YES)
    assert found["a tool that fails"].startswith(YES)
    if outcome.finding is not None:
        assert found["retrieved documents with their source"] == YES
    frameworks = {turn.framework for part in outcome.parts().values() for turn in part.turns}
    assert frameworks == {outcome.talk.adapter.name}
    assert any(turn.report.get("dropped") for turn in outcome.talk.turns), "nothing was over budget"


def test_the_page_says_what_the_job_shows() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    cure = "run: python tests/parity/page.py"
    for name, table in page.tables({name: play(name) for name in HERE}).items():
        old = page.read(text, name)
        for line, cells in table.items():
            assert line in old, f"{line!r} is not on the page; {cure}"
            assert cells.items() <= old[line].items(), f"{line!r} differs; {cure}"
        for line in set(old) - set(table):
            values = {old[line].get(framework) for framework in HERE}
            assert len(values) == 1, f"{line!r} is on the page and no more true; {cure}"


@pytest.mark.parametrize("missing", HERE)
def test_a_page_that_is_written_where_a_framework_is_missing_keeps_its_column(missing: str) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    others = {name: play(name) for name in HERE if name != missing}
    if not others:
        pytest.skip("there is only one")
    for name, table in page.tables(others).items():
        old = page.read(text, name)
        again = page.written(text, name, page.merged(old, table, FRAMEWORKS))
        assert {line: cells[missing] for line, cells in page.read(again, name).items()} == {
            line: cells[missing] for line, cells in old.items()
        }
