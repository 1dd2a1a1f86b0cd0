"""`ce constraints`: list, add, update, delete (D-06)."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ce_engine import Scope, create_context_engine
from ce_engine.stores.urls import local_path
from tests.hosts.cli_host import ce, url_of


pytestmark = pytest.mark.req("D-06")
OWNER = ("--account", "acme", "--user", "张伟", "--project", "小说")


@pytest.fixture
def at(tmp_path: Path) -> tuple[str, ...]:
    engine = create_context_engine(url := url_of(tmp_path / "ce.db"))
    engine.sync.check()
    engine.sync.close()
    return ("--store", url, *OWNER)


def test_a_constraint_from_the_command_line_is_there_for_the_app(at: tuple[str, ...]) -> None:
    assert "no constraints" in ce("constraints", "list", *at).stdout
    [made] = json.loads(ce("constraints", "add", "严格第一人称叙述", "--json", *at).stdout)
    ce("constraints", "add", "短句\n\x1b[31m", "--derived", "--priority", "low", *at)
    shown = ce("constraints", "list", *at).stdout.splitlines()
    assert shown[0] == f"{made['constraint_id']}  严格第一人称叙述  (must)"
    assert shown[1].endswith("短句 \\x1b[31m  (low, derived)")
    ce("constraints", "update", made["constraint_id"], "第三人称", "--priority", "high", *at)
    engine = create_context_engine(at[1])
    scope = Scope(session_id="s", account_id="acme", user_id="张伟", project_id="小说")
    assert [c.text for c in engine.sync.constraints.list(scope)] == ["第三人称", "短句\n\x1b[31m"]
    engine.sync.close()
    assert ce("constraints", "delete", made["constraint_id"], *at).exit_code == 0
    assert len(json.loads(ce("constraints", "list", "--json", *at).stdout)) == 1
    assert json.loads(ce("constraints", "list", "--json", *at[:2]).stdout) == []


def test_an_error_is_one_line_with_its_code(at: tuple[str, ...]) -> None:
    done = ce("constraints", "delete", "none", *at)
    assert done.exit_code == 1
    assert done.stderr.startswith("error [CONTEXT_CONSTRAINT_NOT_FOUND]: ")
    done = ce("constraints", "add", " ", "--json", *at)
    assert json.loads(done.stderr)["error"]["code"] == "CONTEXT_SCHEMA_INVALID"
    assert ce("constraints", "add", "x", "--priority", "low", *at).exit_code == 1
    assert ce("constraints", "add").exit_code == 2


def test_constraints_of_a_kind(at: tuple[str, ...]) -> None:
    ce("constraints", "add", "短句", "--kind", "style", *at)
    ce("constraints", "add", "没有魔法", "--kind", "世界观", *at)
    assert "(世界观, must)" in ce("constraints", "list", *at).stdout
    [only] = json.loads(ce("constraints", "list", "--kind", "style", "--json", *at).stdout)
    assert (only["text"], only["kind"]) == ("短句", "style")


@pytest.mark.req("B-01", "B-08")
@pytest.mark.parametrize(
    ("change", "option", "standing", "mark"),
    [
        ("macs = NULL", [], "unverified", "not verified"),
        ("value = replace(value, '短句', '长句')", ["--all"], "forged", "forged"),
    ],
)
def test_a_constraint_that_is_not_known_to_be_the_owners_is_marked(
    change: str, option: list[str], standing: str, mark: str, at: tuple[str, ...]
) -> None:
    ce("constraints", "add", "短句", *at)
    assert ce("constraints", "list", *at).stdout.strip().endswith("短句  (must)")
    [whole] = json.loads(ce("constraints", "list", "--json", *at).stdout)
    assert whole["standing"] == "intact"
    with closing(sqlite3.connect(local_path(at[1]))) as database, database:
        assert database.execute(f"UPDATE ce_settings SET {change}").rowcount == 1
    assert f"句  (must, {mark})" in ce("constraints", "list", *option, *at).stdout
    [found] = json.loads(ce("constraints", "list", *option, "--json", *at).stdout)
    assert found["standing"] == standing
    engine = create_context_engine(at[1])
    [setting] = engine.sync.export_user_data("acme", "张伟").settings
    assert (setting.name, setting.standing) == ("constraints", standing)
    engine.sync.close()
