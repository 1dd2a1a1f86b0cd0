"""A pipe, a folder or a file without end in the place of one of a store's files: it stops nobody, and is its owner's fault alone."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from ce_engine import (
    ContextEngine,
    FileDamagedError,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.errors import StoreUnavailableError
from ce_engine.stores import secret
from ce_engine.stores.documents.file import log
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import ce
from tests.hosts.doctor_host import doctor
from tests.hosts.file_host import PLACES, session_file
from tests.hosts.store_host import nobody, public_folder


T = TypeVar("T")

ANNA = Scope(session_id="s", user_id="anna")
BEN = Scope(session_id="s", user_id="ben")
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))
IN_TIME_S = 60
"""Far above every deadline: what it catches is a call that never ends."""


def in_time(work: Callable[[], T]) -> T:
    """What `work` returns or raises; a failure where it never ends."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(IN_TIME_S)
    assert not thread.is_alive(), "it hangs"
    if errors:
        raise errors[0]
    return results[0]


def opened(url: str, config: RuntimeConfig = PATIENT) -> ContextEngine:
    return create_context_engine(url, config=config)


def fill(url: str) -> None:
    engine = opened(url)
    for scope in (ANNA, BEN):
        host = HostApp(engine, scope)
        host.ask("What is it?", "A lamp.")
        host.ask("And that?", "A chair.")
        engine.sync.constraints.create(scope, "Be brief.")
    engine.sync.close()


def answers(url: str, scope: Scope) -> list[str]:
    engine = opened(url)
    document = engine.sync.get_session(scope)
    engine.sync.close()
    assert document is not None
    return [message.content for message in document.session.messages if message.role == "assistant"]


def gone(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()


def pipe(path: Path) -> None:
    gone(path)
    os.mkfifo(path)


def folder(path: Path) -> None:
    gone(path)
    path.mkdir()


def endless(path: Path) -> None:
    gone(path)
    with path.open("wb") as file:
        file.truncate(1 << 40)  # no byte of it is on the disk


KINDS = {"a pipe": pipe, "a folder": folder, "a file without end": endless}


def talk(url: str) -> list[str]:
    """Both users go on; what a list names meanwhile."""
    engine = opened(url)
    HostApp(engine, ANNA).ask("Go on?", "Yes anna.")
    for n in range(3):
        HostApp(engine, BEN).ask(f"Go on {n}?", f"Yes ben {n}.")
    engine.sync.flush()
    names = [session.user_id for session in engine.sync.list_sessions(user_id=None)]
    engine.sync.close()
    return names


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_another_user_is_recorded_and_listed(kind: str, place: str, tmp_path: Path) -> None:
    root, url = tmp_path / "sessions", f"file:{tmp_path / 'sessions'}"
    fill(url)
    KINDS[kind](PLACES[place](root))
    names = in_time(lambda: talk(url))
    assert "ben" in names
    assert ("anna" in names) == (place == "the settings")
    assert in_time(lambda: answers(url, BEN))[2:] == [f"Yes ben {n}." for n in range(3)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_verify_names_it_and_verifies_the_others(kind: str, place: str, tmp_path: Path) -> None:
    root, url = tmp_path / "sessions", f"file:{tmp_path / 'sessions'}"
    fill(url)
    path = PLACES[place](root)
    KINDS[kind](path)
    done = in_time(lambda: ce("verify", "--json", "--store", url))
    assert done.exit_code == 1, done.output
    finds = json.loads(done.stdout)
    assert str(path) in done.stdout
    intact = {each["user_id"] for each in finds["sessions"] if each["status"] == "intact"}
    assert "ben" in intact
    if place != "the settings":
        assert intact == {"ben"}
        status, detail, _ = in_time(lambda: doctor("--store", url))["session"]
        assert status == "FAIL"
        assert str(path) in detail


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_who_asks_for_it_is_told_that_it_is_damaged(kind: str, place: str, tmp_path: Path) -> None:
    root, url = tmp_path / "sessions", f"file:{tmp_path / 'sessions'}"
    fill(url)
    path = PLACES[place](root)
    KINDS[kind](path)

    def ask() -> None:
        engine = opened(url)
        try:
            if place == "the settings":
                engine.sync.constraints.list(ANNA)
            else:
                engine.sync.get_session(ANNA)
        finally:
            engine.sync.close()

    with pytest.raises(FileDamagedError) as error:
        in_time(ask)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("name", ["lock", "session.json.new"])
@pytest.mark.parametrize("kind", [pipe, folder])
def test_what_only_a_writer_opens(kind: Callable[[Path], None], name: str, tmp_path: Path) -> None:
    root, url = tmp_path / "sessions", f"file:{tmp_path / 'sessions'}"
    fill(url)
    kind(session_file(root).with_name(name))
    in_time(lambda: talk(url))
    assert in_time(lambda: answers(url, BEN))[2:] == [f"Yes ben {n}." for n in range(3)]
    engine = opened(url)
    assert in_time(lambda: engine.sync.delete_user_data("", "ben")).sessions == 1
    in_time(engine.sync.close)


def test_a_file_in_the_place_of_a_session_s_folder(tmp_path: Path) -> None:
    root, url = tmp_path / "sessions", f"file:{tmp_path / 'sessions'}"
    fill(url)
    place = session_file(root).parent
    place.rename(tmp_path / "elsewhere")
    place.write_text("a letter", encoding="utf-8")
    in_time(lambda: talk(url))
    assert in_time(lambda: answers(url, BEN))[2:] == [f"Yes ben {n}." for n in range(3)]


def test_a_file_that_only_somebody_else_may_read() -> None:
    with public_folder() as public:
        root, url = public / "sessions", f"file:{public / 'sessions'}"
        fill(url)
        for path in [public, *public.rglob("*")]:
            path.chmod(0o777)
        session_file(root).chmod(0o000)
        with nobody():
            in_time(lambda: talk(url))
        assert in_time(lambda: answers(url, BEN))[2:] == [f"Yes ben {n}." for n in range(3)]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_folder_that_only_somebody_else_may_look_into(depth: int) -> None:
    with public_folder() as public:
        root, url = public / "sessions", f"file:{public / 'sessions'}"
        fill(url)
        place = root.joinpath(*"abc"[:depth])
        place.mkdir(parents=True)
        for path in [public, *public.rglob("*")]:
            path.chmod(0o777)
        assert ce("verify", "--store", url).exit_code == 0  # imports what nobody may not
        place.chmod(0o000)
        with nobody():
            names = in_time(lambda: talk(url))
            done = ce("verify", "--json", "--store", url)
            engine = opened(url)
            assert engine.sync.delete_user_data("", "ben").sessions == 1
            engine.sync.close()
        assert sorted(names) == ["anna", "ben"]
        assert done.exit_code == 1
        assert str(place) in done.stdout
        assert [each["status"] for each in json.loads(done.stdout)["sessions"]] == ["intact"] * 2


def test_no_file_is_written_that_would_be_too_large_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MOST_BYTES", 30_000)
    monkeypatch.setattr(log, "JOURNAL_BYTES", 10_000)
    url = f"file:{tmp_path / 'sessions'}"
    fill(url)
    engine = opened(url)
    for n in range(6):
        HostApp(engine, ANNA).ask("x" * 9_000, f"Yes anna {n}.")
    HostApp(engine, BEN).ask("Go on?", "Yes ben.")
    engine.sync.close()
    assert answers(url, ANNA)[:3] == ["A lamp.", "A chair.", "Yes anna 0."]
    assert answers(url, BEN)[2:] == ["Yes ben."]


# The key file, and what SQLite has beside its own


def stored_at(kind: str, folder: Path) -> str:
    return f"sqlite:///{folder / 'ce.db'}" if kind == "sqlite" else f"file:{folder / 'ce.db'}"


@pytest.mark.parametrize("store", ["sqlite", "file"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_key_file(kind: str, store: str, tmp_path: Path) -> None:
    url, key = stored_at(store, tmp_path), tmp_path / "ce.db.key"
    fill(url)
    key.rename(tmp_path / "kept")
    KINDS[kind](key)
    with pytest.raises(StoreUnavailableError, match=r"ce\.db\.key.*CE_SECRET"):
        in_time(lambda: secret.beside(tmp_path / "ce.db"))
    engine = opened(url, RuntimeConfig(store=StoreConfig(deadline_s=20, breaker_s=0.2)))
    in_time(lambda: HostApp(engine, ANNA).ask("Go on?", "Yes."))
    in_time(lambda: HostApp(engine, BEN).ask("Go on?", "Yes."))
    key.rmdir() if key.is_dir() else key.unlink()
    (tmp_path / "kept").rename(key)
    in_time(engine.sync.close)
    assert answers(url, BEN) == ["A lamp.", "A chair.", "Yes."]


@pytest.mark.parametrize(("kind", "end"), [(pipe, "-journal"), (folder, "-wal")])
def test_a_file_beside_an_sqlite_file(
    kind: Callable[[Path], None], end: str, tmp_path: Path
) -> None:
    url, path = stored_at("sqlite", tmp_path), tmp_path / f"ce.db{end}"
    fill(url)
    kind(path)
    engine = opened(url)
    in_time(lambda: HostApp(engine, ANNA).ask("Go on?", "Yes."))
    in_time(engine.sync.close)
    for command in ("verify", "doctor", "sessions"):
        done = in_time(lambda: ce(command, "--store", url))  # noqa: B023 - it is called at once
        assert done.exit_code, command
        assert path.name in done.output.replace("\n", ""), command
