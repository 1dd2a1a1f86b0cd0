"""A file store with little patience, and looks at its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ce_engine.errors import StoreUnavailableError
from ce_engine.schema.scope import Scope
from ce_engine.stores.documents.file import FileStore
from ce_engine.stores.documents.file.names import folder_of
from ce_engine.testing.samples import SCOPE, message


IN_TIME_S = 10
"""Far above every deadline: what it catches is a call that never ends."""

OTHER = Scope(session_id="other", user_id="u", account_id="a")


def open_at(root: Path) -> FileStore:
    return FileStore(root.as_uri(), lock_timeout_s=0.05)


def of_session(root: Path, scope: Scope = SCOPE) -> Path:
    return folder_of(root, scope.key)


def files(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


async def refused(
    store: FileStore, expected: str, *, reads: bool = True, listing: bool = True
) -> None:
    """Calls are refused in time, with an error that names the folder and says `expected`."""
    calls: list[Callable[[], Any]] = [lambda: store.apply(SCOPE, message("refused"))]
    if reads:
        calls += [lambda: store.version(SCOPE), lambda: store.state(SCOPE)]
    if listing:
        calls += [lambda: store.list_sessions(account_id="a", user_id="u")]
    with anyio.fail_after(IN_TIME_S):
        for call in calls:
            with pytest.raises(StoreUnavailableError) as error:
                await call()
            assert expected in str(error.value)
            assert str(store._shelf.root) in str(error.value)


async def left_out(store: FileStore, expected: str) -> None:
    """Lists have the other sessions, and the store names this one with what is `expected`."""
    assert SCOPE.session_id not in {
        i.session_id for i in await store.list_sessions(account_id="a", user_id="u")
    }
    (said,) = await store.damaged()
    assert expected in said
    assert str(of_session(store._shelf.root)) in said


def session_file(root: Path) -> Path:
    """The file of the one session of the user anna."""
    (path,) = root.glob("*/anna-*/*/session.json")
    return path


PLACES: dict[str, Callable[[Path], Path]] = {
    "the session": session_file,
    "its journal": lambda root: session_file(root).with_name("journal.jsonl"),
    "the settings": lambda root: session_file(root).parents[1] / "settings.json",
}
"""Files of hers in a folder, by what is in them."""
