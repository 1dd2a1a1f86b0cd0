"""All sessions of a Redis store: the last ones in memory, and what a server that crashed has lost."""

from __future__ import annotations

import logging
import random
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import TypeVar

from ce_engine.errors import FileDamagedError, MigrationError
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import SessionHead
from ce_engine.schema.scope import Scope
from ce_engine.stores import secret
from ce_engine.stores.documents.base import Key
from ce_engine.stores.documents.redis import faults, pages
from ce_engine.stores.documents.redis.link import Link
from ce_engine.stores.documents.redis.pages import LoadedSession, Stamp, Watermark
from ce_engine.stores.documents.redis.server_url import Place
from ce_engine.stores.documents.session import StoredSession


logger = logging.getLogger("ce_engine.stores")
T = TypeVar("T")

MacKeys = Callable[[Key], bytes | None]
"""The key of a session's MACs; `None` where there is no secret: then nothing can be said."""

_KEPT_SESSIONS = 64
_WATERMARKS = 4096
_LONGEST_PAUSE_S = 0.01
_UNREADABLE = (FileDamagedError, MigrationError)
"""What is wrong with one session, and ends no list of the others."""


class Shelf:
    """Any thread reads and writes with a link of its own.

    A server that crashes may come up with the sessions of a moment before, which a process that lives
    on has seen newer. Whoever notices that puts such a session to a new epoch, so that nobody takes
    what he remembers for what is stored.
    """

    def __init__(self, place: Place, timeout_s: float, keys: MacKeys) -> None:
        self.place = place
        self._timeout_s = timeout_s
        self._keys = keys
        self._has_secret = False
        self._cache: OrderedDict[Key, LoadedSession] = OrderedDict()
        self._watermarks: OrderedDict[Key, Watermark] = OrderedDict()
        self._warned: OrderedDict[Key, None] = OrderedDict()
        self._mutex = threading.Lock()

    def check_secret(self, link: Link) -> None:
        """See, once, that this process writes with the secret of all who wrote before it.

        Raises:
            StoreUnavailableError: it has another one.
        """
        own = secret.mark()
        if self._has_secret or not own:
            return
        if link.put_if_new(self.place.secret_mark, own.encode()) != own.encode():
            raise faults.other_secret(self.place.server, self.place.secret_mark)
        self._has_secret = True

    def stamp(self, link: Link, key: Key, text: bytes | None) -> Stamp | None:
        """The stamp that stands first under the session's key, once all that was seen is in there."""
        if text is None:
            return None
        stamp, watermark = Stamp.parse(text, self.place.server), self._watermark(key)
        if watermark is None or watermark.stamp == stamp:
            return stamp
        session = self.load(link, key)
        return None if session is None else session.stamp

    def load(self, link: Link, key: Key) -> LoadedSession | None:
        """The session; of what is known only the news is read."""
        deadline = monotonic() + self._timeout_s
        while True:
            session, is_lost = self._fetch(link, key)
            if session is None or not is_lost:
                return session
            if self._put_to_new_epoch(link, key, session):
                continue
            self._pause(deadline)

    def look_anew(self, link: Link, key: Key) -> LoadedSession | None:
        """The session as the server has it, every byte of it; nothing that is known is spared."""
        return self._loaded(key, link.texts(self.place.session(key)))

    def change(
        self,
        link: Link,
        scope: Scope,
        change: Callable[[StoredSession | None], tuple[StoredSession | None, PutResult]],
    ) -> PutResult:
        """Write what `change` makes of the session; where others were faster, of what they made."""
        deadline, key = monotonic() + self._timeout_s, scope.key
        self.check_secret(link)
        while True:
            old = self.load(link, key)
            state, result = change(old.state if old else self._remains(key))
            mac_key = self._keys(key)
            if state is None or mac_key is None:
                return result
            anew = bool(result.removed)
            if self._put(
                link, old, pages.text_write(key, old, state, mac_key, anew=anew), mark=anew
            ):
                return result
            self._pause(deadline)

    def of_account(
        self, link: Link, account_id: str, user_id: str | None
    ) -> Iterator[tuple[Key, StoredSession]]:
        """All sessions of an account, or of one user of it."""
        names = (account_id,) if user_id is None else (account_id, user_id)
        keys = link.scan(self.place.pattern(*names))
        for name, texts in link.all_texts(keys):
            key = self.place.key_of(name)
            if key is None:
                continue
            try:
                session = self._loaded(key, texts)
            except _UNREADABLE as error:
                self._warn(key, error)
                continue
            if session is not None:
                yield key, session.state

    def damaged(self, link: Link, account_id: str | None, user_id: str | None) -> list[str]:
        """What is wrong with the sessions that no list has; each is named."""
        names = () if account_id is None else (account_id,)
        problems = []
        for name, texts in link.all_texts(link.scan(self.place.pattern(*names))):
            key = self.place.key_of(name)
            try:
                if key is not None and user_id in (None, key[1]):
                    self._loaded(key, texts)
            except _UNREADABLE as error:
                problems.append(_describe_error(key, error))
        return problems

    def _loaded(self, key: Key, texts: list[bytes] | FileDamagedError) -> LoadedSession | None:
        if isinstance(texts, FileDamagedError):
            raise texts
        return pages.load(key, texts, self._keys(key), self.place.server)

    def _warn(self, key: Key, error: Exception) -> None:
        """Say once of a session that it is left out of lists."""
        with self._mutex:
            is_new = key not in self._warned
            _put_last(self._warned, key, None, _WATERMARKS)
        if is_new:
            logger.warning("a session is left out of lists: %s", _describe_error(key, error))

    def keys(self, link: Link) -> list[Key]:
        """All sessions."""
        names = map(self.place.key_of, link.scan(self.place.pattern()))
        return sorted(key for key in names if key is not None)

    def _fetch(self, link: Link, key: Key) -> tuple[LoadedSession | None, bool]:
        """The session as it is now, and whether some of what was seen of it is lost."""
        server, name, mac_key = self.place.server, self.place.session(key), self._keys(key)
        with self._mutex:
            old = self._cache.get(key)
        if old is not None:
            first, *lines = link.texts(name, 2 + old.stamp.lines) or (None,)
            stamp = None if first is None else Stamp.parse(first, server)
            if stamp == old.stamp:
                return old, False
            if stamp and pages.follows(old, stamp, lines, mac_key):
                return self._remember(pages.with_lines(old, stamp, lines, mac_key, server)), False
        texts = link.texts(name)
        session = pages.load(key, texts, mac_key, server)
        if session is None:
            self._forget(key)
            return None, False
        watermark = self._watermark(key)
        if watermark and session.has_lost(watermark, texts):
            return session, True
        return self._remember(session), False

    def _remains(self, key: Key) -> StoredSession | None:
        """What is left of a session that was seen and has expired: as much as of a deleted one."""
        watermark = self._watermark(key)
        if watermark is None:
            return None
        return StoredSession(
            SessionHead(version=watermark.stamp.version, epoch=watermark.stamp.epoch + 1)
        )

    def _put_to_new_epoch(self, link: Link, key: Key, session: LoadedSession) -> bool:
        """Write a session, of which newer states were seen, under an epoch that nobody has seen."""
        watermark, mac_key = self._watermark(key), self._keys(key)
        if mac_key is None or watermark is None:
            self._remember(session)
            return True
        state = session.state
        # What was deleted may hold what somebody put there since: it is not signed.
        state = state.emptied(Scope.of_stored(*key)) if state.head.is_deleted else state.draft()
        state.head.version = max(state.head.version, watermark.stamp.version) + 1
        state.head.epoch = max(state.head.epoch, watermark.stamp.epoch) + 1
        return self._put(link, session, pages.text_write(key, session, state, mac_key, anew=True))

    def _put(
        self, link: Link, old: LoadedSession | None, new: pages.TextWrite, *, mark: bool = False
    ) -> bool:
        session = new.session
        done = link.swap(
            self.place.session(session.key),
            (old.stamp.encode() if old else b"", session.stamp.encode()),
            new.text,
            is_page=new.is_page,
            expire_ms=self.place.expire_ms,
            mark=pages.nonce() if mark else "",
        )
        if done:
            self._remember(session)
        return done

    def _watermark(self, key: Key) -> Watermark | None:
        with self._mutex:
            return self._watermarks.get(key)

    def _remember(self, session: LoadedSession) -> LoadedSession:
        with self._mutex:
            _put_last(self._cache, session.key, session, _KEPT_SESSIONS)
            _put_last(self._watermarks, session.key, session.watermark, _WATERMARKS)
        return session

    def _forget(self, key: Key) -> None:
        with self._mutex:
            self._cache.pop(key, None)

    def _pause(self, deadline: float) -> None:
        if monotonic() > deadline:
            raise faults.busy(self.place.server, self._timeout_s)
        sleep(random.uniform(0, _LONGEST_PAUSE_S))  # noqa: S311 - no secret


def _describe_error(key: Key | None, error: Exception) -> str:
    return f"session {(key or ('',))[-1]!r}: {error}"


def _put_last(items: OrderedDict[Key, T], key: Key, item: T, most: int) -> None:
    items[key] = item
    items.move_to_end(key)
    if len(items) > most:
        items.popitem(last=False)
