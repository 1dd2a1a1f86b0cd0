"""Whatever was stored is text: it runs nothing, steers nothing, hides nothing, and breaks no page."""

from __future__ import annotations

import html as htmllib
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from ce_engine import Answer, Scope, create_context_engine
from ce_engine.apps.web.filters import visible
from ce_engine.testing.host import HostApp, assistant, user
from tests.hosts.cli_host import TIGHT, url_of
from tests.unit.apps.web.visiting import BASE, read, visit


SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg/onload=alert(3)>"
ANSI = "\x1b[31mred\x1b[0m\x07\x00\x9b31m"
BIDI = "safe\u202eexe.fdp\u2066\u200f"
TEMPLATE = "{{ 7*7 }}{% raw %}${x}"
HOSTILE = f"{SCRIPT}{ANSI}{BIDI}{TEMPLATE}"
LONG = "in the blue folder, " * 50_000
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
NAME = "<b>s</b>&\"'\u202e/..//x?y#z"
"""A session's id."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """An app whose every word is hostile."""
    url = url_of(tmp_path_factory.mktemp("hostile") / "ce.db")
    engine = create_context_engine(url, config=TIGHT)
    engine.sync.check()
    scope = Scope(session_id=NAME, user_id=HOSTILE[:200])
    app = HostApp(engine, scope, [], framework=SCRIPT)
    for text in (HOSTILE, f"{HOSTILE} {LONG}", HOSTILE):
        asked = app.prepare(user(text))
        answer = assistant(f"{HOSTILE} {LONG}")
        engine.sync.commit(asked.turn, Answer(answer.message, model=SCRIPT, provider=ANSI))
        app.messages.append(answer)
    engine.sync.close()
    with visit(url) as client:
        yield client


class Elements(HTMLParser):
    """What of a page could run, and the texts of it."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[dict[str, str | None]] = []
        self.handlers: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "script":
            self.scripts.append(dict(attrs))
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name == "style"]
        self.handlers += [
            value
            for name, value in attrs
            if name in ("href", "src") and value and value.startswith(("javascript:", "http", "//"))
        ]


@pytest.fixture(scope="module")
def answers(pages: TestClient) -> dict[str, Response]:
    """Every page that is reached from the list in two steps, by its address."""
    wanted = {"/", "/compare", "/live", "/?q=%3Cscript%3E", "/compare?by=agent", "/?user=%00"}
    wanted |= {"/session?id=%1b"}
    read(pages, "/")
    found: dict[str, Response] = {}
    for _ in range(3):
        found |= {address: pages.get(address) for address in wanted}
        wanted = {link for page in found.values() for link in links_of(page.text)} - set(found)
        wanted = {link for link in wanted if "full=1" not in link}
    return found


def links_of(text: str) -> set[str]:
    links = (htmllib.unescape(link) for link in re.findall(r'(?:href|hx-get)="(/[^"]*)"', text))
    return {link for link in links if not link.startswith(("/static", "/preferences"))}


def test_no_page_runs_shows_or_breaks_on_it(answers: dict[str, Response]) -> None:
    for kind in ("/session?", "/turn?", "/trace?"):
        assert any(address.startswith(kind) for address in answers), kind
    for address, answer in answers.items():
        assert answer.status_code in (200, 404), (address, answer.status_code)
        elements = Elements()
        elements.feed(answer.text)
        for script in elements.scripts:
            own = (script.get("src") or "").startswith("/static/")
            assert own or script.get("type") == "application/json", (address, script)
        assert elements.handlers == [], address
        assert "img" not in elements.tags, address
        assert STEERS.search(answer.text) is None, (address, STEERS.search(answer.text))


def test_a_megabyte_does_not_stand_in_a_page(answers: dict[str, Response]) -> None:
    for address, answer in answers.items():
        assert len(answer.text) < 700_000, address


def test_signs_that_steer_are_seen() -> None:
    shown = str(visible("a\x1b[31mb\u202ec\x00<i>"))
    assert shown == (
        'a<span class="control">\\x1b</span>[31mb<span class="control">\\u202e</span>c'
        '<span class="control">\\x00</span>&lt;i&gt;'
    )
    assert str(visible("line\r\nline\ttab 你好 👋")) == "line\nline\ttab 你好 👋"


def test_a_stream_of_turns_cannot_be_broken_by_a_text(pages: TestClient) -> None:
    text = pages.get("/live").text
    assert "&lt;script&gt;" in text
    assert "\\u202e" in text


def test_no_error_page_repeats_an_address_raw(pages: TestClient) -> None:
    for address in (
        f"/{SCRIPT}",
        "/session",
        "/turn?id=x&turn=<b>",
        "/evidence?id=<script>",
        "/compare?by=<b>x",
    ):
        answer = pages.get(f"{BASE}{address}")
        assert answer.status_code in (400, 404)
        assert "<script>alert" not in answer.text
        assert "<b>x" not in answer.text
