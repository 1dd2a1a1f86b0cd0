"""The file store: every read and write is one function on a thread of the store's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar
from weakref import finalize

from ce_engine.errors import StoreUnavailableError
from ce_engine.ports.ids import Clock, IdGenerator
from ce_engine.schema.events import ContentCheck
from ce_engine.schema.ids import chain_keys
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import SessionInfo, Write
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Setting, SettingsCheck, Standing, Versions
from ce_engine.stores import owner_settings as owned
from ce_engine.stores import path_checks, sealing, secret, setting_macs
from ce_engine.stores.base import MARK, SEALED_BY, must_be_marked
from ce_engine.stores.documents.base import DocumentStore, Key, checked_session, listed, versions
from ce_engine.stores.documents.file import faults
from ce_engine.stores.documents.file.log import JOURNAL, LoadedSession, with_verdict
from ce_engine.stores.documents.file.settings import SettingsFiles
from ce_engine.stores.documents.file.shelf import Shelf
from ce_engine.stores.documents.session import CheckedSession, StoredSession, changed, put_whole
from ce_engine.stores.fork import survive_fork
from ce_engine.stores.threads import WorkerQueue, outcome, stop_all
from ce_engine.stores.urls import folder_path


T = TypeVar("T")

_READERS = 2
_PURGE_S = 5.0
"""How long a purge waits for other writers."""
_LAST_WORDS_S = 5.0
"""How long an exiting interpreter waits for writes that were accepted."""


class FileStore(DocumentStore):
    """Sessions as files in a folder; several processes may share it. See `ports.Store` for the contract.

    Opening is lazy: the folder is made with the first write, inside one that must be there. A
    locked session is tried again for `lock_timeout_s` seconds; reads wait for no lock. Listing reads
    every session of the user: for many thousands an SQL store is faster.

    Raises:
        StoreUrlError: the URL names no folder.
    """

    _admits_itself = True

    def __init__(
        self,
        url: str,
        *,
        lock_timeout_s: float = 0.2,
        clock: Clock | None = None,
        ids: IdGenerator | None = None,
    ) -> None:
        super().__init__(clock=clock, ids=ids)
        self._url = url
        self._timeout_s = lock_timeout_s
        root = folder_path(url)
        self._secret = _Secret(root)
        self._shelf = Shelf(root, lock_timeout_s, self._secret.mac_key)
        self._settings = self._new_settings()
        self._hands = [_Hand() for _ in range(1 + _READERS)]
        self._writer = WorkerQueue("writer", self._hands[:1])
        self._readers = WorkerQueue("reader", self._hands[1:])
        self._resting: list[_Hand] = []
        finalize(self, stop_all, (self._readers, self._writer), _LAST_WORDS_S)
        survive_fork(self)

    def _new_settings(self) -> SettingsFiles:
        return SettingsFiles(
            self._shelf, lambda owner: self._secret.mac_key((*owner, "")), self._secret.read
        )

    @property
    def url(self) -> str:
        return self._url

    @property
    def secret(self) -> bytes:
        return self._secret.read()

    def check_place(self) -> None:
        path_checks.check_folder(self._shelf.root)

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        now = self._clock.now_iso()

        def change(old: StoredSession | None) -> tuple[StoredSession | None, PutResult]:
            return changed(scope, old, writes, expected_version, now, lambda: self.secret)

        if not writes:
            return (await self._look(scope, change))[1]
        deadline = self._deadline()
        return await self._write(lambda: self._shelf.change(scope, change, deadline))

    async def version(self, scope: Scope) -> Versions:
        def look() -> Versions:
            settings = self._settings.read(owned.owner_of(scope))
            return versions(self._shelf.read(scope), settings, scope)

        return await self._run(self._readers, look)

    async def get_setting(self, scope: Scope, name: str) -> Setting | None:
        def look() -> Setting | None:
            return owned.find(self._settings.read(owned.owner_of(scope)), scope, name)

        return await self._run(self._readers, look)

    async def put_setting(
        self,
        scope: Scope,
        name: str,
        value: Any,
        expected_version: int | None = None,
        *,
        standing: Standing = Standing.INTACT,
    ) -> int:
        def change(old: owned.Owned) -> tuple[owned.Owned, int]:
            return owned.put(old, scope, name, value, expected_version, standing)

        owner, deadline = owned.owner_of(scope), self._deadline()
        return await self._write(lambda: self._settings.change(owner, change, deadline))

    async def delete_settings(self, account_id: str, user_id: str) -> int:
        owner, deadline = (account_id, user_id), self._deadline()
        return await self._run(self._writer, lambda: self._settings.delete(owner, deadline))

    async def list_sessions(
        self,
        *,
        account_id: str = "",
        user_id: str | None = "",
        ephemeral: bool = False,
        since: str = "",
        limit: int | None = None,
    ) -> list[SessionInfo]:
        def look() -> list[SessionInfo]:
            sessions = self._shelf.of_account(account_id, user_id)
            return listed(sessions, user_id, ephemeral, since, limit)

        return await self._run(self._readers, look)

    async def list_keys(self) -> list[Key]:
        return await self._run(
            self._readers, lambda: sorted(key for key, _ in self._shelf.of_all())
        )

    async def check_content(self, scope: Scope) -> ContentCheck | None:
        return await self._run(self._readers, lambda: _checked(self._shelf.look_anew(scope)))

    async def checked(self, scope: Scope) -> CheckedSession | None:
        def look() -> CheckedSession | None:
            session = self._shelf.look_anew(scope)
            return checked_session(session.state if session else None, _checked(session))

        return await self._run(self._readers, look)

    async def put_whole(
        self, scope: Scope, session: StoredSession, expected_version: int = 0
    ) -> None:
        self.secret  # noqa: B018 - to be made, if this is the first write
        deadline = self._deadline()

        def change(old: StoredSession | None) -> tuple[StoredSession | None, PutResult]:
            return put_whole(scope, old, session, expected_version)

        await self._write(lambda: self._shelf.change(scope, change, deadline))

    async def list_settings(self) -> dict[tuple[str, ...], Setting]:
        return await self._run(self._readers, lambda: owned.listed(self._settings.of_all()))

    async def check_settings(
        self, account_id: str | None = None, user_id: str | None = None
    ) -> dict[tuple[str, str, str], SettingsCheck]:
        def look() -> dict[tuple[str, str, str], SettingsCheck]:
            settings = self._settings.read_all(account_id, user_id)
            return setting_macs.checks_of_owners(self._secret.read, settings)

        return await self._run(self._readers, look)

    async def damaged(self, account_id: str | None = None, user_id: str | None = None) -> list[str]:
        def look() -> list[str]:
            sessions = self._shelf.damaged(account_id, user_id)
            return sessions + self._settings.damaged(account_id, user_id)

        return await self._run(self._readers, look)

    async def reseal(self, scope: Scope) -> bool:
        key_id, deadline = sealing.key_id(), monotonic() + max(self._timeout_s, _PURGE_S)
        return await self._write(lambda: self._shelf.reseal(scope, key_id, deadline))

    async def reseal_settings(self) -> int:
        key_id, deadline = sealing.key_id(), monotonic() + max(self._timeout_s, _PURGE_S)
        return await self._run(self._writer, lambda: self._settings.reseal(key_id, deadline))

    async def purge(self) -> None:
        deadline = monotonic() + max(self._timeout_s, _PURGE_S)
        await self._run(self._writer, lambda: self._shelf.purge(deadline))
        await self._run(self._writer, lambda: self._settings.remove_remains(deadline))

    async def check(self) -> None:
        await self._run(self._writer, self._shelf.check)
        await self._write(lambda: None)

    async def close(self) -> None:
        if self._shelf.written:
            deadline = self._deadline()
            with suppress(StoreUnavailableError):  # it is closed already
                await self._run(self._writer, lambda: self._shelf.tidy(deadline))
        for lane in (self._readers, self._writer):
            for end in lane.stop():
                await outcome(end)

    async def _look(self, scope: Scope, look: Callable[[StoredSession | None], T]) -> T:
        return await self._run(self._readers, lambda: look(self._shelf.read(scope)))

    async def _write(self, work: Callable[[], T]) -> T:
        is_admitted, is_sealing, deadline = (
            self._is_admitted,
            self.encryption is not None,
            self._deadline(),
        )

        def job() -> T:
            if not is_admitted:
                self._admit_here(deadline, is_sealing=is_sealing)
            return work()

        return await self._run(self._writer, job)

    def _admit_here(self, deadline: float, *, is_sealing: bool) -> None:
        """See that this process has the key of a folder that is sealed."""
        owner = owned.owner_of(SEALED_BY)
        mark = owned.find(self._settings.read(owner), SEALED_BY, MARK)
        if must_be_marked(mark, is_sealing=is_sealing):
            self._settings.change(
                owner, lambda old: owned.put(old, SEALED_BY, MARK, True, None), deadline
            )

    async def _run(self, lane: WorkerQueue[_Hand], work: Callable[[], T]) -> T:
        root = self._shelf.root
        return await outcome(lane.submit(lambda hand: hand.run(work, root)))

    def _deadline(self) -> float:
        return monotonic() + self._timeout_s

    def before_fork(self) -> None:
        # A child must not find a mutex held by a thread that it has not, nor half a write.
        self._resting = [hand for hand in self._hands if hand.lock.acquire(timeout=_LAST_WORDS_S)]

    def after_fork(self, *, child: bool) -> None:
        for hand in self._resting:
            hand.lock.release()
        if child:
            self._shelf = Shelf(self._shelf.root, self._timeout_s, self._secret.mac_key)
            self._settings = self._new_settings()
            self._hands = [_Hand() for _ in range(1 + _READERS)]
            self._writer.reset(self._hands[:1])
            self._readers.reset(self._hands[1:])


def _checked(session: LoadedSession | None) -> ContentCheck | None:
    """What the MACs of a session's files say."""
    if session is None:
        return None
    state = session.state
    with_verdict(session, state)
    things = (state.messages, state.evidence, state.calls, state.usages, state.turns, state.tasks)
    rows = sum(map(len, things))
    if not session.checked:
        return ContentCheck(unverified=("content: the secret cannot be read",))
    wrong = (f"not what was written: {state.forged}",) if state.forged else ()
    older = f"content up to version {state.older}: an older release wrote it, without MACs"
    return ContentCheck(
        0 if wrong or state.older else rows,
        wrong,
        (older,) if state.older else (),
        uncounted=_uncounted(session),
    )


def _uncounted(session: LoadedSession) -> tuple[str, ...]:
    """What no MAC covers, for nothing reads it; a forged line cannot be told from one of a killed writer."""
    size = session.passed + session.torn
    why = (
        f"{size} bytes of {JOURNAL} do not count, and nothing reads them: a process that was killed in a write "
        "left them, or somebody put them there. The session's next write, or a deletion, takes them away"
    )
    return (why,) if size else ()


class _Secret:
    """The install's secret, read when it is first needed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._found: bytes | None = None

    def read(self) -> bytes:
        if self._found is None:
            self._found = secret.of_local(self._root)
        return self._found

    def mac_key(self, key: Key) -> bytes | None:
        """The key of a session's MACs; `None` for who reads only, and has not, or may not read, the secret."""
        if self._found is None and not secret.is_there(self._root):
            return None  # a new one is for who writes first
        try:
            return chain_keys(self.read(), key).own
        except StoreUnavailableError:
            return None


class _Hand:
    """What a thread works with: a lock, so that a fork can wait until it is at rest."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def run(self, work: Callable[[], T], root: Path) -> T:
        with self.lock:
            try:
                return work()
            except (OSError, UnicodeEncodeError) as error:
                raise faults.explain(error, root) from error

    def close(self) -> None:
        """A thread keeps no file open."""
