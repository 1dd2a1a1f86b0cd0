"""The file of a user's settings: readable, whole or named as damaged, and rid of what a killed writer left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ce_engine.errors import ContextEngineError, MigrationError, StoreUnavailableError
from ce_engine.ports.store import Store
from ce_engine.testing.samples import SCOPE
from tests.hosts.store_host import run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    async def work(store: Store) -> None:
        await store.put_setting(SCOPE, "constraints", {"items": ["短句"]})

    run(tmp_path / "sessions", work)
    return tmp_path / "sessions"


def settings_in(root: Path) -> Path:
    [file] = root.rglob("settings.json")
    return file


def test_people_can_read_it(root: Path) -> None:
    text = settings_in(root).read_text(encoding="utf-8")
    assert "短句" in text
    [found] = json.loads(text)["settings"]
    assert len(bytes.fromhex(found.pop("macs"))) == 32
    assert found == {
        "project_id": "",
        "name": "constraints",
        "value": {"items": ["短句"]},
        "version": 1,
    }


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        ("", StoreUnavailableError),
        ("{", StoreUnavailableError),
        ("[]", StoreUnavailableError),
        ('{"format": 1}', StoreUnavailableError),
        ('{"format": 2}', StoreUnavailableError),
        ('{"format": 3}', MigrationError),
        (
            '{"format": 1, "account_id": "b", "user_id": "u", "settings": []}',
            StoreUnavailableError,
        ),
    ],
)
def test_a_damaged_file_is_named_and_left_as_it_is(
    root: Path, damage: str, error: type[ContextEngineError]
) -> None:
    file = settings_in(root)
    file.write_text(damage)

    async def work(store: Store) -> None:
        for call in (
            store.version(SCOPE),
            store.get_setting(SCOPE, "constraints"),
            store.put_setting(SCOPE, "constraints", 1),
        ):
            with pytest.raises(error, match=r"settings\.json"):
                await call

    run(root, work)
    assert file.read_text() == damage


@pytest.mark.req("A-30")
def test_a_purge_takes_away_what_a_killed_writer_left(root: Path) -> None:
    draft = settings_in(root).with_name("settings.json.new")
    draft.write_text("canary")
    run(root, lambda store: store.purge())
    assert not draft.exists()
    assert settings_in(root).exists()
