"""A page asks the store nothing twice, and nothing that the page before knows: counted in SQL statements."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from starlette.testclient import TestClient

from ce_engine import Scope, create_context_engine
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import url_of
from tests.hosts.trouble_host import REFUND, fill_trouble
from tests.unit.apps.web.test_hostile_text import links_of
from tests.unit.apps.web.visiting import read, texts, visit


WHO = {"id": REFUND.session_id, "user": REFUND.user_id}
LARGE = ("ce_messages", "ce_evidence", "ce_turns", "ce_events", "ce_tool_calls", "ce_model_usage")
TURN = urlencode({**WHO, "turn": 15})
SESSION = urlencode(WHO)
NEWEST = "(SELECT max(ce_turns.id) "
"""In what asks for a session's newest turn."""


@contextmanager
def statements() -> Iterator[Counter[tuple[str, str]]]:
    """What is read of what grows with a session, with its values: how often each."""
    found: Counter[tuple[str, str]] = Counter()

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        text = " ".join(statement.split())
        of = re.search(r" FROM (\w+)", text)
        if of and of[1] in LARGE and " AND status = " not in text:
            found[text, repr(values)] += 1

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with visit(fill_trouble(tmp_path_factory.mktemp("once"))) as client:
        read(client, "/")  # the list is read all the time: let it be done
        yield client


def of_a(kind: str, pages: TestClient) -> str:
    """The first such page that the turn's page leads to."""
    return min(link for link in links_of(read(pages, f"/turn?{TURN}")) if link.startswith(kind))


def most(address: str, text: str) -> int:
    """How often a page may read it: a turn's reads a session's state as a document, and as what the turn is made again from."""
    table = text.partition(" FROM ")[2].split()[0]
    is_state = table in ("ce_messages", "ce_evidence") or NEWEST in text
    return 2 if is_state and address.startswith("/turn") else 1


@pytest.mark.parametrize(
    "address",
    [
        f"/session?{SESSION}",
        f"/session/costs?{SESSION}",
        f"/session/find?{SESSION}&find=订单",
        f"/turn?{TURN}",
        f"/turn?{TURN}&window=4000",
        f"/turn/what-if?{TURN}&window=4000",
        "/trace?",
        "/evidence?",
    ],
)
def test_a_page_reads_nothing_twice(pages: TestClient, address: str) -> None:
    address = of_a(address, pages) if address.endswith("?") else address
    pages.get(address)  # what is made at first use is there
    with statements() as found:
        assert pages.get(address).status_code == 200
    assert any("FROM ce_turns" in text for text, _ in found)
    for (text, _), count in found.items():
        assert count <= most(address, text), text


@pytest.mark.parametrize(
    "address", [f"/session?{SESSION}", f"/session/costs?{SESSION}", f"/turn?{TURN}"]
)
def test_the_next_page_of_a_session_reads_only_whether_it_moved(
    pages: TestClient, address: str
) -> None:
    first = pages.get(address).text
    with statements() as found:
        assert pages.get(address).text == first
    assert not [text for text, _ in found if "FROM ce_turns" in text and NEWEST not in text]


def test_the_next_page_shows_what_was_written_since_and_nothing_of_a_life_before(
    tmp_path: Path,
) -> None:
    url, scope = url_of(tmp_path / "ce.db"), Scope(session_id="talk")
    engine = create_context_engine(url)
    app = HostApp(engine, scope)
    app.ask("Where is invoice 7?", "In the blue folder.")
    engine.sync.flush()
    with visit(url) as pages:
        assert "invoice 7" in read(pages, "/turn?id=talk&turn=1")
        assert len(texts(read(pages, "/session?id=talk"), "tbody")[0].split("committed")) == 2
        app.ask("And invoice 8?", "In the red folder.")
        engine.sync.flush()
        assert "invoice 8" in read(pages, "/turn?id=talk&turn=2")
        assert len(texts(read(pages, "/session?id=talk"), "tbody")[0].split("committed")) == 3
        engine.sync.delete_session(scope)
        assert pages.get("/turn?id=talk&turn=1").status_code == 404
        HostApp(engine, scope).ask("Where is invoice 9?", "In the green folder.")
        engine.sync.flush()
        assert "invoice 9" in (again := read(pages, "/turn?id=talk&turn=1"))
        assert "invoice 7" not in again
        assert pages.get("/turn?id=talk&turn=2").status_code == 404
    engine.sync.close()
