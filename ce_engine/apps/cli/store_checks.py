"""What `ce doctor` finds out about the store and the install's secret."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from ce_engine.apps.cli.installation_checks import Check, Status, failed
from ce_engine.errors import ConfigError, ContextEngineError
from ce_engine.ports.store import Store
from ce_engine.schema.ids import MIN_SECRET_BYTES
from ce_engine.stores import open_store, secret
from ce_engine.stores.base import BaseStore
from ce_engine.stores.private_files import is_link, is_open_to_others
from ce_engine.stores.tables.sqlite import BESIDE
from ce_engine.stores.urls import DEFAULT, MEMORY, is_server, local_path, masked, scheme_of
from ce_engine.turns.record.originals import check_apart


_NO_SECRET = Check(
    "secret",
    Status.FAIL,
    f"{secret.VARIABLE} is not set, which a store on a server needs",
    f"Set {secret.VARIABLE} to a long random text, the same on all hosts that share the store, such as "
    "`openssl rand -hex 32` prints.",
)


@runtime_checkable
class Weak(Protocol):
    """A store that knows what its server may lose."""

    async def weaknesses(self) -> list[tuple[str, str]]: ...


_CURE = "Restore it from a backup, or take it away to begin the session anew; see: ce verify"
SHARED = "Several hosts that share a store need the same one."


def store(url: str) -> list[Check]:
    """Checks of the store at `url`, and of the secret that belongs to it."""
    try:
        scheme = scheme_of(url)
        if scheme == "memory":
            detail = f"{MEMORY} works, and nothing is kept when the process ends"
            cure = f"Name a file to keep what is recorded: --store {DEFAULT}"
            return [Check("store", Status.WARN, detail, cure), *_variable()]
        if scheme == "redis":
            return [*asyncio.run(_server(url)), *(_variable() or [_NO_SECRET])]
        if is_server(url):
            return [_answer(url), *_variable()]
        path = local_path(url)
    except ContextEngineError as error:
        return [failed("store", error)]
    rights = list(_rights(path))  # before they are used: SQLite makes files, and takes them away
    place = _place(scheme, path)
    damaged = asyncio.run(_damaged_at(_url(scheme, path))) if path.exists() else []
    two = secret.two_secrets(path)
    secrets = [Check("secret", Status.WARN, two, secret.CURE)] if two else []
    return [place, *damaged, *rights, *secrets, *(_variable() or _key_file(path))]


def _answer(url: str) -> Check:
    """A server that answers; its tables are made by that, as an app's first call would."""

    async def ask() -> None:
        opened = open_store(url)
        try:
            assert opened.secret  # or it says what to set
            await opened.check()
        finally:
            await opened.close()

    asyncio.run(ask())
    return Check("store", Status.OK, f"{masked(url)} answers, and can be written")


def originals(url: str, first: str) -> Iterator[Check]:
    """Checks of the second store, which has what redaction took out: its place, and who may read it."""
    try:
        check_apart(first, url)
    except ConfigError as error:
        yield failed("originals", error)
        return
    for check in store(url):
        yield replace(check, check=f"originals {check.check}")


def _rights(path: Path) -> Iterator[Check]:
    """Who may read what is there; the mode of a link says nothing, and none is followed."""
    if os.name != "posix" or not path.exists():
        return
    beside = (path.with_name(path.name + end) for end in BESIDE)
    entries = [path, *(path.rglob("*") if path.is_dir() else filter(Path.exists, beside))]
    wide = [entry for entry in entries if not is_link(entry) and is_open_to_others(entry)]
    if not wide:
        yield Check("rights", Status.OK, f"{path}, for this user only")
        return
    mode = stat.S_IMODE(wide[0].stat().st_mode)
    others = f", and {len(wide) - 1} more in it or beside it" if wide[1:] else ""
    detail = f"{str(wide[0])!r} is open to others (mode {mode:04o}){others}"
    arguments = f"-R go= {path}" if path.is_dir() else " ".join(["600", *map(str, wide)])
    cure = f"chmod {arguments}, and give the app a user of its own."
    yield Check("rights", Status.WARN, detail, cure)


def _place(scheme: str, path: Path) -> Check:
    usable = _usable_folder if scheme == "file" else _usable
    if path.exists():
        return asyncio.run(_opened(scheme, path)) or usable(path, str(path))
    try:
        folder = tempfile.TemporaryDirectory(dir=path.parent, prefix=".ce-doctor-")
    except OSError as error:
        detail = f"there is nothing at {str(path)!r}, and none can be made ({error.strerror})"
        cure = f"Make {str(path.parent)!r} a folder that this user may write to, or name another place."
        return Check("store", Status.FAIL, detail, cure)
    with folder as name:
        trial = Path(name) / path.name
        problem = asyncio.run(_opened(scheme, trial))
        return problem or usable(trial, f"{path}, which is made at first use")


async def _damaged(opened: Store) -> list[Check]:
    """A check that fails, of each session that cannot be read and is in no list."""
    problems = await opened.damaged() if isinstance(opened, BaseStore) else []
    return [Check("session", Status.FAIL, problem, _CURE) for problem in problems]


async def _damaged_at(url: str) -> list[Check]:
    opened = open_store(url)
    try:
        return await _damaged(opened)
    except ContextEngineError:  # it was said already
        return []
    finally:
        await opened.close()


def _url(scheme: str, path: Path) -> str:
    return path.as_uri() if scheme == "file" else f"sqlite:///{path}"


async def _opened(scheme: str, path: Path) -> Check | None:
    """Open and write the store; say what is wrong, if something is."""
    opened = open_store(_url(scheme, path))
    try:
        await opened.check()
    except ContextEngineError as error:
        return failed("store", error)
    finally:
        await opened.close()
    return None


async def _server(url: str) -> list[Check]:
    """Whether a server answers and takes keys, and what it may lose."""
    opened = open_store(url)
    try:
        await opened.check()
        weak = await opened.weaknesses() if isinstance(opened, Weak) else []
        damaged = await _damaged(opened)
    except ContextEngineError as error:
        return [failed("store", error)]
    finally:
        await opened.close()
    if not weak:
        return [Check("store", Status.OK, f"{opened.url}: answers and takes keys"), *damaged]
    checks = [Check("store", Status.WARN, f"{opened.url}: {flaw}", cure) for flaw, cure in weak]
    return [*checks, *damaged]


def _usable_folder(_: Path, label: str) -> Check:
    return Check("store", Status.OK, f"{label}: takes files, a folder a session")


def _usable(path: Path, label: str) -> Check:
    with closing(sqlite3.connect(path)) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode == "wal":
        return Check("store", Status.OK, f"{label}: opens and writes, WAL")
    detail = f"{label}: opens and writes, but its journal mode is {mode!r}: who reads waits"
    cure = (
        f'Run: sqlite3 {path} "PRAGMA journal_mode=WAL". If that stays {mode!r}, the file is on a '
        "network file system: move it to a local disk."
    )
    return Check("store", Status.WARN, detail, cure)


def _variable() -> list[Check]:
    """A check of `CE_SECRET`, where it is set."""
    value = secret.from_environment()
    if value is None:
        return []
    if len(value) >= MIN_SECRET_BYTES:
        detail = f"{secret.VARIABLE} is set, {len(value)} bytes. {SHARED}"
        return [Check("secret", Status.OK, detail)]
    detail = f"{secret.VARIABLE} has {len(value)} bytes; at least {MIN_SECRET_BYTES} are needed"
    cure = f"Set {secret.VARIABLE} to a long random text, such as `openssl rand -hex 32` prints."
    return [Check("secret", Status.FAIL, detail, cure)]


def _key_file(path: Path) -> Iterator[Check]:
    key = path.with_name(f"{path.name}.key")
    if not key.exists():
        if path.exists():
            detail = f"the key file {str(key)!r} of the store is gone"
            cure = (
                f"Put it back, or set {secret.VARIABLE}; else a new one is made, and what was "
                "recorded before is recognised by its text only."
            )
            yield Check("secret", Status.WARN, detail, cure)
        else:
            yield Check("secret", Status.OK, f"a key file is made at first use. {SHARED}")
        return
    try:
        secret.beside(path)
    except ContextEngineError as error:
        yield failed("secret", error)
        return
    mode = stat.S_IMODE(key.stat().st_mode)
    if os.name == "posix" and mode & 0o077:
        detail = f"the key file {str(key)!r} is open to others (mode {mode:04o})"
        yield Check("secret", Status.FAIL, detail, f"chmod 600 {key}")
    else:
        detail = f"{key}, for this user only. Several hosts that share a store need the same"
        yield Check("secret", Status.OK, f"{detail} {secret.VARIABLE} instead.")
