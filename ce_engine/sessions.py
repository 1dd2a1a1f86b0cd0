"""The sessions that this process knows: views, kept up to date with the store while it answers."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import suppress

from ce_engine.config import RuntimeConfig
from ce_engine.errors import ContextEngineError, StoreUnavailableError, VersionConflictError
from ce_engine.ports import Clock, Redactor, Store
from ce_engine.runtime.journal import Journal
from ce_engine.schema.ids import Fingerprinter
from ce_engine.schema.report import Report
from ce_engine.schema.rows import CreateSession, SessionHead
from ce_engine.schema.scope import Scope
from ce_engine.view import SessionView, ViewCache


MAX_REPORTS = 256


class Sessions:
    """Gives the view of a session. To be called under the session's lock."""

    def __init__(
        self,
        store: Store,
        journal: Journal,
        redactor: Redactor,
        config: RuntimeConfig,
        clock: Clock,
    ) -> None:
        self._store = store
        self._journal = journal
        self._redactor = redactor
        self._locale = config.locale
        self._clock = clock
        self._views = ViewCache(config.store.view_bytes)
        self._spare_secret = os.urandom(32)
        self._reports: OrderedDict[str, Report] = OrderedDict()
        self._mutex = threading.Lock()

    def remember(self, session_id: str, report: Report) -> None:
        """Keep the newest report of a session; old sessions' are forgotten."""
        with self._mutex:
            self._reports[session_id] = report
            self._reports.move_to_end(session_id)
            while len(self._reports) > MAX_REPORTS:
                self._reports.popitem(last=False)

    def last_report(self, session_id: str) -> Report | None:
        return self._reports.get(session_id)

    def known(self, scope: Scope) -> SessionView | None:
        """The view as it is remembered, without asking the store."""
        return self._views.get(scope)

    def drop(self, scope: Scope) -> None:
        """Forget a view; the next call builds it anew from the store."""
        self._views.drop(scope)

    def clear(self) -> None:
        self._views.clear()

    async def view(self, scope: Scope, *, ephemeral: bool) -> tuple[SessionView, list[str]]:
        """The session's view, and codes of what is degraded.

        It is fresh from the store where that answers; else what is remembered; else empty, and then
        only the host's own list is known (the ladder of decision 10).
        """
        view = self._views.get(scope)
        try:
            if view is None or not await self._is_current(view):
                view = self._fresh(scope, ephemeral=True) if ephemeral else await self._load(scope)
                self._views.put(view)
        except StoreUnavailableError as error:
            if view is None:
                view = self._fresh(scope, ephemeral=ephemeral)
                self._views.put(view)
            return view, [error.code]
        return view, []

    async def _is_current(self, view: SessionView) -> bool:
        """Bring a view up to date; false if it must be built anew."""
        if view.head.ephemeral:
            return True  # its id was made in this process: nobody else writes there
        found = await self._journal.read(lambda: self._store.version(view.scope))
        if found is None:
            return not view.is_stored
        version, epoch = found
        if epoch != view.head.epoch and view.is_stored:
            return False
        if version != view.head.version:
            state = await self._journal.read(
                lambda: self._store.state(
                    view.scope, after_seq=view.last_seq, after_evidence=view.last_evidence
                )
            )
            if state is not None:
                if state.head.key_id != view.fingerprinter.key_id:
                    return False  # made while the store was away, with a salt of its own
                view.top_up(state)
        return True

    async def _load(self, scope: Scope) -> SessionView:
        state = await self._journal.read(lambda: self._store.state(scope))
        if state is None:
            # The session row first: all who write to it must make their fingerprints with one salt.
            head = self._fresh(scope, ephemeral=False).head
            create = CreateSession(head.salt, head.key_id, at=head.created_at)
            with suppress(VersionConflictError):  # somebody else was faster
                await self._journal.read(lambda: self._store.apply(scope, [create]))
            state = await self._journal.read(lambda: self._store.state(scope))
        if state is None:
            raise StoreUnavailableError("a session that was just made is not there")
        fingerprinter = Fingerprinter(self._store.secret, state.head.salt, scope)
        redactor = self._redactor.bind(fingerprinter.key, state.placeholders, self._locale)
        view = SessionView(scope, state.head, fingerprinter, redactor)
        view.top_up(state)
        return view

    def _secret(self) -> bytes:
        """The install's secret; one of this process alone while the store cannot give it."""
        try:
            return self._store.secret
        except ContextEngineError:
            return self._spare_secret

    def _fresh(self, scope: Scope, *, ephemeral: bool) -> SessionView:
        salt = os.urandom(16)
        fingerprinter = Fingerprinter(self._secret(), salt, scope)
        head = SessionHead(
            salt=salt,
            key_id=fingerprinter.key_id,
            ephemeral=ephemeral,
            created_at=self._clock.now_iso(),
        )
        redactor = self._redactor.bind(fingerprinter.key, [], self._locale)
        return SessionView(scope, head, fingerprinter, redactor)
