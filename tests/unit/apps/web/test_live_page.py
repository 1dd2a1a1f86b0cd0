"""Turns as they come: the page has the newest, and a stream brings what is new."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.testclient import TestClient

from ce_engine.apps.present.language import ENGLISH
from ce_engine.apps.web.newest import NewTurn
from ce_engine.apps.web.pages import live
from ce_engine.schema.report import Report
from ce_engine.schema.rows import SessionInfo
from ce_engine.testing import samples
from tests.unit.apps.web.visiting import read, texts


def test_the_newest_turns_are_there(many_pages: TestClient) -> None:
    html = read(many_pages, "/live")
    rows = texts(html, "tr")[1:]
    assert [re.search(r"chat-\d", row)[0] for row in rows] == [  # type: ignore[index]
        f"chat-{number}" for number in (5, 4, 3, 2, 1, 0)
    ]
    assert all("committed" in row and "everything fits" in row for row in rows)
    assert 'data-rows="200"' in html


def test_a_turn_is_one_event_whatever_it_says() -> None:
    name = "line one\ndata: forged\n\nevent: forged\r\r"
    info = SessionInfo(name, "u", "", ["f"], 1, 0, 0, 1, False, "", "2026-01-01T00:00:00.000Z")
    report = Report(turn_id="t", warnings=[f"X: {name}"]).model_dump(mode="json")
    new = NewTurn(info, 3, samples.turn("t", report=report))
    request = Request({"type": "http", "path": "/live/turns", "query_string": b"", "headers": []})
    event = live._event(request, new, ENGLISH)
    assert event.startswith("event: turn\n")
    assert event.endswith("\n\n")
    assert "\r" not in event
    lines = event[:-2].split("\n")
    assert all(line.startswith("data: ") for line in lines[1:])
    assert "&turn=3" in event.replace("&amp;", "&")


def test_there_is_an_end_to_how_many_listen(many_pages: TestClient) -> None:
    many_pages.app.state.streams = set(range(live.MOST_STREAMS))  # type: ignore[attr-defined]
    assert many_pages.get("/live/turns").status_code == 503


def test_of_many_who_ask_at_once_no_more_than_some_listen(many_pages: TestClient) -> None:
    """All of them were let in before the first stream began."""
    many_pages.get("/")
    app: Any = many_pages.app
    app.state.streams = streams = set[object]()

    async def begun() -> list[list[str]]:
        scope = {"type": "http", "app": app, "query_string": b"", "headers": []}
        all_events = [live._events(Request(scope), streams) for _ in range(3 * live.MOST_STREAMS)]
        first = [[await anext(events)] for events in all_events]
        for events in all_events:
            assert isinstance(events, AsyncGenerator)
            await events.aclose()
        return first

    first = asyncio.run(begun())
    later = [f"retry: {live.LATER_MS}\n\n"]
    assert first.count(later) == 2 * live.MOST_STREAMS
    assert streams == set()
