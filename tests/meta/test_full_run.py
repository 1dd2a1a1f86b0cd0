"""The runner of what takes long: all is run, what failed is told, and what is measured has nothing beside it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests import full_run
from tests.full_run import PLANS, ROOT, Plan


def noting(notes: Path, what: str, code: int = 0) -> str:
    """A command that notes its beginning and its end, and says a word."""
    script = (
        f"import sys; note = open({str(notes)!r}, 'a', buffering=1); note.write('begin {what}\\n'); "
        f"print('the words', 'of {what}'); note.write('end {what}\\n'); sys.exit({code})"
    )
    return shlex.join(["-c", script])


def test_what_failed_is_told_and_the_others_run_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = tmp_path / "notes"
    plan = Plan([noting(notes, f"part{n}", n == 0) for n in range(3)], [noting(notes, "measured")])
    monkeypatch.setitem(PLANS, "faults", plan)
    assert full_run.main(["faults", "--logs", str(tmp_path / "logs")]) == 1
    told = capsys.readouterr().out
    assert "4 commands, 1 failed" in told
    assert "the words of part0" in told
    assert "the words of part1" not in told
    said = [log.read_text() for log in sorted((tmp_path / "logs").iterdir())]
    assert said == [f"the words of {what}\n" for what in ("part0", "part1", "part2", "measured")]
    assert notes.read_text().splitlines()[-2:] == ["begin measured", "end measured"]


def test_nothing_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANS, "faults", Plan([noting(tmp_path / "notes", "part")]))
    assert full_run.main(["faults", "--logs", str(tmp_path / "logs")]) == 0


def test_every_run_is_in_a_plan() -> None:
    commands = [each for plan in PLANS.values() for each in (*plan.together, *plan.alone)]
    runs = {
        str(path.relative_to(ROOT))
        for folder in ("faults", "property")
        for path in ROOT.glob(f"tests/{folder}/*_run.py")
    }
    assert {shlex.split(command)[0] for command in commands} == runs - {
        "tests/property/random_run.py"
    }
