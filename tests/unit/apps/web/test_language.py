"""Every word of the page in English and Chinese."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
from starlette.testclient import TestClient

from ce_engine.apps import present, web
from ce_engine.apps.present.language import ENGLISH, choose_language, languages
from tests.unit.apps.web.visiting import read


FOLDERS = [Path(next(iter(package.__path__))) for package in (present, web)]
SAYERS = frozenset({"say", "t"})
LITERAL = r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')"""
IN_TEMPLATE = re.compile(rf"\bt\(\s*{LITERAL}(?:\s*,\s*{LITERAL})?")


def in_python(path: Path) -> Iterator[str]:
    """The literals that are said: of two forms the plural, as catalogues have it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in SAYERS:
            texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            yield from (text for text in texts[-1:] if isinstance(text, str))


def in_template(path: Path) -> Iterator[str]:
    for found in IN_TEMPLATE.finditer(path.read_text("utf-8")):
        one, other = found[1] or found[2], found[3] or found[4]
        yield ast.literal_eval(f'"{other or one}"')


def said() -> set[str]:
    found: set[str] = set()
    for folder in FOLDERS:
        found.update(*map(in_python, folder.rglob("*.py")))
        found.update(*map(in_template, folder.rglob("*.html")))
    return found


def fields(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in Formatter().parse(text) if name is not None)


def test_what_is_said_is_found() -> None:
    assert {
        "Sessions",
        "{count} sessions",
        "Skip to the content",
        "older messages or tool calls left out",
    } & said()
    assert len(said()) > 150


@pytest.mark.parametrize("code", sorted(set(languages()) - {"en"}))
def test_a_language_has_every_text(code: str) -> None:
    texts = languages()[code].texts
    assert sorted(said() - set(texts)) == []


@pytest.mark.parametrize("code", sorted(set(languages()) - {"en"}))
def test_a_translation_has_the_values_of_its_text(code: str) -> None:
    for text, translation in languages()[code].texts.items():
        assert set(fields(translation)) <= set(fields(text)), text
        assert translation.strip(), text


def test_numbers_and_plurals() -> None:
    pair = ("{count} turn", "{count} turns")
    assert [ENGLISH(*pair, count=n) for n in (0, 1, 2, 12345)] == [
        "0 turns",
        "1 turn",
        "2 turns",
        "12,345 turns",
    ]
    assert ENGLISH("{name}", name="{x}") == "{x}"
    assert ENGLISH("a {brace}") == "a {brace}"
    assert languages()["zh"]("nobody translated {this}", this=1) == "nobody translated 1"


@pytest.mark.parametrize(
    ("wanted", "accepted", "code"),
    [
        ("", "", "en"),
        ("", "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("", "fr,zh;q=0.5,en;q=0.7", "en"),
        ("", "fr", "en"),
        ("", "zh;q=0", "en"),
        ("", "x;q=y,,;,zh", "zh"),
        ("en", "zh", "en"),
        ("zh", "en", "zh"),
        ("xx", "zh", "zh"),
    ],
)
def test_whose_language(wanted: str, accepted: str, code: str) -> None:
    assert choose_language(wanted, accepted).code == code


def test_the_browsers_language_and_the_switch(many_pages: TestClient) -> None:
    assert '<html lang="en"' in read(many_pages, "/")
    chinese = read(many_pages, "/", **{"accept-language": "zh-CN"})
    assert '<html lang="zh"' in chinese
    assert "会话" in chinese
    many_pages.get("/preferences?language=zh")
    assert '<html lang="zh"' in read(many_pages, "/compare")
    many_pages.get("/preferences?language=en")
    assert '<html lang="en"' in read(many_pages, "/", **{"accept-language": "zh-CN"})


def test_the_switch_of_colours(many_pages: TestClient) -> None:
    assert "data-theme" not in read(many_pages, "/")
    many_pages.get("/preferences?theme=dark")
    assert 'data-theme="dark"' in read(many_pages, "/")
    many_pages.get("/preferences?theme=system")
    assert "data-theme" not in read(many_pages, "/")
