"""`ce migrate`: documents of older schema versions (A-06)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ce_engine import parse_document
from tests.hosts.cli_host import ce
from tests.unit.schema.test_migration import DRAFT, FILLED


pytestmark = pytest.mark.req("A-06")


def test_a_document_is_printed_as_one_of_this_version_and_its_changes_beside_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "draft.json"
    path.write_text(json.dumps(DRAFT), encoding="utf-8")
    result = ce("migrate", str(path))
    assert parse_document(result.stdout) == parse_document(FILLED)
    assert "renamed in 2 messages: timestamp -> at" in result.stderr
    assert json.loads(path.read_text(encoding="utf-8")) == DRAFT


def test_it_is_written_where_one_asks_for_it(tmp_path: Path) -> None:
    path, out = tmp_path / "old.json", tmp_path / "new.json"
    path.write_text(json.dumps(FILLED), encoding="utf-8")
    told = json.loads(ce("migrate", str(path), "--out", str(out), "--json").stdout)
    assert told["changes"][0] == "schema_version 1.0 -> 1.1"
    assert "document" not in told
    assert parse_document(out.read_text(encoding="utf-8")) == parse_document(FILLED)
    assert "张伟" in out.read_text(encoding="utf-8")
    again = ce("migrate", str(out), "--out", str(tmp_path / "again.json"))
    assert again.stdout == "nothing to do: it is of version 1.1\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [("{", "cannot be read as JSON"), ("[]", "holds a list"), ("{}", "schema_version is None")],
)
def test_what_is_no_document_is_refused_with_the_cure(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    result = ce("migrate", str(path))
    assert result.exit_code == 1
    assert "CONTEXT_SCHEMA_INVALID" in result.stderr
    assert problem in result.stderr


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(FILLED), encoding="utf-8")
    result = ce("migrate", str(path), "--out", str(tmp_path / "none" / "new.json"))
    assert result.exit_code == 1
    assert "cannot be written" in result.stderr


def test_what_is_there_is_left_and_a_new_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    path, there, link = (tmp_path / name for name in ("old.json", "there.db", "link.json"))
    path.write_text(json.dumps(FILLED), encoding="utf-8")
    there.write_text("a store", encoding="utf-8")
    link.symlink_to(there)
    for out in (there, link, path):
        result = ce("migrate", str(path), "--out", str(out))
        assert result.exit_code == 1
        assert "is there already" in result.stderr
    assert there.read_text(encoding="utf-8") == "a store"
    assert ce("migrate", str(path), "--out", str(tmp_path / "new.json")).exit_code == 0
    assert (tmp_path / "new.json").stat().st_mode & 0o777 == 0o600
