"""The Redis store: every read and write is one function on a thread of the store's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, TypeVar
from weakref import finalize

from ce_engine.errors import ConfigError, FileDamagedError, StoreUnavailableError
from ce_engine.ports.ids import Clock, IdGenerator
from ce_engine.runtime.waiting import settled
from ce_engine.schema.events import ContentCheck
from ce_engine.schema.ids import chain_keys
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import SessionInfo, Write
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Setting, SettingsCheck, Standing, Versions
from ce_engine.stores import owner_settings as owned
from ce_engine.stores import secret, setting_macs
from ce_engine.stores.base import MARK, SEALED_BY, must_be_marked
from ce_engine.stores.documents.base import DocumentStore, Key, checked_session, listed
from ce_engine.stores.documents.redis.durability import weaknesses
from ce_engine.stores.documents.redis.link import Link
from ce_engine.stores.documents.redis.pages import LoadedSession, Stamp
from ce_engine.stores.documents.redis.purging import purge
from ce_engine.stores.documents.redis.server_url import place_of
from ce_engine.stores.documents.redis.settings import OwnersPages
from ce_engine.stores.documents.redis.shelf import Shelf
from ce_engine.stores.documents.session import CheckedSession, StoredSession, changed
from ce_engine.stores.fork import survive_fork
from ce_engine.stores.threads import WorkerQueue, outcome, stop_all


T = TypeVar("T")

_READERS = 3
"""For what may take long: a whole session, a list of them. Versions and settings have one of their own."""
_PURGE_S = 30.0
"""How long a purge waits for the server to write its files anew."""
_LAST_WORDS_S = 5.0
"""How long an exiting interpreter waits for writes that were accepted, and one that closes for the next answer."""
_INTERRUPTED_S = 0.2
"""What ends soon when its connection is shut; a thread that does not is left behind."""

_NO_SECRET = (
    f"{secret.VARIABLE} is not set, which a Redis store needs: several hosts may share it, and the secret "
    f"is never kept beside the sessions. Set {secret.VARIABLE} to a long random text, the same on all of "
    "them, such as `openssl rand -hex 32` prints."
)


class RedisStore(DocumentStore):
    """Hot sessions in a Redis server, 6.2 or newer, which many processes and hosts may share (A-07).

    See `ports.Store` for the contract. The URL is `redis://user:password@host:6379/0`, `rediss://` for
    TLS, with `?prefix=ce` before all keys, `expire=7d` (or `s`, `m`, `h`) from a session's last write
    until it goes with its event log, and `ca_certs`, `certfile`, `keyfile` for TLS. Without `expire`
    nothing goes. Settings of owners never expire. `CE_SECRET` must be set, the same for all who
    write: the server keeps a digest to compare it with, and not the secret.

    **After a crash.** Of an app's process: what was acknowledged is in the server, each group whole or
    not at all. Of the server, it depends on what its operator set, and what is lost is always the end:

    - `appendonly yes` with `appendfsync always`: nothing that was acknowledged is lost, not even when
      the power fails;
    - `appendfsync everysec` (Redis' default of the log): a kill of the server loses nothing unless its
      disk lags, a failure of the power about the last second, at most two;
    - `appendonly no`, snapshots alone (the default of many installations): all since the last snapshot
      is lost, which may be an hour;
    - neither: all is lost. And a failover to a replica loses what that had not received.

    A session that comes back as it was before is put to a new epoch by the first process that knew it
    newer: views are built anew, and its event chain verifies, shorter. Set `maxmemory-policy
    noeviction`: else a full server drops sessions on its own.

    Opening is lazy: the server is asked with the first read or write. Each answer is waited for at most
    `timeout_s` seconds; a session that other processes write to meanwhile is tried again as long.
    Listing looks at every key of the database. Clusters are not supported.

    Raises:
        StoreUrlError: the URL is not understood.
    """

    _admits_itself = True

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 1.0,
        clock: Clock | None = None,
        ids: IdGenerator | None = None,
    ) -> None:
        super().__init__(clock=clock, ids=ids)
        self._place = place_of(url)
        self._timeout_s = timeout_s
        self._begin()
        links = self._new_links()
        self._writer = WorkerQueue("writer", links[:1])
        self._lookups = WorkerQueue("lookup", links[1:2])
        self._readers = WorkerQueue("reader", links[2:])
        finalize(self, stop_all, (self._lookups, self._readers, self._writer), _LAST_WORDS_S)
        survive_fork(self)

    def _begin(self) -> None:
        self._shelf = Shelf(self._place, self._timeout_s, _mac_key)
        self._settings = OwnersPages(
            self._place,
            self._timeout_s,
            lambda owner: _mac_key((*owner, "")),
            _secret,
        )

    def _new_links(self) -> list[Link]:
        self._links = [Link(self._place, self._timeout_s) for _ in range(2 + _READERS)]
        return self._links

    @property
    def url(self) -> str:
        return self._place.url

    @property
    def secret(self) -> bytes:
        return _secret()

    def check_place(self) -> None:
        if secret.from_environment() is None:
            raise ConfigError(_NO_SECRET)

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        now = self._clock.now_iso()

        def change(old: StoredSession | None) -> tuple[StoredSession | None, PutResult]:
            return changed(scope, old, writes, expected_version, now, lambda: self.secret)

        if not writes:
            return (await self._look(scope, change))[1]
        return await self._run(self._writer, lambda link: self._shelf.change(link, scope, change))

    async def version(self, scope: Scope) -> Versions:
        owner = owned.owner_of(scope)

        def look(link: Link) -> Versions:
            first, of_owner = link.firsts(self._place.session(scope.key), self._place.owner(owner))
            stamp = self._shelf.stamp(link, scope.key, first)
            own = self._settings.read(link, owner, of_owner)
            return _versions(stamp, owned.version_of(own, scope.project_id))

        return await self._run(self._lookups, look)

    async def get_setting(self, scope: Scope, name: str) -> Setting | None:
        def look(link: Link) -> Setting | None:
            return owned.find(self._settings.read_now(link, owned.owner_of(scope)), scope, name)

        return await self._run(self._lookups, look)

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

        def work(link: Link) -> int:
            self._shelf.check_secret(link)
            return self._settings.change(link, owned.owner_of(scope), change)

        return await self._run(self._writer, work)

    async def delete_settings(self, account_id: str, user_id: str) -> int:
        def work(link: Link) -> int:
            self._shelf.check_secret(link)
            return self._settings.delete(link, (account_id, user_id))

        return await self._run(self._writer, work)

    async def list_settings(self) -> dict[tuple[str, ...], Setting]:
        return await self._run(
            self._readers, lambda link: owned.listed(self._settings.of_all(link))
        )

    async def check_settings(
        self, account_id: str | None = None, user_id: str | None = None
    ) -> dict[tuple[str, str, str], SettingsCheck]:
        def look(link: Link) -> dict[tuple[str, str, str], SettingsCheck]:
            settings = self._settings.read_all(link, account_id, user_id)
            return setting_macs.checks_of_owners(lambda: self.secret, settings)

        return await self._run(self._readers, look)

    async def damaged(self, account_id: str | None = None, user_id: str | None = None) -> list[str]:
        def look(link: Link) -> list[str]:
            sessions = self._shelf.damaged(link, account_id, user_id)
            return sessions + self._settings.damaged(link, account_id, user_id)

        return await self._run(self._readers, look)

    async def list_sessions(
        self,
        *,
        account_id: str = "",
        user_id: str | None = "",
        ephemeral: bool = False,
        since: str = "",
        limit: int | None = None,
    ) -> list[SessionInfo]:
        def look(link: Link) -> list[SessionInfo]:
            sessions = self._shelf.of_account(link, account_id, user_id)
            return listed(sessions, user_id, ephemeral, since, limit)

        return await self._run(self._readers, look)

    async def list_keys(self) -> list[Key]:
        return await self._run(self._readers, self._shelf.keys)

    async def check_content(self, scope: Scope) -> ContentCheck | None:
        return await self._run(
            self._readers, lambda link: _checked(self._shelf.look_anew(link, scope.key))
        )

    async def checked(self, scope: Scope) -> CheckedSession | None:
        def look(link: Link) -> CheckedSession | None:
            session = self._shelf.look_anew(link, scope.key)
            return checked_session(session.state if session else None, _checked(session))

        return await self._run(self._readers, look)

    async def purge(self) -> None:
        await self._run(self._writer, lambda link: purge(link, _PURGE_S))

    async def check(self) -> None:
        """Write and delete a key of our own: that the server answers is not enough."""

        def work(link: Link) -> None:
            self._shelf.check_secret(link)
            trial = f"{self._place.prefix}:trial"
            link.run(lambda client: client.set(trial, b"", ex=1))
            link.delete_if(trial, b"")

        await self._run(self._writer, work)

    async def weaknesses(self) -> list[tuple[str, str]]:
        """What may take sessions from the server that did not expire, each with its cure."""
        return await self._run(self._readers, weaknesses)

    async def close(self) -> None:
        lanes = self._lookups, self._readers, self._writer
        ends = [end for lane in lanes for end in lane.stop()]
        for end in ends:
            since = monotonic()
            while not await settled(end, _LAST_WORDS_S):
                if all(link.answered < since for link in self._links):
                    for link in self._links:
                        link.interrupt()
                    await settled(end, _INTERRUPTED_S)
                    break
                since = monotonic()

    async def _look(self, scope: Scope, look: Callable[[StoredSession | None], T]) -> T:
        def work(link: Link) -> T:
            session = self._shelf.load(link, scope.key)
            return look(session.state if session else None)

        return await self._run(self._readers, work)

    async def _run(self, lane: WorkerQueue[Link], work: Callable[[Link], T]) -> T:
        deadline = monotonic() + self._timeout_s
        writes = lane is self._writer and not self._is_admitted
        is_sealing = self.encryption is not None

        def job(link: Link) -> T:
            link.refuse(deadline)
            if writes:
                self._admit_here(link, is_sealing=is_sealing)
            return work(link)

        return await outcome(lane.submit(job))

    def _admit_here(self, link: Link, *, is_sealing: bool) -> None:
        """See that this process has the key of what is sealed, under the store's prefix."""
        owner = owned.owner_of(SEALED_BY)
        try:
            mark = owned.find(self._settings.read_now(link, owner), SEALED_BY, MARK)
        except FileDamagedError as error:
            # It is nobody's own: what is handed over waits until it is mended.
            raise StoreUnavailableError(str(error)) from None
        if must_be_marked(mark, is_sealing=is_sealing):
            self._settings.change(
                link, owner, lambda old: owned.put(old, SEALED_BY, MARK, True, None)
            )

    def before_fork(self) -> None:
        """Nothing rests: the child begins anew."""

    def after_fork(self, *, child: bool) -> None:
        if child:
            self._begin()
            links = self._new_links()
            self._writer.reset(links[:1])
            self._lookups.reset(links[1:2])
            self._readers.reset(links[2:])


def _secret() -> bytes:
    """That of the environment; a function, for a store that held itself would go only when garbage is collected."""
    text = secret.from_environment()
    if text is None:
        raise StoreUnavailableError(_NO_SECRET)
    return text


def _mac_key(key: Key) -> bytes | None:
    """The key of a session's MACs; `None` for who reads only, and has not the secret."""
    text = secret.from_environment()
    return None if text is None else chain_keys(text, key).own


def _versions(stamp: Stamp | None, settings: int) -> Versions:
    if stamp is None or stamp.is_deleted:
        return Versions(settings=settings)
    return Versions(stamp.version, stamp.epoch, settings)


def _checked(session: LoadedSession | None) -> ContentCheck | None:
    """What the MACs of a session's texts say."""
    if session is None:
        return None
    state, forged = session.state, session.state.forged or session.wrong
    things = (state.messages, state.evidence, state.calls, state.usages, state.turns, state.tasks)
    if not session.checked:
        return ContentCheck(unverified=(f"content: {secret.VARIABLE} is not set",))
    if forged:
        return ContentCheck(wrong=(f"not what was written: {forged}",))
    return ContentCheck(sum(map(len, things)))
