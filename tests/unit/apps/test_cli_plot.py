"""`ce report --plot`: a session's turns as a picture."""

from __future__ import annotations

import os
import re
import stat
import struct
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from ce_engine import Report, Scope, create_context_engine
from ce_engine.apps.present.report_plot import COLUMNS, drawing_of
from ce_engine.apps.present.shapes import write
from ce_engine.apps.present.turns import NumberedTurn
from ce_engine.schema.rows import TurnRow
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import TALK, ce, fill, url_of


SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e]]>&\x00 会话"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    fill(made, chatter=12)
    return made


def plotted(url: str, path: Path, session: str = TALK.session_id, account: str = "acme") -> None:
    done = ce("report", session, "--store", url, "--account", account, "--plot", str(path))
    assert done.exit_code == 0, done.stderr
    assert path.name in done.stdout


def test_an_svg_has_a_column_a_turn_with_its_figures(url: str, tmp_path: Path) -> None:
    plotted(url, path := tmp_path / "a.svg")
    root = ET.parse(path).getroot()
    notes = [note.text or "" for note in root.iterfind(f".//{SVG}rect/{SVG}title")]
    assert [note.partition(":")[0] for note in notes] == [f"turn {n}" for n in range(1, 16)]
    assert all(re.search(r": [\d,]+ of [\d,]+ tokens \(", note) for note in notes)
    words = " ".join(text.text or "" for text in root.iter(f"{SVG}text"))
    assert TALK.session_id in words
    assert "without us" in words
    assert "tool results" in words
    for rectangle in root.iter(f"{SVG}rect"):
        assert float(rectangle.attrib["height"]) >= 0
        assert 0 <= float(rectangle.get("y", "0")) <= 560


def test_a_png_is_a_picture(url: str, tmp_path: Path) -> None:
    plotted(url, path := tmp_path / "a.PNG")
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", data[16:24]) == (2000, 1120)


def test_without_pillow_the_error_names_the_cure(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    at = ("report", TALK.session_id, "--store", url, "--account", "acme", "--plot")
    refused = ce(*at, str(tmp_path / "a.png"))
    assert refused.exit_code == 1
    assert "pip install 'ce-integrations[plot]'" in refused.stderr
    assert "FILE.svg" in refused.stderr
    plotted(url, tmp_path / "a.svg")


@pytest.mark.parametrize(
    ("file", "words"), [("a.gif", "FILE.svg"), ("no/such/a.svg", "is not there")]
)
def test_what_cannot_be_drawn_is_told_before_the_store_is_read(file: str, words: str) -> None:
    refused = ce("report", "s", "--store", "sqlite:///none.db", "--plot", file)
    assert refused.exit_code == 1
    assert words in refused.stderr


@pytest.mark.parametrize("name", ["a.svg", "a.png"])
def test_a_picture_is_a_new_file_of_its_owner_alone(url: str, tmp_path: Path, name: str) -> None:
    at = ("report", TALK.session_id, "--store", url, "--account", "acme", "--plot")
    assert ce(*at, str(tmp_path / name)).exit_code == 0
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    before = (tmp_path / name).read_bytes()
    (tmp_path / f"folder-{name}").mkdir()
    (tmp_path / f"link-{name}").symlink_to(tmp_path / "elsewhere")
    for there in (name, f"folder-{name}", f"link-{name}"):
        refused = ce(*at, str(tmp_path / there))
        assert refused.exit_code == 1
        assert "is there already" in refused.stderr
    assert (tmp_path / name).read_bytes() == before
    assert not (tmp_path / "elsewhere").exists()


def test_hostile_names_stay_words(tmp_path: Path) -> None:
    write(path := tmp_path / "a.svg", drawing_of(HOSTILE, [], None))
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text
    assert not {"\x1b", "\u202e", "\x00"} & set(text)
    root = ET.fromstring(text)
    assert any("会话" in (words.text or "") for words in root.iter(f"{SVG}text"))
    write(tmp_path / "a.png", drawing_of(HOSTILE, [], None))


def test_a_long_session_has_as_many_columns_as_there_is_room_for() -> None:
    turns = [
        NumberedTurn(
            n, TurnRow(f"t-{n}"), Report(turn_id=f"t-{n}", token_used=n, token_budget=9000)
        )
        for n in range(1, 5001)
    ]
    marks = drawing_of("s", turns, None).marks
    notes = [note for mark in marks if (note := getattr(mark, "note", ""))]
    assert 300 < len(notes) <= COLUMNS
    assert notes[-1].startswith("turn 5000: ")


def test_a_session_without_turns_is_drawn_empty(tmp_path: Path) -> None:
    engine = create_context_engine(url := url_of(tmp_path / "ce.db"))
    engine.sync.record_event(Scope(session_id="s"), "planner", {"step": 1})
    engine.sync.close()
    plotted(url, path := tmp_path / "a.svg", "s", "")
    assert "no turns" in path.read_text(encoding="utf-8")


def test_without_a_known_budget_there_is_no_line_of_it(tmp_path: Path) -> None:
    engine = create_context_engine(url := url_of(tmp_path / "ce.db"))
    engine.sync.check()
    HostApp(engine, Scope(session_id="s")).ask("你好?", "你好。")
    engine.sync.close()
    plotted(url, path := tmp_path / "a.svg", "s", "")
    assert (
        " of " not in path.read_text(encoding="utf-8").partition("turn 1: ")[2].partition(" (")[0]
    )
