"""No page in Chinese says anything in English: of an app that speaks Chinese alone, every word that is left is ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.hosts.cli_host import ce
from tests.hosts.trouble_host import FRAMEWORKS, REFUND, fill_trouble
from tests.unit.apps.web.test_hostile_text import links_of
from tests.unit.apps.web.visiting import read, visit


CHINESE = {"accept-language": "zh-CN"}
WORD = re.compile(r"[A-Za-z][A-Za-z'-]+")
SAID_ANYHOW = frozenset(
    {
        *FRAMEWORKS,
        *("id", "framework", "query"),  # of the app: a field, a tag's name, an argument
        *(
            "ce",
            "English",
            "UTC",
            "USD",
            "ms",
            "token",
            "JSON",
            "Enter",
            "tiktoken",
            "seed",
            "cache",
        ),
        *("demo", "compare", "--json", "json", "install", "prices", "FILE", "CE", "PRICES"),
    }
)
"""Names, units and what is typed: the same in every language."""
IDS = re.compile(
    r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{6,8}\b"
    r"|\brequest-\d+\b|\b[a-z]+:(?=[0-9a-f]{8})|(?:o200k|cl100k)_base|\bp(50|95)\b|\bCONTEXT_[A-Z_]+\b"
)
READ = ("title", "aria-label", "placeholder", "aria-roledescription", "alt")
UNREAD = ("script", "style", "datalist")


class _Said(HTMLParser):
    """What of a page somebody reads or is read to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in UNREAD:
            self.inside.append(tag)
        self.found += [
            value or ""
            for name, value in attrs
            if name in READ or (name.startswith("data-") and name[5:] in WORDS_OF_SCRIPTS)
        ]

    def handle_endtag(self, tag: str) -> None:
        if self.inside and self.inside[-1] == tag:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self.found.append(data)


WORDS_OF_SCRIPTS = (
    *(
        "on",
        "off",
        "held",
        "hold",
        "go",
        "turn",
        "of",
        "tokens",
        "cached",
        "without",
        "left",
        "moved",
    ),
)


def english(html: str) -> list[str]:
    """The texts of a page with a word in English."""
    said = _Said()
    said.feed(html)
    return [
        " ".join(text.split())
        for text in said.found
        if set(WORD.findall(IDS.sub(" ", text))) - SAID_ANYHOW
    ]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fill_trouble(tmp_path_factory.mktemp("trouble"))


@pytest.fixture(scope="module")
def pages(url: str) -> Iterator[TestClient]:
    with visit(url) as client:
        yield client


def parts(address: str) -> Iterator[str]:
    """A page, and what it reads later."""
    yield address
    if address.startswith("/session?"):
        query = address.partition("?")[2]
        yield f"/session/costs?{query}"
        for wanted in ("订单", "没有这样的词", ""):
            yield f"/session/find?{query}&find={wanted}"
    if address.startswith("/turn?") and "&rest=" not in address:
        query = address.partition("?")[2]
        yield f"/turn?{query}&find=订单"
        for more in ("window=400", "window=90000", "window=-1", "placement=seed"):
            yield f"/turn/what-if?{query}&{more}"


MOST_PAIRS = 12
"""Any turn may stand beside any: of pages with two, so many are walked."""


@pytest.mark.timeout(400)  # a minute of CPU: it walks every page
def test_no_page_has_a_word_in_english(pages: TestClient) -> None:
    wanted = ["/", "/?mark=dearer", "/?q=没有的", "/compare", "/live", "/compare?by=model"]
    wanted += ["/compare?by=agent", "/compare?since=2001-01-01&until=2001-01-02"]
    every = "user.tags.tools.evidence.cost.marks.created"
    seen: dict[str, list[str]] = {}
    read(pages, "/")
    while wanted:
        address = wanted.pop(0)
        for part in parts(address):
            if part not in seen:
                text = read(pages, part, **CHINESE)
                seen[part] = english(text)
                there = (each for each in links_of(text) if "?" in each and each not in seen)
                links = [each for each in there if "order=" not in each]  # the same in other rows
                pairs = sum("/beside" in each for each in [*seen, *wanted])
                wanted += [each for each in links if "/beside" not in each or pairs < MOST_PAIRS]
    pages.cookies.set("ce_columns", every)
    seen["columns"] = english(read(pages, "/", **CHINESE))
    assert len([address for address in seen if address.startswith("/evidence?")]) > 5
    assert len([address for address in seen if address.startswith("/turn?")]) > 25
    assert any(address.startswith("/beside?") and "with=" in address for address in seen)
    found = {text: address for address, texts in seen.items() for text in texts}
    assert "\n".join(f"{text}   <- {address}" for text, address in found.items()) == ""


@pytest.mark.parametrize(
    "address",
    [
        "/nothing",
        "/session?id=nobody",
        "/turn?id=退款咨询-王芳&user=王芳&turn=99",
        "/evidence?id=退款咨询-王芳&user=王芳&evidence=none",
        "/compare?by=没有的",
        "/preferences?columns=1&column=x",
    ],
)
def test_no_error_is_told_in_english(pages: TestClient, address: str) -> None:
    assert english(pages.get(address, headers=CHINESE).text) == []


def test_who_has_no_token_is_told_so_in_chinese(pages: TestClient) -> None:
    answer = pages.get("/", params={"token": "another"}, headers=CHINESE)
    assert answer.status_code == 403
    assert "令牌" in answer.text
    assert english(answer.text.replace("`ce ui`", "").replace("?token=...", "")) == []
    shown = pages.get("/", params={"token": "x"}, headers={**CHINESE, "accept": "text/html"})
    assert '<html lang="zh">' in shown.text
    assert english(re.sub(r"<code>[^<]*</code>", "", shown.text)) == []


def test_an_exported_page_has_none_either(url: str, tmp_path: Path) -> None:
    args = ("ui", REFUND.session_id, "--export", str(tmp_path), "--store", url, "--language", "zh")
    assert ce(*args).exit_code == 0
    [path] = tmp_path.iterdir()
    assert english(path.read_text("utf-8")) == []
