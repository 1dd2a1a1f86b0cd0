"""The pages of a talk by hand: each figure is told once, and says the same wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ce_engine import create_context_engine
from tests.hosts.cli_host import url_of
from tests.hosts.shop_host import INVOICE, SHOP, Shop
from tests.unit.apps.web.visiting import visit


WHO = {"id": SHOP.session_id, "user": SHOP.user_id}
TURNS = 34


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = url_of(tmp_path_factory.mktemp("shop") / "ce.db")
    engine = create_context_engine(found)
    engine.sync.check()
    Shop(engine).talk(28)
    engine.sync.close()
    return found


@pytest.fixture
def pages(url: str) -> Iterator[TestClient]:
    with visit(url) as client:
        yield client


def plain(html: str) -> str:
    """The text of a page, on one line."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).replace("&#39;", "'").split())


def test_what_if_shows_the_other_input_in_its_order(pages: TestClient) -> None:
    part = pages.get("/turn/what-if", params={**WHO, "turn": "30", "window": "9000"}).text
    order = part.split('class="order"')[1].split("</ol>")[0]
    items = [plain(item) for item in re.findall(r"<li.*?</li>", order, re.DOTALL)]
    assert "[Constraints" in items[0]
    assert INVOICE in items[1]
    questions = [n for n, item in enumerate(items) if item.startswith("user")]
    assert len(questions) > 20
    assert questions == sorted(questions)
