"""The sessions that this process knows: views, kept up to date with the store while it answers."""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Literal

from ce_engine.config import RuntimeConfig
from ce_engine.errors import (
    ContextEngineError,
    ScopeViolationError,
    StoreUnavailableError,
    VersionConflictError,
)
from ce_engine.ports.ids import Clock
from ce_engine.ports.redaction import Redactor
from ce_engine.ports.store import Store
from ce_engine.runtime.fork import renew_after_fork
from ce_engine.runtime.journal import Journal
from ce_engine.schema.enums import TurnStatus
from ce_engine.schema.ids import Fingerprinter
from ce_engine.schema.report import PutResult, Report
from ce_engine.schema.rows import CreateSession, SessionHead, SessionState
from ce_engine.schema.scope import Scope, check_project
from ce_engine.schema.settings import Versions
from ce_engine.sessions.view import BoundedDict, OpenTurn, SessionView


security = logging.getLogger("ce_engine.security")
MAX_REPORTS = 256
MAX_EPHEMERAL = 10_000
MAX_REPLACED, MAX_REPLACED_BYTES = 1000, 32_000_000
"""Sessions that are forgotten but for what is under way in them, and their bytes; of more, the oldest turns end."""
Key = tuple[str, str, str]
_STATE = SessionState | None


class ViewCache:
    """Views by full scope, bounded in bytes; those with an open turn stay up to twice the bound.

    The bytes are summed up as views are put and touched, so that no call pays for all sessions.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._views: OrderedDict[tuple[str, str, str], SessionView] = OrderedDict()
        self._counted: dict[tuple[str, str, str], int] = {}
        self.bytes = 0
        self.renew()

    def renew(self) -> None:
        """A new lock, for a forked child."""
        self._mutex = threading.Lock()

    def get(self, scope: Scope) -> SessionView | None:
        with self._mutex:
            view = self._views.get(scope.key)
            if view is not None:
                self._views.move_to_end(scope.key)
            return view

    def put(self, view: SessionView) -> list[SessionView]:
        """Keep a view, or count again one that has grown; what goes when there are too many bytes."""
        with self._mutex:
            key, view_bytes = view.scope.key, view.held_bytes
            self._views[key] = view
            self._views.move_to_end(key)
            self.bytes += view_bytes - self._counted.get(key, 0)
            self._counted[key] = view_bytes
            return self._shrunk(view) if self.bytes > self._max else []

    def keys(self) -> list[tuple[str, str, str]]:
        with self._mutex:
            return list(self._views)

    def drop(self, scope: Scope) -> SessionView | None:
        """Forget a view and return it."""
        with self._mutex:
            self.bytes -= self._counted.pop(scope.key, 0)
            return self._views.pop(scope.key, None)

    def clear(self) -> None:
        with self._mutex:
            self._views.clear()
            self._counted.clear()
            self.bytes = 0

    def _shrunk(self, newest: SessionView) -> list[SessionView]:
        dropped_views: list[SessionView] = []
        for most, with_turns in ((self._max, False), (2 * self._max, True)):
            for view in list(self._views.values()) if self.bytes > most else ():
                if self.bytes <= most:
                    break
                if view is not newest and (with_turns or not view.turns):
                    del self._views[view.scope.key]
                    self.bytes -= self._counted.pop(view.scope.key)
                    dropped_views.append(view)
        return dropped_views


def end_turns(view: SessionView) -> None:
    """End the turns of a view that is forgotten: they record nothing any more."""
    for turn in view.turns.values():
        turn.handle.status = TurnStatus.ABANDONED


class Sessions:
    """Gives the view of a session. To be called under the session's lock."""

    def __init__(
        self,
        store: Store,
        journal: Journal,
        redactor: Redactor,
        config: RuntimeConfig,
        clock: Clock,
        forget_words: Callable[[], None],
    ) -> None:
        self._forget_words = forget_words
        self._store = store
        self._journal = journal
        self._redactor = redactor
        self._locale = config.locale
        self._clock = clock
        self._views = ViewCache(config.store.view_bytes)
        self._spare_secret = os.urandom(32)
        self._reports: BoundedDict[Key, Report] = BoundedDict(MAX_REPORTS)
        self._replaced: OrderedDict[Key, SessionView] = OrderedDict()
        self._heads: BoundedDict[Key, SessionHead] = BoundedDict(MAX_REPORTS)
        self._epochs: BoundedDict[Key, int] = BoundedDict(MAX_REPORTS)
        self._ephemeral: BoundedDict[Key, None] = BoundedDict(MAX_EPHEMERAL)
        renew_after_fork(self._views.renew)

    def remember(self, scope: Scope, report: Report) -> None:
        """Keep the newest report of a session; old sessions' are forgotten."""
        self._reports[scope.key] = report

    def last_report(self, scope: Scope) -> Report | None:
        return self._reports.get(scope.key)

    def peek(self, scope: Scope) -> SessionView | None:
        """The view as it is remembered, without asking the store."""
        return self._views.get(scope)

    def turns(self, scope: Scope) -> Mapping[str, OpenTurn]:
        """The open turns by id, also those that wait for the view to be built anew."""
        view = self._views.get(scope) or self._replaced.get(scope.key)
        return view.turns if view is not None else {}

    def drop(self, scope: Scope) -> None:
        """Forget a view; the next call builds it anew from the store and goes on with its open turns."""
        view = self._views.drop(scope)
        if view is not None:
            self._leave(view)

    def _leave(self, view: SessionView) -> None:
        """Keep what is under way in a session that is forgotten, and nothing else of it."""
        if view.turns or view.failed:
            self._replaced[view.scope.key] = view.under_way()
        total_bytes = sum(old_view.bytes for old_view in self._replaced.values())
        while len(self._replaced) > 1 and (
            len(self._replaced) > MAX_REPLACED or total_bytes > MAX_REPLACED_BYTES
        ):
            oldest = self._replaced.popitem(last=False)[1]
            total_bytes -= oldest.bytes
            end_turns(oldest)

    def forget(self, scope: Scope) -> None:
        """Forget everything of a deleted session; its open turns end, and record nothing any more."""
        for view in (self._views.drop(scope), self._replaced.pop(scope.key, None)):
            if view is not None:
                end_turns(view)
        self._heads.pop(scope.key, None)
        self._reports.pop(scope.key, None)

    def keys_of(self, account_id: str, user_id: str) -> set[Key]:
        """The sessions of one user of which something is remembered."""
        keys = {*self._views.keys(), *self._replaced, *self._reports}
        return {key for key in keys if key[:2] == (account_id, user_id)}

    def grown(self, view: SessionView) -> None:
        """Count a view again after it took something in."""
        for dropped_view in self._views.put(view):
            self._leave(dropped_view)

    def clear(self) -> None:
        self._views.clear()

    async def view(
        self, scope: Scope, *, ephemeral: bool, as_known: bool = False
    ) -> tuple[SessionView, list[str]]:
        """The session's view, and codes of what is degraded.

        It is fresh from the store where that answers; else what is remembered; else empty, and then
        only the host's own list is known (the ladder of decision 10). `as_known` takes what is
        remembered without asking: the end of a turn needs no more than its beginning knew. Where
        nothing is, the turn's session was deleted, and the view is empty. So it is where the store says
        that the session is another one since, and does not give it: what is remembered may be deleted.
        """
        view = self._views.get(scope)
        if view is not None:
            _check(scope, view)
            if as_known:
                return view, []
        elif as_known and scope.key not in self._replaced:
            return self.fresh(scope, ephemeral=scope.key in self._ephemeral), []
        old, state = view, "unknown"
        try:
            state = "unknown" if old is None else await self._state(old)
            if state != "current":
                view = None
                view = self._put(await self._build(scope, ephemeral=ephemeral), old)
        except StoreUnavailableError as error:
            if view is None:
                view = self._start_over(scope, old, ephemeral=ephemeral, is_gone=state == "gone")
            return view, [error.code]
        assert view is not None
        return view, []

    def _start_over(
        self, scope: Scope, old: SessionView | None, *, ephemeral: bool, is_gone: bool
    ) -> SessionView:
        """An empty view where the store gives none; of what is remembered only open turns go on, and none of a deleted session."""
        if old is not None:
            self._forget_words()
        if is_gone:
            self.forget(scope)
            old = None
        return self._put(self.fresh(scope, ephemeral=ephemeral), old)

    async def _build(self, scope: Scope, *, ephemeral: bool) -> SessionView:
        if ephemeral and scope.key not in self._ephemeral:
            self._ephemeral[scope.key] = None
            return self.fresh(scope, ephemeral=True)
        if not await self._journal.settle(scope):
            raise StoreUnavailableError("records of this session are still on their way")
        return await self._load(scope, ephemeral=ephemeral)

    def _put(self, view: SessionView, old: SessionView | None) -> SessionView:
        """Keep a view that was built anew, with what was under way in the one before."""
        old = old or self._replaced.get(view.scope.key)
        old_epoch = old.head.epoch if old is not None else self._epochs.get(view.scope.key)
        self._epochs[view.scope.key] = view.head.epoch
        if old_epoch is not None and view.head.epoch > old_epoch:
            self._forget_words()  # some were deleted since, maybe by another process: caches do not know whose they have
        if old is not None and view.head.is_new_life_of(old.head):
            self.forget(view.scope)
        elif old is not None:
            self._replaced.pop(view.scope.key, None)
            view.adopt(old)
        self.grown(view)
        return view

    async def _state(self, view: SessionView) -> Literal["current", "changed", "gone"]:
        """Bring a view up to date; whether it must be built anew, and whether its session is deleted."""
        if view.head.is_deleted:
            return "gone"
        if view.head.ephemeral:
            return "current"  # its id was made in this process: nobody else writes there
        version, epoch, view.settings = await self._journal.read(
            lambda: self._store.version(view.scope), Versions
        )
        if not version:
            return "gone" if view.is_stored else "current"
        if epoch != view.head.epoch and view.is_stored:
            return "changed"
        if version != view.head.version:
            state = await self._journal.read(
                lambda: self._store.state(
                    view.scope, after_seq=view.last_seq, after_evidence=view.last_evidence
                ),
                _STATE,
            )
            if state is not None:
                if not view.goes_on_in(state.head):
                    # Made while the store was away, with a salt of its own; or some of it was deleted just now.
                    return "changed"
                view.top_up(state)
        return "current"

    async def number(self, view: SessionView) -> None:
        """Learn the numbers that the store has given to what the view has recorded itself.

        Nothing is learnt where something was deleted since: the next call has the view built anew.

        Raises:
            StoreUnavailableError: the store cannot be read now.
        """
        state = await self._journal.read(
            lambda: self._store.state(
                view.scope, after_seq=view.last_seq, after_evidence=view.last_evidence
            ),
            _STATE,
        )
        if state is not None and view.goes_on_in(state.head):
            view.top_up(state)

    async def _load(self, scope: Scope, *, ephemeral: bool) -> SessionView:
        state = await self._journal.read(lambda: self._store.state(scope), _STATE)
        begun = 0
        if state is None:
            is_first = scope.key not in self._heads
            # The session row first: all who write to it must make their fingerprints with one salt.
            head = self._heads[scope.key] = self.fresh(scope, ephemeral=ephemeral).head
            create = CreateSession(head.salt, head.key_id, head.ephemeral, head.created_at)
            with suppress(VersionConflictError):  # somebody else was faster
                result = await self._journal.read(
                    lambda: self._store.apply(scope, [create]), PutResult
                )
                begun = result.version if is_first else 0
            state = await self._journal.read(lambda: self._store.state(scope), _STATE)
        if state is None:
            raise StoreUnavailableError("a session that was just made is not there")
        self._heads.pop(scope.key, None)
        view = self._of(scope, state)
        if begun == state.head.version:  # nothing was written since it began
            view.tasks_and_blocks = (), ()
        return view

    async def apart(self, scope: Scope) -> SessionView:
        """A view that nobody else has, fresh from the store; a session that is not there is not begun."""
        await self._journal.settle(scope)
        state = await self._journal.read(lambda: self._store.state(scope), _STATE)
        return self.fresh(scope, ephemeral=False) if state is None else self._of(scope, state)

    def _of(self, scope: Scope, state: SessionState) -> SessionView:
        check_project(scope, state.head.project_id)
        fingerprinter = Fingerprinter(self._store.secret, state.head.salt, scope)
        redactor = self._redactor.bind(fingerprinter.key, state.placeholders, self._locale)
        view = SessionView(scope, state.head, fingerprinter, redactor)
        _check(scope, view)
        view.top_up(state)
        return view

    def _secret(self) -> bytes:
        """The install's secret; one of this process alone while the store cannot give it."""
        try:
            return self._store.secret
        except ContextEngineError:
            return self._spare_secret

    def fresh(self, scope: Scope, *, ephemeral: bool) -> SessionView:
        """An empty view, of a session that cannot be read or is not there."""
        begun = self._heads.get(scope.key)  # its creation may be on its way: the same salt
        salt = begun.salt if begun is not None else os.urandom(16)
        fingerprinter = Fingerprinter(self._secret(), salt, scope)
        head = SessionHead(
            salt=salt,
            key_id=fingerprinter.key_id,
            ephemeral=ephemeral,
            created_at=self._clock.now_iso(),
            project_id=scope.project_id,
        )
        redactor = self._redactor.bind(fingerprinter.key, [], self._locale)
        return SessionView(scope, head, fingerprinter, redactor)


def _check(scope: Scope, view: SessionView) -> None:
    try:
        check_project(scope, view.head.project_id)
    except ScopeViolationError as error:
        names = (scope.session_id, scope.project_id, view.head.project_id)
        digests = [view.fingerprinter.mac("scope", name)[:8].hex() for name in names]
        security.warning("%s session=%s asked_for=%s owner=%s", error.code, *digests)
        raise
