"""What a notebook shows of our values: HTML that runs nothing, and `show`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

import ce_engine as ce
from ce_engine import (
    ContextEngine,
    MemoryStore,
    Report,
    Scope,
    SessionNotFoundError,
    StoreUnavailableError,
    create_context_engine,
)
from ce_engine.apps.notebook import html_of
from tests.hosts.cli_host import TALK, TIGHT, fill, talk, url_of
from tests.unit.apps.web.hostile import RAW, SCOPE, fill_hostile


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), config=TIGHT)
    talk(made, chatter=12)
    made.sync.flush()
    yield made
    made.sync.close()


class _Html(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not [name for name, _ in attrs if name.startswith("on")]
        self.tags.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> _Html:
    """The HTML, whose elements are all closed and run nothing."""
    page = _Html()
    page.feed(html)
    assert page.open == []
    assert set(page.tags).isdisjoint({"script", "style", "iframe", "img", "link"})
    return page


def test_a_report_is_shown_with_its_reasons(engine: ContextEngine) -> None:
    report = engine.sync.last_report(TALK)
    assert report is not None
    page = read(report._repr_html_())
    assert f"{report.token_used:,} of {report.token_budget:,}" in page.text
    assert "older messages or tool calls left out" in page.text
    assert page.tags.count("rect") > 3


def test_a_session_and_a_trace_are_shown(engine: ContextEngine) -> None:
    document = engine.sync.get_session(TALK)
    assert document is not None
    page = read(document._repr_html_())
    assert TALK.session_id in page.text
    assert f"{len(document.session.messages)}" in page.text
    answer = next(m for m in document.session.messages if m.content.startswith("Water that"))
    assert answer.message_id is not None
    trace = engine.sync.trace(TALK, answer.message_id)
    page = read(trace._repr_html_())
    assert "Rain is water" in page.text
    assert "library" in page.text


def test_show_draws_the_turns_of_a_session(engine: ContextEngine) -> None:
    picture = ce.show(TALK, engine=engine)
    page = read(picture._repr_html_())
    assert "15 turns" in page.text
    assert "15 turns" in repr(picture)
    assert page.tags.count("title") == 15
    by_id = ce.show(TALK.session_id, engine=engine, user=TALK.user_id, account="acme")
    assert repr(by_id) == repr(picture)


def test_show_finds_a_session_in_a_store(tmp_path: Path) -> None:
    fill(url := url_of(tmp_path / "ce.db"))
    found = ce.show(TALK.session_id, store=url, account="acme")
    assert "3 turns" in repr(found)
    assert repr(ce.show(TALK, store=url)) == repr(found)

    async def in_a_running_loop() -> str:
        return repr(ce.show(TALK.session_id, store=url, account="acme"))

    assert asyncio.run(in_a_running_loop()) == repr(found)


def test_show_says_what_is_not_there(tmp_path: Path, engine: ContextEngine) -> None:
    fill(url := url_of(tmp_path / "ce.db"))
    with pytest.raises(SessionNotFoundError):
        ce.show("nobody", store=url, account="acme")
    with pytest.raises(SessionNotFoundError):
        ce.show(TALK.session_id, store=url, account="acme", user="else")
    with pytest.raises(StoreUnavailableError):
        ce.show("s", store=url_of(tmp_path / "none.db"))
    with pytest.raises(SessionNotFoundError):
        ce.show("nobody", engine=engine)


def test_hostile_texts_harm_nothing(tmp_path: Path) -> None:
    engine = create_context_engine(fill_hostile(tmp_path))
    document = engine.sync.get_session(SCOPE)
    assert document is not None
    shown = [document, *engine.sync.list_reports(SCOPE)]
    shown += [engine.sync.trace(SCOPE, name) for name in document.evidences]
    for html in (*map(html_of, shown), ce.show(SCOPE, engine=engine)._repr_html_()):
        assert [raw for raw in RAW if raw in html] == []
        assert len(html) < 200_000
        read(html)
    engine.sync.close()


def test_a_bare_report_is_shown_too() -> None:
    assert "everything fits" in read(Report(turn_id="t")._repr_html_()).text


def test_nothing_of_it_is_imported_before_it_is_shown() -> None:
    statement = (
        "import sys\nfrom ce_engine import Report, Scope, SessionDocument, Trace\n"
        "assert not [name for name in sys.modules if name.startswith('ce_engine.apps')]\n"
        "assert 'rich' not in sys.modules\n"
        "assert 'everything fits' in Report(turn_id='t')._repr_html_()\n"
        "assert 'jinja2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", statement], check=True, timeout=60)


def test_a_scope_of_another_user_finds_nothing(engine: ContextEngine) -> None:
    other = Scope(session_id=TALK.session_id, account_id="acme", user_id="else")
    with pytest.raises(SessionNotFoundError):
        ce.show(other, engine=engine)
