"""Rules of an owner: whose they are and since which turn, on a turn's page, and the session's search finds them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ce_engine import (
    BudgetConfig,
    CollectConfig,
    ObservabilityConfig,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, system
from tests.hosts.cli_host import ce, url_of
from tests.unit.apps.web.visiting import plain, turn_of, visit


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


def test_the_page_of_a_session_has_its_rules(pages: TestClient) -> None:
    html = pages.get("/session/costs", params=WHO).text
    part = plain(html.split('class="rules"')[1].split("</details>")[0])
    assert "1 rule went out" in part
    assert "Always answer in euros. must · user mara · since turn 3 · in 3 calls" in part
    assert "warehouse" not in part


def test_a_rule_that_never_went_out_is_not_found(pages: TestClient) -> None:
    assert "no rule of this session has it" in _found(pages, "mention the warehouse")


def test_chinese_says_it_too(pages: TestClient) -> None:
    text = _found(pages, "always answer", **{"accept-language": "zh"})
    assert "必须 · 用户 mara · 自第 3 轮起 · 在 3 次调用中" in text


# Rules that were changed or deleted since

CHANGED = Scope(session_id="shop", user_id="mara")
SHOP = {"id": CHANGED.session_id, "user": CHANGED.user_id}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """A store, and what went out as the system's message: turns 2 and 3 have euros, 3 also dates; 4 euros with VAT and dates; 5 only euros with VAT."""
    found = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    engine = create_context_engine(found, clock=Steps())
    engine.sync.check()
    app, rules, wire = HostApp(engine, CHANGED, [system("You help.")]), engine.sync.constraints, []

    def ask() -> None:
        prepared = app.ask("What does tea cost?", "Nine.")
        wire.append(prepared.assembled.parts[0].content)

    ask()
    euros = rules.create(CHANGED, "Quote amounts in euros only.")
    ask()
    dates = rules.create(CHANGED, "Never promise dates.")
    ask()
    rules.update(CHANGED, euros.constraint_id, text="Quote amounts in euros with VAT.")
    ask()
    rules.delete(CHANGED, dates.constraint_id)
    ask()
    engine.sync.close()
    return found, wire


@pytest.fixture
def shop_pages(shop: tuple[str, list[str]]) -> Iterator[TestClient]:
    with visit(shop[0]) as client:
        yield client


GONE_TEXTS = ("euros only", "promise dates")


def _turn(client: TestClient, turn: int, **headers: str) -> str:
    answer = client.get("/turn", params={**SHOP, "turn": str(turn)}, headers=headers)
    return plain(answer.text)


def test_what_became_of_rules_stands_among_what_changed(shop_pages: TestClient) -> None:
    def changed(turn: int) -> str:
        html = shop_pages.get("/turn", params={**SHOP, "turn": str(turn)}).text
        return plain(html.split('id="changes"')[1].split("</section>")[0])

    assert "new rule (1) The text is not there any more." in changed(2)
    assert "new rule (1) The text is not there any more." in changed(3)
    assert "rule with another text (1) Quote amounts in euros with VAT." in changed(4)
    assert "rule that goes out no more (1) The text is not there any more." in changed(5)
    assert "new rule" not in changed(5)


def test_a_system_message_with_rules_is_never_told_as_the_app_gave_it(
    shop: tuple[str, list[str]], shop_pages: TestClient
) -> None:
    _, wire = shop
    assert ["must not be violated" in text for text in wire] == [False, True, True, True, True]
    for turn, text in enumerate(wire, start=1):
        row = _turn(shop_pages, turn).partition("The app's own instructions")[2]
        row = row.partition(" user ")[0]
        assert ("Rules stand with it." in row) is ("must not be violated" in text)
        assert ("as the app gave it" in row) is ("must not be violated" not in text)
        assert row.count("of this rule") == sum(each in text for each in GONE_TEXTS)
        assert ("in euros with VAT." in row) is ("with VAT" in text)


def test_the_row_of_the_system_message_costs_what_it_cost(
    shop: tuple[str, list[str]], shop_pages: TestClient
) -> None:
    report = json.loads(ce("report", "shop", "--store", shop[0], "--json").stdout)[2]["report"]
    told = report["payload_tokens"]
    assert f"extended {told['system'] + told['rules']} tokens" in _turn(shop_pages, 3)


def test_what_became_of_a_rule_is_told_where_it_went_out(shop_pages: TestClient) -> None:
    third, fourth, fifth = (_turn(shop_pages, turn) for turn in (3, 4, 5))
    assert (
        "must · user mara · since turn 2 · in 4 calls · changed in turn 4 · first set 2026" in third
    )
    assert "user mara · since turn 3 · in 2 calls · deleted after turn 4 [The text" in third
    assert "since turn 2 · in 4 calls · with this text since turn 4 · first set 2026" in fourth
    assert "rules changed or deleted since: 2 of 2" in third
    assert "rules changed or deleted since: 1 of 2" in fourth
    assert "not exactly what was sent" not in fifth
    assert not any(gone in text for text in (third, fourth, fifth) for gone in GONE_TEXTS)


def test_the_search_does_not_deny_what_a_rule_said(shop_pages: TestClient) -> None:
    for wanted in ("promise dates", "euros only"):
        found = plain(shop_pages.get("/session/find", params={**SHOP, "find": wanted}).text)
        assert "from turn 3 to turn 4; it was deleted since" in found
        assert "from turn 2 to turn 3, with a text that was changed since" in found
    found = plain(shop_pages.get("/session/find", params={**SHOP, "find": "with VAT"}).text)
    assert "rule · turn 4 · must · user mara" in found
    assert "with this text since turn 4" in found


def test_the_commands_say_the_same_as_the_page(shop: tuple[str, list[str]]) -> None:
    for args in (["replay", "--json"], ["report", "--turn", "3"]):
        turn = [] if "--turn" in args else ["--turn", "3"]
        done = ce(args[0], "shop", "--store", shop[0], *args[1:], *turn, columns=300)
        assert "it was changed since." in done.stdout
        assert "it is not set any more." in done.stdout
        assert "rules changed or deleted since: 2 of 2" in done.stdout
        assert not any(gone in done.stdout for gone in GONE_TEXTS)


def test_chinese_tells_how_many_rules_were_changed(shop_pages: TestClient) -> None:
    text = _turn(shop_pages, 4, **{"accept-language": "zh"})
    assert "2 条规则中有 1 条后来改动或删除" in text
    assert "这条规则的文本已不在" in text
    assert "not there any more" not in text


def test_the_page_of_a_session_says_which_turns_had_a_text_that_is_not_kept(
    shop_pages: TestClient,
) -> None:
    html = shop_pages.get("/session/costs", params=SHOP).text
    part = plain(html.split('class="rules"')[1].split("</details>")[0])
    assert "2 rules went out · one was changed: 4" in part
    assert "Quote amounts in euros with VAT." in part
    assert "with another text, which is not kept: 2 – 3" in part
    assert part.count("another text") == 1


def test_an_app_that_keeps_what_it_put_in_has_the_text_of_then_until_the_rule_is_deleted(
    tmp_path: Path,
) -> None:
    found = url_of(tmp_path / "ce.db")
    config = RuntimeConfig(
        observability=ObservabilityConfig(store_contexts=True),
        store=StoreConfig(deadline_s=20),
        collect=CollectConfig(deadline_s=20),
    )
    engine = create_context_engine(found, config=config, clock=Steps())
    engine.sync.check()
    app, rules = HostApp(engine, CHANGED, [system("You help.")]), engine.sync.constraints
    euros = rules.create(CHANGED, "Quote amounts in euros only.")
    for text in ("Quote amounts in euros with VAT.", "Quote no amounts."):
        app.ask("What does tea cost?", "Nine.")
        app.ask("And milk?", "Four.")
        rules.update(CHANGED, euros.constraint_id, text=text)
    app.ask("And salt?", "Two.")
    engine.sync.flush()
    with visit(found) as client:
        html = client.get("/session/costs", params=SHOP).text
        part = plain(html.split('class="rules"')[1].split("</details>")[0])
        assert "one was changed: 3 , 5" in part
        assert "with this text: 1 – 2 Quote amounts in euros only." in part
        assert "with this text: 3 – 4 Quote amounts in euros with VAT." in part
        assert "not kept" not in part
        found_text = plain(client.get("/session/find", params={**SHOP, "find": "with VAT"}).text)
        assert "rule · turn 3 · must · user mara" in found_text
        rules.delete(CHANGED, euros.constraint_id)
        found_text = plain(client.get("/session/find", params={**SHOP, "find": "with VAT"}).text)
        assert "no rule of this session has it" in found_text or "not there" in found_text
    engine.sync.close()
