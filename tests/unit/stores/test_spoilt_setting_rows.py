"""A setting's row that somebody spoilt is one forged setting: it is named, set anew and deleted, and its neighbours are read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from ce_engine import (
    BudgetConfig,
    Constraint,
    ContextEngine,
    SchemaValidationError,
    SettingForgedError,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, user
from tests.unit.stores.test_hostile_stores import DEEP, PATIENT, SCOPE, fill


SPOILT_SETTINGS = {
    "nested too deep": f"value = '{DEEP}'",
    "no JSON": "value = '{'",
    "a blob": "value = X'00ff'",
    "a number": "value = 7.5",
    "an envelope without a key's id": "value = char(2) || 'seal:AAAA'",
    "a version that is none": "version = 'abc'",
    "a negative version": "version = -5",
    "MACs that are a number": "macs = 1000000000000",
    "MACs that are a text": "macs = 'x'",
    "a value that is none, of an older release": "value = '{', macs = NULL",
}


@pytest.fixture(params=SPOILT_SETTINGS)
def spoilt(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ContextEngine]:
    """A store where somebody spoilt anna's constraints, beside which she has a budget."""
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    fill(url)
    engine = create_context_engine(url, config=PATIENT)
    engine.sync.budgets.update(SCOPE, BudgetConfig(max_input_tokens=9000), 0, actor="anna")
    engine.sync.close()
    with closing(sqlite3.connect(tmp_path / "ce.db")) as database, database:
        change = f"UPDATE ce_settings SET {SPOILT_SETTINGS[request.param]}"
        done = database.execute(f"{change} WHERE user_id = 'anna' AND name = 'constraints'")
        assert done.rowcount == 1
    engine = create_context_engine(url, config=PATIENT)
    yield engine
    engine.sync.close()


def standing(engine: ContextEngine, whose: str = "anna") -> set[str]:
    return {each.status for each in engine.sync.verify_settings("", whose)}


def test_a_row_that_was_spoilt_is_deleted_with_its_owner(spoilt: ContextEngine) -> None:
    assert standing(spoilt) == {"tampered"}
    assert standing(spoilt, "ben") == {"intact"}
    assert spoilt.sync.delete_user_data("", "anna").settings == 2
    assert standing(spoilt) == {"intact"}


def test_a_row_that_was_spoilt_is_set_anew(spoilt: ContextEngine) -> None:
    """As the error says, and what lies beside it is read and set meanwhile."""
    version = spoilt.sync.budgets.get(SCOPE)[1]
    spoilt.sync.budgets.update(SCOPE, BudgetConfig(max_input_tokens=8000), version, actor="anna")
    with pytest.raises(SettingForgedError, match="ce constraints accept"):
        spoilt.sync.constraints.list(SCOPE)
    assert standing(spoilt) == {"tampered"}
    assert "CONTEXT_SETTING_FORGED: constraints" in warnings(spoilt)
    assert spoilt.sync.constraints.accept(SCOPE, [], shown=shown(spoilt)) == []
    spoilt.sync.constraints.create(SCOPE, "请简短")
    assert warnings(spoilt) == []
    assert spoilt.sync.budgets.get(SCOPE)[0].max_input_tokens == 8000
    assert standing(spoilt) == {"intact"}


def shown(engine: ContextEngine) -> Sequence[Constraint]:
    """What of the constraints can be read still."""
    try:
        return engine.sync.constraints.list(SCOPE, forged=True)
    except SchemaValidationError:
        return []


def warnings(engine: ContextEngine) -> list[str]:
    """What a call's report says of settings."""
    report = HostApp(engine, SCOPE).prepare(user("Go on?")).report
    return [each for each in report.warnings if "SETTING" in each]


def test_a_value_that_was_spoilt_leaves_what_lies_beside_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    fill(url)
    engine = create_context_engine(url, config=PATIENT)
    engine.sync.budgets.update(SCOPE, BudgetConfig(max_input_tokens=9000), 0, actor="anna")
    with closing(sqlite3.connect(tmp_path / "ce.db")) as database, database:
        database.execute("UPDATE ce_settings SET value = '{' WHERE name = 'constraints'")
    assert engine.sync.budgets.get(SCOPE)[0].max_input_tokens == 9000
    assert warnings(engine) == ["CONTEXT_SETTING_FORGED: constraints"]
    engine.sync.close()


def test_what_was_deleted_and_is_spoilt_is_no_deletion(tmp_path: Path) -> None:
    """Its MAC says that there is nothing, and there is something, which nobody can read."""
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    fill(url)
    engine = create_context_engine(url, config=PATIENT)
    engine.sync.delete_user_data("", "anna")
    with closing(sqlite3.connect(tmp_path / "ce.db")) as database, database:
        database.execute("UPDATE ce_settings SET value = '{' WHERE user_id = 'anna'")
    assert standing(engine) == {"tampered"}
    engine.sync.close()
