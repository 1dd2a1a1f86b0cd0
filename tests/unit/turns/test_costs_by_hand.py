"""By hand: what the app itself put in stands in what it would have paid without us, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ce_engine import ContextEngine, Report
from ce_engine.prepare.compose.sections import FRAMING
from ce_engine.text.tokens.call_tokens import PRIMING
from tests.hosts.cli_host import ce, url_of
from tests.hosts.shop_host import POLICY, Shop, shop_engine


@pytest.fixture
def url(tmp_path: Path) -> str:
    return url_of(tmp_path / "ce.db")


@pytest.fixture
def engine(url: str) -> Iterator[ContextEngine]:
    made = shop_engine(url)
    yield made
    made.sync.close()


def test_the_same_rules_cost_the_same_in_each_turn(engine: ContextEngine) -> None:
    """Alone, and beside what is brought in."""
    shop = Shop(engine)
    shop.talk(28)
    assert any(report.payload_tokens.get("knowledge") for report in shop.reports)
    rules = {report.payload_tokens["rules"] for report in shop.reports}
    assert len(rules) == 1
    for report in shop.reports:
        both = report.payload_tokens["system"] + report.payload_tokens["rules"]
        assert report.layers["rules"].tokens == both
        assert sum(report.payload_tokens.values()) == report.token_used


def test_rules_that_the_app_stored_are_no_cost_of_ours(engine: ContextEngine) -> None:
    """Without us it would send them itself: as long as there is room, both are the same to the token."""
    shop = Shop(engine)
    shop.talk(8)
    for report in shop.reports:
        assert report.untouched is not None
        assert report.untouched.put_in == report.payload_tokens["rules"] > 0
        assert report.untouched.tokens == report.token_used
        assert report.untouched.prefix == report.prefix_tokens_unchanged


def test_evidence_is_of_the_question_that_it_was_recorded_for(engine: ContextEngine) -> None:
    """In all calls of that question, and in none of the next: what we still send then is ours."""
    shop = Shop(engine)
    shop.talk(3)
    shop.record(POLICY)
    shop.look_up("desk")  # two calls
    asked, after = shop.reports[-2:]
    later = shop.ask("What does our return policy say about the restocking fee?", "6 percent.")
    documents = [_put_in(report) - report.payload_tokens["rules"] for report in (asked, after)]
    assert documents[0] == documents[1] > 20
    assert after.untouched is not None
    assert asked.untouched is not None
    assert after.untouched.prefix == asked.untouched.tokens - PRIMING - FRAMING
    assert _put_in(later) == later.payload_tokens["rules"]
    assert "knowledge" in later.payload_tokens


def _put_in(report: Report) -> int:
    assert report.untouched is not None
    return report.untouched.put_in or 0


def test_a_new_rule_is_no_prefix_without_us_either(engine: ContextEngine) -> None:
    shop = Shop(engine)
    shop.talk(6)
    engine.sync.constraints.create(shop.scope, "Be kind.")
    report = shop.ask("And the sign?", "It is green.")
    assert report.untouched is not None
    assert report.untouched.tokens == report.token_used
    assert report.untouched.prefix == report.prefix_tokens_unchanged
    assert (report.untouched.prefix or 0) < 200


def test_what_is_brought_back_follows_what_the_talk_alone_has_saved(url: str) -> None:
    """What the app put in makes nothing cheaper that we send: credit is told without it, by the next process, too."""
    engine = shop_engine(url)
    shop = Shop(engine, tools=False)
    shop.talk(24)
    engine.sync.close()
    cost = shop.reports[-1].session_cost
    assert cost is not None
    assert cost.talk is not None
    assert cost.talk < cost.untouched
    second = shop_engine(url, "second-")
    shop.engine = second
    report = shop.ask("When is the invoice INV-2041 due, and over how much is it?", "14 March.")
    assert report.recall is not None
    assert report.recall.credit == round(cost.talk - cost.sent)
    second.sync.close()


def test_the_page_says_what_stands_beside_a_talk_by_hand(engine: ContextEngine, url: str) -> None:
    shop = Shop(engine)
    shop.talk(10)
    engine.sync.close()
    text = " ".join(ce("report", shop.scope.session_id, "--store", url).stdout.split())
    assert "with the rules that the app stored" in text
    assert "the evidence that it recorded for each question" in text
