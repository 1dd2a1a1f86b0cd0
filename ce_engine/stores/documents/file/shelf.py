"""All sessions of a file store: their folders, their locks, and the last ones in memory."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from ce_engine.errors import ContextEngineError, FileDamagedError, MigrationError
from ce_engine.schema.report import PutResult
from ce_engine.schema.scope import Scope
from ce_engine.stores import private_files
from ce_engine.stores.documents.base import Key
from ce_engine.stores.documents.file import faults, log
from ce_engine.stores.documents.file.lock import hold
from ce_engine.stores.documents.file.names import folder_of, is_safe, safe
from ce_engine.stores.documents.session import StoredSession


logger = logging.getLogger("ce_engine.stores")
T = TypeVar("T")

MARK = "ce-store.txt"
_ABOUT = (
    "Sessions of ce-integrations: a folder an account, in it one a user, in it one a session.\n"
    "session.json is a snapshot, journal.jsonl holds the writes since. To delete a session, delete "
    "its folder.\n"
)
_LOCK = "lock"
_LEVELS = 3
"""Account, user, session."""

_KEPT_SESSIONS = 32
_WARNINGS = 4096


class Shelf:
    """Reads without a lock from any thread; one thread writes. Errors of the system come as they are."""

    def __init__(self, root: Path, timeout_s: float, keys: log.MacKeys) -> None:
        self.root = root
        self._keys = keys
        self._timeout_s = timeout_s
        self._cache: OrderedDict[Path, log.LoadedSession] = OrderedDict()
        self.written: OrderedDict[Path, None] = OrderedDict()
        """The folders that were written to last."""
        self._warned: OrderedDict[Path, None] = OrderedDict()
        self._mutex = threading.Lock()

    def read(self, scope: Scope) -> StoredSession | None:
        """The session; `None` if there is none yet, but could be."""
        folder = folder_of(self.root, scope.key)
        session = self._load(folder)
        if session is None and not self.root.is_dir():
            self._check_parent()
        return session.state if session else None

    def change(
        self,
        scope: Scope,
        change: Callable[[StoredSession | None], tuple[StoredSession | None, PutResult]],
        deadline: float,
    ) -> PutResult:
        """Write what `change` makes of the session, which nobody else writes meanwhile."""
        folder = folder_of(self.root, scope.key)
        with self.locked(folder, deadline):
            old = self._load(folder)
            state, result = change(old.state if old else None)
            mac_key = self._keys(scope.key)
            if state is not None and mac_key is not None:
                is_deleted = state.head.is_deleted
                log.with_verdict(None if is_deleted else old, state)
                version = old.state.head.version + 1 if old else state.head.version
                is_whole = result.removed or state.head.version != version  # a line adds one
                write = log.write_snapshot if is_whole else log.write
                self._remember(folder, write(folder, scope.key, old, state, mac_key))
                _put_last(self.written, folder, None, _KEPT_SESSIONS)
            return result

    def of_account(
        self, account_id: str, user_id: str | None
    ) -> Iterator[tuple[Key, StoredSession]]:
        """All sessions of an account, or of one user of it."""
        yield from self._of(account_id, user_id)

    def of_all(self) -> Iterator[tuple[Key, StoredSession]]:
        """All sessions."""
        yield from self._of(None, None)

    def users(
        self,
        account_id: str | None = None,
        user_id: str | None = None,
        damages: list[str] | None = None,
    ) -> Iterator[Path]:
        """The folders of users: of all, of an account's, or of those with this id; `damages` gets what is wrong."""
        accounts = _folders(self.root) if account_id is None else [self.root / safe(account_id)]
        for account in accounts:
            if user_id is None:
                yield from self._folders_in(account, damages)
            else:
                yield account / safe(user_id)

    def _folders_in(self, folder: Path, damages: list[str] | None = None) -> list[Path]:
        """The folders in one among many: where it cannot be looked into, that is said, and ends no list of the others."""
        try:
            return _folders(folder)
        except OSError as error:
            if not faults.is_of_one(error, self.root):
                raise
            damage = str(faults.explain(error, self.root))
            if damages is None:
                self._warn(folder, damage)
            else:
                damages.append(damage)
            return []

    def _of(
        self, account_id: str | None, user_id: str | None
    ) -> Iterator[tuple[Key, StoredSession]]:
        for user in self.users(account_id, user_id):
            for folder in self._folders_in(user):
                session, damage = self._readable(folder)
                if damage:
                    self._warn(folder, damage)
                elif session is not None:
                    yield session.key, session.state
        if not self.root.is_dir():
            self._check_parent()

    def damaged(self, account_id: str | None, user_id: str | None) -> list[str]:
        """What is wrong with the sessions that no list has; each names its file."""
        damages: list[str] = []
        for user in self.users(account_id, user_id, damages):
            damages += [self._readable(folder)[1] for folder in self._folders_in(user, damages)]
        return [damage for damage in damages if damage]

    def _readable(self, folder: Path) -> tuple[log.LoadedSession | None, str]:
        """A session among many, or what is wrong with it: that ends no list of the others."""
        try:
            return self._load(folder, remember=False), ""
        except (FileDamagedError, MigrationError) as error:
            return None, str(error)
        except OSError as error:
            if error.errno not in faults.OF_ONE:
                raise
            return None, str(faults.explain(error, self.root))

    def _warn(self, folder: Path, damage: str) -> None:
        """Say once of a session that it is left out of lists."""
        with self._mutex:
            is_new = folder not in self._warned
            _put_last(self._warned, folder, None, _WARNINGS)
        if is_new:
            logger.warning("a session is left out of lists: %s", damage)

    def look_anew(self, scope: Scope) -> log.LoadedSession | None:
        """The session as its files have it, every byte of them; nothing that is known is spared."""
        return log.load_at_rest(self.own(folder_of(self.root, scope.key)), self._keys)

    def check(self) -> None:
        """Prove that the folder is ours and takes files."""
        self._make_root()
        trial = self.root / f".trial-{threading.get_ident()}"
        open(trial, "wb", opener=private_files.opener).close()
        trial.unlink()

    def purge(self, deadline: float) -> None:
        """Take away what killed writers left, of all sessions: drafts, and lines that do not count."""
        for folder in (folder for user in self.users() for folder in self._folders_in(user)):
            try:
                self._purge(folder, deadline)
            except FileDamagedError as error:
                self._warn(folder, str(error))
            except OSError as error:  # who spoilt one keeps the others from nothing
                if not faults.is_of_one(error, self.root):
                    raise

    def _purge(self, folder: Path, deadline: float) -> None:
        if not log.has_remains(folder):
            return
        with self.locked(folder, deadline):
            session, damage = self._readable(folder)
            if not damage:
                log.remove_remains(folder, session, self._keys)

    def reseal(self, scope: Scope, key_id: str, deadline: float) -> bool:
        """Write a session anew under the key that seals now; false if it is already."""
        folder = folder_of(self.root, scope.key)
        if not folder.is_dir():
            return False
        with self.locked(folder, deadline):
            session = self._load(folder, remember=False)
            if session is None or log.key_ids(folder) <= {key_id}:
                return False
            log.anew(folder, session, self._keys)
            return True

    def tidy(self, deadline: float) -> None:
        """Bring the snapshots of sessions that were written here up to date: people open those."""
        for folder in self.written:
            with suppress(OSError, ContextEngineError), self.locked(folder, deadline):
                session = self._load(folder)
                if session is not None and session.offset:
                    log.anew(folder, session, self._keys)
        self.written.clear()

    def _load(self, folder: Path, *, remember: bool = True) -> log.LoadedSession | None:
        with self._mutex:
            old = self._cache.get(folder)
        session = log.load(self.own(folder), self._keys, old)
        if session is not None and folder_of(self.root, session.key) != folder:
            raise faults.damaged(folder / log.SNAPSHOT, "it is of another session")
        if remember or old:
            self._remember(folder, session)
        return session

    def _remember(self, folder: Path, session: log.LoadedSession | None) -> None:
        with self._mutex:
            if session is None:
                self._cache.pop(folder, None)
            else:
                _put_last(self._cache, folder, session, _KEPT_SESSIONS)

    @contextmanager
    def locked(self, folder: Path, deadline: float) -> Iterator[None]:
        """Hold the lock of a folder, which is made if it is not there."""

        def make() -> None:
            self._make_root()
            private_files.make_folders(self.root, folder)

        try:
            with hold(self.own(folder) / _LOCK, deadline, make):
                yield
        except TimeoutError:
            raise faults.locked(folder, self.root, self._timeout_s) from None

    def own(self, folder: Path) -> Path:
        """The folder, which no link may lead to: one to the root is the user's own business."""
        parts = (folder, *folder.parents)
        private_files.refuse_links(*(p for p in parts[:_LEVELS] if p != self.root))
        return folder

    def _make_root(self) -> None:
        self.root.mkdir(private_files.FOLDER_MODE, exist_ok=True)
        mark = self.root / MARK
        if mark.exists():
            return
        others = [path.name for path in self.root.iterdir() if not path.name.startswith(".")]
        # Another process may have been first; and where sessions are, somebody took the mark away.
        if others and not mark.exists() and not self._has_sessions():
            raise faults.foreign(self.root, others)
        with open(mark, "w", encoding="utf-8", opener=private_files.opener) as file:
            file.write(_ABOUT)

    def _has_sessions(self) -> bool:
        accounts = (folder for folder in _folders(self.root) if is_safe(folder.name))
        return any(any(account.glob(f"*/*/{log.SNAPSHOT}")) for account in accounts)

    def _check_parent(self) -> None:
        if self.root.exists() or not self.root.parent.is_dir():
            raise NotADirectoryError


def _put_last(items: OrderedDict[Path, T], folder: Path, item: T, most: int) -> None:
    items[folder] = item
    items.move_to_end(folder)
    if len(items) > most:
        items.popitem(last=False)


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(folder for folder in path.iterdir() if folder.is_dir())
    except FileNotFoundError:
        return []
