"""A browser's visits to the page without a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any

from starlette.testclient import TestClient

from ce_engine.apps.web.reading import Source
from ce_engine.apps.web.security import Access
from ce_engine.apps.web.server import create_app


BASE = "http://127.0.0.1:8765"
LATER = "is being read"
"""What stands in a cell until the calls of its session are read."""


@contextmanager
def visit(url: str, *, account: str = "", **source: Any) -> Iterator[TestClient]:
    """Somebody who has come with the token."""
    access = Access()
    app = create_app(Source(url, account, **source), access)
    with TestClient(app, base_url=BASE) as client:
        assert client.get("/", params={"token": access.token}).status_code == 200
        yield client


def read(client: TestClient, address: str, **headers: str) -> str:
    """The HTML of a page that is there, with all that is read little by little."""
    for _ in range(200):
        answer = client.get(address, headers=headers)
        assert answer.status_code == 200, answer.text
        if "delay:1" not in answer.text:
            return answer.text
    raise AssertionError(f"{address} is never complete")


def turn_of(who: Mapping[str, str], client: TestClient, turn: int, **more: str) -> str:
    """The HTML of the page of a turn of a session."""
    answer = client.get("/turn", params={**who, "turn": str(turn), **more})
    assert answer.status_code == 200, answer.text
    return answer.text


def plain(html: str) -> str:
    """The text of a page, on one line."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).replace("&#39;", "'").split())


class _Texts(HTMLParser):
    """The text of each element of one kind."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self.wanted, self.depth = wanted, 0
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == self.wanted:
            self.depth += 1
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == self.wanted:
            self.depth -= 1

    def handle_data(self, data: str) -> None:
        if self.depth:
            self.found[-1] += data


def texts(html: str, tag: str) -> list[str]:
    """The text of each element of this kind, on one line."""
    parser = _Texts(tag)
    parser.feed(html)
    return [" ".join(text.split()) for text in parser.found]


def status(html: str) -> str:
    """The line that says how many there are."""
    found = re.search(r'role="status">(.*?)</p>', html, re.DOTALL)
    assert found is not None
    return " ".join(re.sub(r"<[^>]*>", "", found[1]).split())


def sessions_of(html: str) -> list[str]:
    """The ids of the sessions in the list, in order."""
    return re.findall(r'<a id="row-\d+" href="[^"]*"><bdi>([^<]*)</bdi>', html)
