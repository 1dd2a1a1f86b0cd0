"""Rules of an owner: whose they are and since which turn, on a turn's page, and the session's search finds them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from starlette.testclient import TestClient

from ce_engine import BudgetConfig, RuntimeConfig, Scope, StoreConfig, create_context_engine
from ce_engine.testing.host import HostApp, system
from tests.hosts.cli_host import url_of
from tests.unit.apps.web.visiting import plain, turn_of


SCOPE = Scope(session_id="office", user_id="mara")
WHO = {"id": SCOPE.session_id, "user": SCOPE.user_id}


class Steps:
    """A clock on which each look is a second later."""

    def __init__(self) -> None:
        self._seconds = count()

    def now_iso(self) -> str:
        at = datetime(2026, 3, 4, 9, tzinfo=UTC) + timedelta(seconds=next(self._seconds))
        return f"{at:%Y-%m-%dT%H:%M:%S}.000Z"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two turns, then a rule, three turns with it, and a rule that never went out."""
    found = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    budget = BudgetConfig(max_input_tokens=2000, reserved_reply_tokens=0)
    config = RuntimeConfig(budget=budget, store=StoreConfig(deadline_s=30))
    engine = create_context_engine(found, config=config, clock=Steps())
    engine.sync.check()
    app = HostApp(engine, SCOPE, [system("You help.")])
    for n in range(2):
        app.ask(f"Who is on shift {n}?", "Lena.")
    engine.sync.constraints.create(SCOPE, "Always answer in euros.")
    for n in range(2, 5):
        app.ask(f"Who is on shift {n}?", "Lena.")
    engine.sync.constraints.create(SCOPE, "Never mention the warehouse.")
    engine.sync.close()
    return found


def _found(client: TestClient, text: str, **headers: str) -> str:
    return plain(client.get("/session/find", params={**WHO, "find": text}, headers=headers).text)


def test_a_rule_says_whose_it_is_and_since_when(pages: TestClient) -> None:
    text = plain(turn_of(WHO, pages, 4))
    assert "rule must · user mara · since turn 3 · in 3 calls · set 2026-03-04" in text
    assert "since turn" not in plain(turn_of(WHO, pages, 2))


def test_the_search_of_a_session_finds_a_rule_that_went_out(pages: TestClient) -> None:
    text = _found(pages, "always answer")
    assert "rule · turn 3 · must · user mara · since turn 3 · in 3 calls" in text
    assert "Always answer in euros." in text


def test_a_rule_that_never_went_out_is_not_found(pages: TestClient) -> None:
    assert "no rule of this session has it" in _found(pages, "mention the warehouse")


def test_chinese_says_it_too(pages: TestClient) -> None:
    text = _found(pages, "always answer", **{"accept-language": "zh"})
    assert "必须 · 用户 mara · 自第 3 轮起 · 在 3 次调用中" in text
