"""What holds for every template and file of the page: it asks nothing of any network, and trusts no stored text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ce_engine.apps import web
from ce_engine.apps.present.language import ENGLISH
from ce_engine.apps.web.page import environment, sayers
from ce_engine.audit.places.whereabouts import Stay, Whereabouts
from ce_engine.schema.scope import Scope


HERE = Path(next(iter(web.__path__)))
TEMPLATES = sorted((HERE / "templates").glob("*.html"))
OWN = sorted(
    path for path in (HERE / "static").glob("*.*") if path.suffix in (".css", ".js", ".svg")
)
STANDALONE = {"export.html"}
"""A page that is sent to somebody: it has its styles in itself."""


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_escapes_and_has_no_inline_code(path: Path) -> None:
    text = path.read_text("utf-8")
    environment().get_template(path.name)  # it can be read
    if path.name not in STANDALONE:
        assert re.search(r"\|\s*safe\b|autoescape", text) is None
        assert re.search(r"\sstyle=|<style|\son[a-z]+=|hx-on|javascript:|hx-vals=.js", text) is None
        scripts = re.findall(r"<script([^>]*)>", text)
        assert all("src=" in script or "application/json" in script for script in scripts)
    assert re.search(r"""(?:src|href)=["'](?:https?:)?//""", text) is None


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_a_file_asks_for_nothing_from_elsewhere(path: Path) -> None:
    text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert re.search(r"https?://|@import|\beval\(|new Function|url\((?!#)", text) is None


def test_what_others_made_has_its_licence_and_version() -> None:
    table = (HERE / "static" / "vendor" / "README.md").read_text("utf-8")
    for folder in (path for path in (HERE / "static" / "vendor").iterdir() if path.is_dir()):
        assert (folder / "LICENSE").is_file()
        for path in folder.glob("*.*"):
            assert f"{folder.name}/{path.name}" in table


def test_no_turn_is_hidden_where_a_message_went_in_and_out_many_times() -> None:
    stays = (Stay("quoted", tuple((n, n + 1) for n in range(1, 22, 3))),)
    macro = '{% import "macros.html" as m with context %}{{ m.went(where) }}'
    html = (
        environment()
        .from_string(macro)
        .render(
            where=Whereabouts(1, stays), scope=Scope(session_id="s", user_id="u"), **sayers(ENGLISH)
        )
    )
    shown, _, more = html.partition("<summary>and in 4 more stretches</summary>")
    assert re.findall(r"turn=(\d+)", shown) == ["1", "2", "4", "5", "7", "8"]
    assert re.findall(r"turn=(\d+)", more) == ["10", "11", "13", "14", "16", "17", "19", "20"]


def test_a_turn_lists_some_of_very_many_stretches_and_the_trace_all() -> None:
    stays = (Stay("quoted", tuple((n, n) for n in range(1, 1000, 2))),)
    scope = Scope(session_id="s", user_id="u")

    def listed(arguments: str) -> int:
        macro = f'{{% import "macros.html" as m with context %}}{{{{ m.went(where{arguments}) }}}}'
        page = environment().from_string(macro)
        html = page.render(where=Whereabouts(1, stays), scope=scope, **sayers(ENGLISH))
        assert html.count(", …</details>") == (not arguments)
        return len(re.findall(r"turn=\d+", html))

    assert listed("") == 12
    assert listed(", most=20, at_most=500") == 500


def test_a_document_that_was_only_found_is_explained() -> None:
    macro = '{% import "macros.html" as m with context %}{{ m.went(where) }}'
    where = Whereabouts(1, (Stay("found", ((1, 2),)), Stay("quoted", ((3, 3),))))
    scope = Scope(session_id="s", user_id="u")
    html = environment().from_string(macro).render(where=where, scope=scope, **sayers(ENGLISH))
    assert re.findall(r'stay is-(\w+)"( title="A retrieval gave it)?', html) == [
        ("found", ' title="A retrieval gave it'),
        ("quoted", ""),
    ]
