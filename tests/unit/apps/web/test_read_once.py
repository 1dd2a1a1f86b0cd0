"""A page asks the store nothing twice: counted in SQL statements."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from starlette.testclient import TestClient

from tests.hosts.trouble_host import REFUND, fill_trouble
from tests.unit.apps.web.test_hostile_text import links_of
from tests.unit.apps.web.visiting import read, visit


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


def test_the_next_page_reads_what_was_written_since(pages: TestClient) -> None:
    with statements() as found:
        for _ in range(2):
            pages.get(f"/turn?{TURN}")
    turns = [(text, count) for (text, _), count in found.items() if "FROM ce_turns" in text]
    assert 2 in [count for text, count in turns if NEWEST not in text]
