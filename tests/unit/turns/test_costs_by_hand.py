"""By hand: what the app itself put in stands in what it would have paid without us, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ce_engine import ContextEngine, create_context_engine
from tests.hosts.cli_host import ce, url_of
from tests.hosts.shop_host import POLICY, RULES, Shop


@pytest.fixture
def url(tmp_path: Path) -> str:
    return url_of(tmp_path / "ce.db")


@pytest.fixture
def engine(url: str) -> Iterator[ContextEngine]:
    made = create_context_engine(url)
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
