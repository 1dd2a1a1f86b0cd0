"""A store in this process's memory: nothing is kept longer, everything else is as in the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from ce_engine.errors import StoreUnavailableError
from ce_engine.ports.ids import Clock, IdGenerator
from ce_engine.schema.events import ContentCheck
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import SessionInfo, Write
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Setting, SettingsCheck, Standing, Versions
from ce_engine.stores import owner_settings as owned
from ce_engine.stores import secret
from ce_engine.stores.documents.base import DocumentStore, Key, checked_session, listed, versions
from ce_engine.stores.documents.session import CheckedSession, StoredSession, changed, put_whole
from ce_engine.stores.fork import survive_fork
from ce_engine.stores.urls import MEMORY


T = TypeVar("T")


class MemoryStore(DocumentStore):
    """Sessions of this process; thread-safe. See `ports.Store` for the contract."""

    keeps_bytes = False

    def __init__(self, *, clock: Clock | None = None, ids: IdGenerator | None = None) -> None:
        super().__init__(clock=clock, ids=ids)
        self._sessions: dict[Key, StoredSession] = {}
        self._settings: dict[owned.Owner, owned.Owned] = {}
        self._lock = threading.Lock()
        self._closed = False
        survive_fork(self)

    @property
    def url(self) -> str:
        return MEMORY

    @property
    def secret(self) -> bytes:
        return secret.from_environment() or secret.of_process()

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        now = self._clock.now_iso()
        with self._open():
            old = self._sessions.get(scope.key)
            state, result = changed(scope, old, writes, expected_version, now, lambda: self.secret)
            if state is not None:
                self._sessions[scope.key] = state
            return result

    async def version(self, scope: Scope) -> Versions:
        with self._open():
            settings = self._settings.get(owned.owner_of(scope), {})
            return versions(self._sessions.get(scope.key), settings, scope)

    async def get_setting(self, scope: Scope, name: str) -> Setting | None:
        with self._open():
            return owned.find(self._settings.get(owned.owner_of(scope), {}), scope, name)

    async def put_setting(
        self,
        scope: Scope,
        name: str,
        value: Any,
        expected_version: int | None = None,
        *,
        standing: Standing = Standing.INTACT,
    ) -> int:
        owner = owned.owner_of(scope)
        with self._open():
            old = self._settings.get(owner, {})
            self._settings[owner], version = owned.put(
                old, scope, name, value, expected_version, standing
            )
            return version

    async def delete_settings(self, account_id: str, user_id: str) -> int:
        owner = account_id, user_id
        with self._open():
            if owner not in self._settings:
                return 0
            self._settings[owner], count = owned.emptied(self._settings[owner])
            return count

    async def list_sessions(
        self,
        *,
        account_id: str = "",
        user_id: str | None = "",
        ephemeral: bool = False,
        since: str = "",
        limit: int | None = None,
    ) -> list[SessionInfo]:
        with self._open():
            of_account = (item for item in self._sessions.items() if item[0][0] == account_id)
            return listed(of_account, user_id, ephemeral, since, limit)

    async def put_whole(
        self, scope: Scope, session: StoredSession, expected_version: int = 0
    ) -> None:
        with self._open():
            old = self._sessions.get(scope.key)
            self._sessions[scope.key], _ = put_whole(scope, old, session.draft(), expected_version)

    async def list_settings(self) -> dict[tuple[str, ...], Setting]:
        with self._open():
            return owned.listed(self._settings)

    async def check_settings(
        self, account_id: str | None = None, user_id: str | None = None
    ) -> dict[tuple[str, str, str], SettingsCheck]:
        """Nothing but this process can change them."""
        checks = await super().check_settings(account_id, user_id)
        return {key: replace(check, unverified=()) for key, check in checks.items()}

    async def check_content(self, scope: Scope) -> ContentCheck | None:
        """Nothing but this process can change it."""
        return None if await self.chain(scope) is None else ContentCheck()

    async def checked(self, scope: Scope) -> CheckedSession | None:
        return await self._look(scope, lambda session: checked_session(session, ContentCheck()))

    async def list_keys(self) -> list[Key]:
        with self._open():
            return sorted(self._sessions)

    async def purge(self) -> None:
        """Nothing to do: what was deleted is nowhere any more."""

    async def check(self) -> None:
        with self._open():
            pass

    async def close(self) -> None:
        self._closed = True

    async def _look(self, scope: Scope, look: Callable[[StoredSession | None], T]) -> T:
        with self._open():
            return look(self._sessions.get(scope.key))

    @contextmanager
    def _open(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise StoreUnavailableError("the store was closed; open it again")
            yield

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, child: bool) -> None:
        del child
        self._lock.release()
