"""Verifies that what is stored of a session is what was recorded (B-01)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ce_engine.audit.anchors import (
    Anchor,
    anchors_of,
    differences,
    session_name,
    setting_differences,
    settings_name,
)
from ce_engine.errors import ConfigError, SessionNotFoundError, StoreError
from ce_engine.runtime.waiting import STORE_S, answered
from ce_engine.schema.event_chain import is_under, verify_log
from ce_engine.schema.events import ContentCheck, Event, Verification
from ce_engine.schema.ids import ChainKeys, Fingerprinter, chain_keys
from ce_engine.schema.rows import EventChain
from ce_engine.schema.scope import Scope, as_scope, check_project
from ce_engine.schema.settings import SettingsCheck, SettingsVerification
from ce_engine.stores.base import BaseStore
from ce_engine.turns.engine_base import EngineBase


if TYPE_CHECKING:
    from ce_engine.stores.documents.session import CheckedSession


_OTHERS = 20
"""Sessions that are asked whether this is the secret of the store."""


class Verifying(EngineBase):
    """Compares a session's log and content with the MACs that were made when they were recorded."""

    async def verify(self, session_id: Scope | str, *, anchors: str = "") -> Verification:
        """Verify a session, a deleted one too: its events, and the rows that they tell of (B-01).

        Nobody can change, add or delete an event or a row unnoticed without the install's secret. Who
        puts back an older state of all of it, or has the secret, is noticed by `anchors` only: lines of
        `Verification.anchor` that were kept elsewhere, one a line; those of other sessions do no harm.

        Raises:
            SessionNotFoundError: nothing was ever recorded of it for this account and user.
            ScopeViolationError: it belongs to another project.
            ConfigError: it was recorded with another secret, without which nothing can be verified; or
                a line of `anchors` is none.
            StoreUnavailableError: the store cannot be read now.
        """
        return await self.loop.share(self._verify(as_scope(session_id), anchors_of(anchors)))

    async def _verify(self, scope: Scope, anchors: Sequence[Anchor]) -> Verification:
        await self._land(scope)
        content = await answered(self.store.check_content(scope))
        chain = await answered(self.store.chain(scope))
        if chain is None:
            raise SessionNotFoundError(
                f"there is no session {scope.session_id!r} of this account and user to verify"
            )
        return await self._verified(scope, chain, content, anchors)

    async def _verified(
        self,
        scope: Scope,
        chain: EventChain,
        content: ContentCheck | None,
        anchors: Sequence[Anchor],
    ) -> Verification:
        head, secret = chain.head, self.store.secret
        check_project(scope, head.project_id)
        keys = chain_keys(secret, scope.key)
        session_key, wrong = await self._key_of(scope, chain, keys)
        name = session_name(secret, scope.key)
        content = content or ContentCheck()
        own = [anchor for anchor in anchors if anchor.session == name]
        wrong += [*content.wrong, *differences(own, chain.events, content.trail)]
        content = replace(content, wrong=tuple(dict.fromkeys(wrong)))
        verification = verify_log(chain.events, head.chain_head, keys, session_key, content)
        return replace(verification, anchor=str(self._anchor(name, chain.events, content)))

    async def verify_settings(
        self, account_id: str | None = None, user_id: str | None = None, *, anchors: str = ""
    ) -> list[SettingsVerification]:
        """Verify what owners set (constraints, budgets), of one account and user or of all (19 A.1).

        Nobody forges, adds or deletes one, or puts one back, unnoticed without the install's secret. An older
        state of all that an owner set in a project, put back together, and all of it deleted, is noticed by
        `anchors` only, as with sessions. With another secret than they were set with, all of them are wrong.

        Raises:
            ConfigError: a line of `anchors` is none.
            StoreError: the store is somebody's own, and cannot list what owners set.
            StoreUnavailableError: the store cannot be read now.
        """
        return await self.loop.share(
            self._verify_settings(account_id, user_id, anchors_of(anchors))
        )

    async def _verify_settings(
        self, account_id: str | None, user_id: str | None, anchors: Sequence[Anchor]
    ) -> list[SettingsVerification]:
        if not isinstance(self.store, BaseStore):
            raise StoreError(f"the store {self.store.url!r} cannot list what owners set")
        checks = await answered(self.store.check_settings(account_id, user_id))
        return [self._of_owner(key, check, anchors) for key, check in sorted(checks.items())]

    def _of_owner(
        self, key: tuple[str, str, str], check: SettingsCheck, anchors: Sequence[Anchor]
    ) -> SettingsVerification:
        name = settings_name(self.store.secret, key)
        now = Anchor(self.clock.now_iso(), name, check.versions, "", check.mac)
        own = [anchor for anchor in anchors if anchor.session == name]
        wrong = tuple(dict.fromkeys([*check.wrong, *setting_differences(own, now)]))
        return SettingsVerification(*key, check.settings, wrong, check.unverified, str(now))

    def _anchor(self, name: str, events: Sequence[Event], content: ContentCheck) -> Anchor:
        count = len(events)
        head = events[-1].hash if events else ""
        return Anchor(self.clock.now_iso(), name, count, head, content.trail.get(count, ""))

    async def _key_of(
        self, scope: Scope, chain: EventChain, keys: ChainKeys
    ) -> tuple[bytes | None, list[str]]:
        """The session's key, if it has one still, and what is wrong with it."""
        head = chain.head
        if not head.is_deleted:
            fingerprinter = Fingerprinter(self.store.secret, head.salt, scope)
            if fingerprinter.key_id == head.key_id:
                return fingerprinter.key, []
        if is_under(chain.events, keys):
            return None, [] if head.is_deleted else ["the session's key was exchanged"]
        if not await self._is_the_stores_secret(scope):
            raise ConfigError(
                f"session {scope.session_id!r} was recorded with another secret than this install has "
                "now, or all of it was forged: nothing can be verified. Give it that secret: "
                "CE_SECRET, or the key file beside the store."
            )
        return None, ["nothing of it was recorded with the secret that the store's sessions have"]

    async def _is_the_stores_secret(self, scope: Scope) -> bool:
        """Whether another session was recorded with the secret that this install has now."""
        listed = await answered(self.store.list_keys())
        for account_id, user_id, session_id in [k for k in listed if k != scope.key][:_OTHERS]:
            other = Scope.of_stored(account_id, user_id, session_id)
            chain = await answered(self.store.chain(other))
            if chain and is_under(chain.events, chain_keys(self.store.secret, other.key)):
                return True
        return False

    async def _land(self, scope: Scope) -> None:
        """Wait, outside the lock, for what was handed over: the app's own calls wait for nobody."""
        await self._settle(scope)
        await self._journal.flush(STORE_S)


async def verified_session(
    engine: Verifying, store: BaseStore, scope: Scope
) -> tuple[CheckedSession, Verification] | None:
    """A session of an engine's store with what was found of this very reading of it; `None` if it is not there any more.

    Raises:
        ConfigError: it was recorded with another secret, without which nothing can be verified.
        StoreError: the store is somebody's own, and has no way to copy.
    """
    await engine._land(scope)  # noqa: SLF001 - no door of the engine: a copy alone has it
    read = await store.checked(scope)
    if read is None:
        return None
    own = Scope.of_stored(*scope.key, read.chain.head.project_id)
    return read, await engine._verified(own, read.chain, read.content, ())  # noqa: SLF001 - as above
