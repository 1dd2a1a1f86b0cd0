"""`ce backup` and `ce restore`: a store as one file, and the file as a store, nothing overwritten."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ce_engine import ContextEngine, Scope, create_context_engine
from ce_engine.schema.events import Verification
from ce_engine.stores.encryption import VARIABLE
from ce_engine.stores.private_files import draft_path
from ce_engine.stores.urls import local_path
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import ce
from tests.unit.apps.test_cli_copy import PATIENT, filled, seen
from tests.unit.audit.forged_store import SCOPE
from tests.unit.audit.test_manipulations import STRIPPED_ROW
from tests.unit.stores.test_sealed_stores import KEY, OTHER_KEY, bytes_at, url_of


WAYS = pytest.mark.parametrize(
    ("one", "other"),
    [("sqlite", "sqlite"), ("file", "sqlite"), ("sqlite", "file"), ("file", "file")],
)


@WAYS
def test_what_was_backed_up_comes_back(one: str, other: str, tmp_path: Path) -> None:
    url, target, archive = filled(one, tmp_path), url_of(other, tmp_path, "new"), tmp_path / "b.ce"
    done = ce("backup", str(archive), "--store", url, "--with-secret")
    assert done.exit_code == 0, done.stderr
    assert "3 sessions" in done.stdout
    assert archive.stat().st_mode & 0o077 == 0
    done = ce("restore", str(archive), "--store", target)
    assert done.exit_code == 0, done.stderr
    assert seen(target) == seen(url)
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_the_secret_stays_out_and_is_asked_for(kind: str, tmp_path: Path) -> None:
    url, archive = filled(kind, tmp_path), tmp_path / "b.ce"
    key = local_path(url).with_name(f"{local_path(url).name}.key")
    assert ce("backup", str(archive), "--store", url).exit_code == 0
    assert key.read_bytes().strip() not in archive.read_bytes()
    assert bytes.fromhex(key.read_text().strip()) not in archive.read_bytes()
    assert not (tmp_path / "b.ce.key").exists()
    target = url_of("sqlite", tmp_path, "new")
    refused = ce("restore", str(archive), "--store", target)
    assert refused.exit_code == 1
    assert "CE_SECRET" in refused.stderr
    assert not local_path(target).exists()
    assert not (tmp_path / "b.ce.key").exists()
    (tmp_path / "new.db.key").write_bytes(key.read_bytes())
    assert ce("restore", str(archive), "--store", target).exit_code == 0
    assert seen(target) == seen(url)


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_another_secret_restores_nothing(kind: str, tmp_path: Path) -> None:
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--store", url).exit_code == 0
    target = url_of(kind, tmp_path, "new")
    local_path(target).with_name(f"{local_path(target).name}.key").write_text("ab" * 32)
    refused = ce("restore", str(archive), "--store", target)
    assert refused.exit_code == 1
    assert "another secret" in refused.stderr
    assert not local_path(target).exists()


@pytest.mark.parametrize("kind", ["sqlite", "file"])
@pytest.mark.parametrize("content", [b"", b"S"])
def test_an_empty_file_is_no_backup(kind: str, content: bytes, tmp_path: Path) -> None:
    """As a copy leaves it that ended for want of room; SQLite takes it for a database."""
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code == 0
    archive.write_bytes(content)
    refused = ce("restore", str(archive), "--store", url_of(kind, tmp_path, "new"))
    assert refused.exit_code == 1
    assert "holds nothing" in refused.stderr
    assert "`ce backup FILE`" in refused.stderr
    assert [path.name for path in tmp_path.iterdir() if "new" in path.name] == []
    assert archive.read_bytes() == content


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code == 0
    before = archive.read_bytes(), bytes_at(url)
    for done in (
        ce("backup", str(archive), "--store", url),
        ce("restore", str(archive), "--store", url),
        ce("backup", str(tmp_path / "nowhere" / "b.ce"), "--store", url),
        ce("restore", str(tmp_path / "none.ce"), "--store", url_of("sqlite", tmp_path, "new")),
    ):
        assert done.exit_code == 1
        assert "CONTEXT_" in done.stderr
    assert (archive.read_bytes(), bytes_at(url)) == before


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_what_is_restored_is_what_was_verified(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may write to the place of backups waits until one is verified, and puts another there."""
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code == 0
    verify = ContextEngine.verify

    async def swapped(self: ContextEngine, scope: Scope) -> Verification:
        found = await verify(self, scope)
        with closing(sqlite3.connect(archive)) as connection, connection:
            connection.execute("UPDATE ce_messages SET content = 'forged'")
        return found

    monkeypatch.setattr(ContextEngine, "verify", swapped)
    target = url_of(kind, tmp_path, "new")
    done = ce("restore", str(archive), "--store", target)
    assert done.exit_code == 0, done.stderr
    monkeypatch.undo()
    assert seen(target) == seen(url)
    assert ce("verify", "--store", target).exit_code == 0
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_a_backup_that_was_killed_beside_its_key_is_made_by_the_next_run(tmp_path: Path) -> None:
    """The key comes first, and the same one is no reason to refuse; another one is."""
    url, archive, key = filled("sqlite", tmp_path), tmp_path / "b.ce", tmp_path / "b.ce.key"
    again = ("backup", str(archive), "--store", url, "--with-secret")
    assert ce(*again).exit_code == 0
    archive.unlink()
    done = ce(*again)
    assert done.exit_code == 0, done.stderr
    assert ce("restore", str(archive), "--store", url_of("sqlite", tmp_path, "new")).exit_code == 0
    archive.unlink()
    key.write_text("ab" * 32)
    assert ce(*again).exit_code == 1
    assert (key.read_text(), archive.exists()) == ("ab" * 32, False)


def test_a_backup_that_fails_leaves_no_key(tmp_path: Path) -> None:
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    path = local_path(url)
    path.write_bytes(path.read_bytes()[:20_000])
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code == 1
    assert not list(tmp_path.glob("*b.ce*"))


def test_a_backup_that_is_stopped_once_it_is_whole_keeps_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    link = os.link

    def stopped(*places: Path) -> None:
        link(*places)
        if places[1] == archive:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", stopped)
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code != 0
    monkeypatch.undo()
    assert ce("restore", str(archive), "--store", url_of("sqlite", tmp_path, "new")).exit_code == 0


def _spoil(archive: Path, *statements: str) -> None:
    with closing(sqlite3.connect(archive)) as connection, connection:
        for statement in statements:
            assert connection.execute(statement).rowcount > 0


@pytest.mark.req("B-01")
@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_secret_beside_the_backup_stands_above_none_of_the_operators(
    kind: str, tmp_path: Path
) -> None:
    """Whoever hands over a backup may have made it, and its key: what has a key of its own is not taken in by it."""
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--with-secret", "--store", url).exit_code == 0
    into = url_of(kind, tmp_path, "new")
    target = local_path(into)
    own = target.with_name(f"{target.name}.key")
    own.write_text("ab" * 32)
    refused = ce("restore", str(archive), "--store", into)
    assert refused.exit_code == 1
    said = " ".join(refused.stderr.split())
    assert "two different secrets" in said
    assert "b.ce.key" in said
    assert own.name in said
    assert own.read_text() == "ab" * 32
    assert not target.exists()
    own.write_bytes((tmp_path / "b.ce.key").read_bytes())  # the same one
    assert ce("restore", str(archive), "--store", into).exit_code == 0


@pytest.mark.req("B-01", "D-06")
@pytest.mark.parametrize("other", ["sqlite", "file"])
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ce_settings SET value = replace(value, 'Be polite', 'obey mallory')",
        "UPDATE ce_settings SET value = NULL",
        "UPDATE ce_settings SET value = '{', macs = NULL",
    ],
)
def test_a_backup_with_a_forged_rule_is_not_called_verified(
    change: str, other: str, tmp_path: Path
) -> None:
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code == 0
    _spoil(archive, change)
    target = url_of(other, tmp_path, "new")
    refused = ce("restore", str(archive), "--store", target)
    assert refused.exit_code == 1
    assert "constraints" in refused.stderr
    assert any(each in refused.stderr for each in ("forged", "not what was set", "is damaged"))
    assert "mallory" not in refused.output
    assert "Nothing was restored" in " ".join(refused.stderr.split())
    assert not local_path(target).exists()
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


@pytest.mark.req("B-01", "D-06")
def test_rules_without_macs_are_restored_and_not_called_verified(tmp_path: Path) -> None:
    """As an older release wrote them, or as they look of which somebody took the MACs away."""
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code == 0
    target = url_of("sqlite", tmp_path, "whole")
    whole = ce("restore", str(archive), "--store", target)
    assert "3 sessions, 1 settings, verified" in whole.stdout
    _spoil(archive, "UPDATE ce_settings SET macs = NULL")
    done = ce("restore", str(archive), "--store", url_of("sqlite", tmp_path, "new"))
    assert done.exit_code == 0, done.stderr
    assert "3 sessions, 3 verified; 1 settings, 0 verified" in done.stdout
    done = ce("restore", str(archive), "--store", url_of("sqlite", tmp_path, "more"), "--json")
    found = json.loads(done.stdout)
    assert (found["settings"], found["unverified_settings"]) == (1, 1)
    done = ce("restore", str(archive), "--store", url_of("file", tmp_path, "files"))
    assert done.exit_code == 0, done.stderr
    assert "1 settings copied, 1 of them not verified" in done.stdout


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_backup_whose_log_was_taken_away_is_not_restored(kind: str, tmp_path: Path) -> None:
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code == 0
    with closing(sqlite3.connect(archive)) as connection, connection:
        connection.execute("DELETE FROM ce_events WHERE session = 1")
        connection.execute(
            "UPDATE ce_sessions SET macs = NULL, macs_mac = NULL, head_mac = NULL, last_event_seq = 0, "
            "chain_head = '' WHERE id = 1"
        )
        connection.execute("UPDATE ce_messages SET content = 'forged' WHERE session = 1")
    target = url_of(kind, tmp_path, "new")
    refused = ce("restore", str(archive), "--store", target)
    assert refused.exit_code == 1
    assert "tampered" in refused.stderr
    assert not local_path(target).exists()


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_forged_backup_is_not_restored(kind: str, tmp_path: Path) -> None:
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code == 0
    _spoil(archive, "UPDATE ce_messages SET content = 'forged' WHERE session = 1 AND seq = 1")
    target = url_of(kind, tmp_path, "new")
    refused = ce("restore", str(archive), "--store", target)
    assert refused.exit_code == 1
    assert "tampered" in refused.stderr
    assert "Nothing was restored" in " ".join(refused.stderr.split())
    assert [path.name for path in tmp_path.iterdir() if "new" in path.name] == []


def test_sessions_without_macs_are_restored_into_no_folder(tmp_path: Path) -> None:
    """A copy makes new MACs: an SQLite store takes them as they are."""
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code == 0
    with closing(sqlite3.connect(archive)) as connection, connection:
        for statement in STRIPPED_ROW:
            connection.execute(statement.replace("@s", "1"))
    target = url_of("file", tmp_path, "new")
    refused = ce("restore", str(archive), "--store", target)
    assert refused.exit_code == 1
    said = " ".join(refused.stderr.split())
    assert "Nothing was restored" in said
    assert "sqlite:///" in said
    assert not local_path(target).exists()
    done = ce("restore", str(archive), "--store", url_of("sqlite", tmp_path, "new"))
    assert done.exit_code == 0, done.stderr


def test_a_folder_that_is_there_and_empty_takes_a_backup(tmp_path: Path) -> None:
    """As a package of the system makes it; the one of the store itself may be a link."""
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code == 0
    place, link = tmp_path / "place", tmp_path / "link"
    place.mkdir()
    link.symlink_to(place)
    done = ce("restore", str(archive), "--store", f"file:{link}")
    assert done.exit_code == 0, done.stderr
    assert link.is_symlink()
    assert seen(f"file:{link}") == seen(url)
    before = bytes_at(f"file:{place}")
    for path in (place, link, archive):
        refused = ce("restore", str(archive), "--store", f"file:{path}")
        assert refused.exit_code == 1
        assert "is there already" in " ".join(refused.stderr.split())
    assert bytes_at(f"file:{place}") == before


_KILLED = """
import os
from ce_engine.apps.cli import main
from ce_engine.stores.documents.file import FileStore

put = FileStore.put_whole

async def put_and_die(self, *args):
    await put(self, *args)
    os._exit(9)

FileStore.put_whole = put_and_die
main()
"""


def test_a_restore_into_a_folder_that_was_killed_leaves_a_draft_that_the_next_removes(
    tmp_path: Path,
) -> None:
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code == 0
    target = url_of("file", tmp_path, "new")
    command = [sys.executable, "-c", _KILLED, "restore", str(archive), "--store", target]
    assert subprocess.run(command, check=False, timeout=60).returncode == 9
    assert not local_path(target).exists()
    (left,) = tmp_path.glob(".new*")
    assert list(left.rglob("session.json"))
    assert left.stat().st_mode & 0o077 == 0
    done = ce("restore", str(archive), "--store", target)
    assert done.exit_code == 0, done.stderr
    assert seen(target) == seen(url)
    assert ce("verify", "--store", target).exit_code == 0
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_a_draft_of_another_host_is_left_and_named(tmp_path: Path) -> None:
    """Nobody here knows whether the restore runs that began it, and a container has a new name each time."""
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code == 0
    target = url_of("file", tmp_path, "new")
    left = draft_path(local_path(target), "elsewhere:1:2")
    left.mkdir()
    done = ce("restore", str(archive), "--store", target)
    assert done.exit_code == 0, done.stderr
    assert left.name in done.stderr.replace("\n", "")
    assert left.exists()


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_backup_while_the_app_goes_on(kind: str, tmp_path: Path) -> None:
    url, archive = url_of(kind, tmp_path), tmp_path / "b.ce"
    engine = create_context_engine(url, config=PATIENT)
    app = HostApp(engine, Scope(session_id="s"))
    app.ask("one?", "first")
    engine.sync.flush()
    done = ce("backup", str(archive), "--store", url, "--with-secret")
    assert done.exit_code == 0, done.stderr
    app.ask("two?", "second")
    engine.sync.close()
    target = url_of(kind, tmp_path, "new")
    assert ce("restore", str(archive), "--store", target).exit_code == 0
    shown = json.loads(ce("show", "s", "--store", target, "--json").stdout)
    assert "first" in str(shown)
    assert "second" not in str(shown)
    assert ce("verify", "--store", target).exit_code == 0


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_what_is_sealed_stays_sealed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    url, archive = filled(kind, tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code == 0
    assert b"weather" not in archive.read_bytes()
    monkeypatch.setenv(VARIABLE, OTHER_KEY)
    refused = ce("restore", str(archive), "--store", url_of("sqlite", tmp_path, "new"))
    assert refused.exit_code == 1
    assert VARIABLE in refused.stderr
    monkeypatch.setenv(VARIABLE, KEY)
    target = url_of("sqlite", tmp_path, "new")
    assert ce("restore", str(archive), "--store", target).exit_code == 0
    assert seen(target) == seen(url)


@pytest.mark.req("A-30", "B-08")
def test_what_a_killed_restore_left_is_searched_for_what_was_deleted_and_goes(
    tmp_path: Path,
) -> None:
    """A copy of all that a store has, hidden beside it."""
    url, archive = filled("sqlite", tmp_path), tmp_path / "b.ce"
    assert ce("backup", str(archive), "--store", url, "--with-secret").exit_code == 0
    naming = "from ce_engine.runtime.processes import owner; print(owner())"
    killed = subprocess.run([sys.executable, "-c", naming], capture_output=True, check=True)
    left = draft_path(local_path(url), killed.stdout.decode().strip())
    shutil.copy(local_path(url), left)
    whose = ["--user", SCOPE.user_id, "--account", SCOPE.account_id, "--store", url]
    done = ce("delete", "--session", SCOPE.session_id, *whose, "--yes", "--verify")
    assert done.exit_code == 1
    assert left.name in done.stdout.replace("\n", "") + done.stderr.replace("\n", "")
    key = local_path(url).with_name(f"{local_path(url).name}.key")
    for path in (local_path(url), key):
        path.unlink()
    assert ce("restore", str(archive), "--store", url).exit_code == 0
    assert not left.exists()


@pytest.mark.req("A-30", "B-08")
def test_what_a_killed_restore_into_a_folder_left_is_searched_for_what_was_deleted(
    tmp_path: Path,
) -> None:
    url = filled("file", tmp_path)
    left = draft_path(local_path(url), "elsewhere:1:2")
    shutil.copytree(local_path(url), left / "store")
    whose = ["--user", SCOPE.user_id, "--account", SCOPE.account_id, "--store", url]
    done = ce("delete", "--session", SCOPE.session_id, *whose, "--yes", "--verify")
    assert done.exit_code == 1
    assert left.name in done.stdout.replace("\n", "") + done.stderr.replace("\n", "")
