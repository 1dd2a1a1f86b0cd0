"""`ce ui SESSION --export DIR`: one session as one file that needs nothing else."""

from __future__ import annotations

import re
import stat
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ce_engine.apps.present.timeline import timeline
from ce_engine.apps.web import exporting
from ce_engine.apps.web.exporting import file_name, full_places
from ce_engine.schema.rows import TurnRow
from tests.hosts.cli_host import TALK, ce
from tests.unit.apps.web.hostile import RAW, SCOPE, fill_hostile


class _Page(HTMLParser):
    """What a page loads, runs and links."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        values = dict(attrs)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [v or "" for name, v in attrs if name in ("href", "src", "action", "data")]
        assert not [name for name in values if name.startswith("on")]


def page_of(path: Path) -> tuple[str, _Page]:
    text, page = path.read_text("utf-8"), _Page()
    page.feed(text)
    return text, page


def exported(url: str, folder: Path, *more: str, session: str = TALK.session_id) -> Path:
    args = ("ui", session, "--export", str(folder), "--store", url, *more)
    done = ce(*args)
    assert done.exit_code == 0, done.output
    [path] = folder.iterdir()
    assert str(path) in done.stdout
    return path


def test_the_page_needs_nothing_else(talk_url: str, tmp_path: Path) -> None:
    path = exported(talk_url, tmp_path / "out", "--account", "acme")
    text, page = page_of(path)
    assert page.tags.isdisjoint({"script", "link", "img", "iframe", "form", "object", "embed"})
    assert [link for link in page.links if not link.startswith("#")] == []
    assert "default-src 'none'" in text
    assert len(page.ids) == len(set(page.ids))
    missing = {link[1:] for link in page.links} - set(page.ids)
    assert missing == set()


def test_it_has_every_turn_message_and_piece_of_evidence(talk_url: str, tmp_path: Path) -> None:
    path = exported(talk_url, tmp_path / "out", "--account", "acme")
    text, page = page_of(path)
    assert sum(name.startswith("turn-") for name in page.ids) == 15
    for said in ("奥斯陆天气如何?", "Rain is water that falls from clouds.", "Topic 11 is nice."):
        assert said in text
    assert "It stands before the cut" in text
    assert "never stored" in text


def test_it_is_for_this_user_alone_and_overwrites_nothing(talk_url: str, tmp_path: Path) -> None:
    path = exported(talk_url, tmp_path / "out", "--account", "acme")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    again = ce(
        "ui",
        TALK.session_id,
        "--export",
        str(tmp_path / "out"),
        "--store",
        talk_url,
        "--account",
        "acme",
    )
    assert again.exit_code == 1
    assert "is there already" in again.stderr
    assert path.read_bytes() == before


def test_in_chinese(talk_url: str, tmp_path: Path) -> None:
    text, _ = page_of(exported(talk_url, tmp_path / "out", "--account", "acme", "--language", "zh"))
    assert '<html lang="zh">' in text
    assert "每一轮发出了什么" in text
    assert "它在切点之前" in text


def test_what_cannot_be_exported_is_said(talk_url: str, tmp_path: Path) -> None:
    at = ("--store", talk_url, "--account", "acme")
    for args, said in (
        (("--export", str(tmp_path)), "ce sessions"),
        (("nobody", "--export", str(tmp_path)), "there is no session"),
        ((TALK.session_id, "--export", str(tmp_path), "--language", "xx"), "language"),
        ((TALK.session_id, "--export", str(tmp_path), "--user", "else"), "there is no session"),
    ):
        done = ce("ui", *args, *at)
        assert done.exit_code == 1
        assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_hostile_texts_harm_nothing(tmp_path: Path) -> None:
    url = fill_hostile(tmp_path)
    path = exported(url, tmp_path / "out", session=SCOPE.session_id)
    text, page = page_of(path)
    assert [raw for raw in RAW if raw in text] == []
    assert page.tags.isdisjoint({"script", "img", "iframe"})
    assert [link for link in page.links if not link.startswith("#")] == []
    assert len(text) < 3_000_000
    assert "&lt;script&gt;alert(1)" in text


def test_files_have_harmless_names() -> None:
    assert file_name("../../etc/passwd") == "etc_passwd"
    assert file_name("会话-天气与下雨-1") == "会话-天气与下雨-1"
    assert file_name("///") == "session"
    assert len(file_name("x" * 500)) == 120
    assert not re.search(r"[\\/:*?\"<>|]", file_name(SCOPE.session_id))


def test_what_deserves_a_look_is_made_again_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "FULL", 3)
    rows = [TurnRow(str(n), report={"over_budget": n == 2}) for n in range(10)]
    assert full_places(timeline(rows)) == [2, 8, 9]
