"""Deletes what has outlived its rule, as whoever asks for it does, or beside the app's calls (B-08)."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from time import monotonic
from typing import TypeVar

from ce_engine.audit.access import AccessGuard
from ce_engine.audit.deletion import DeletionMethods
from ce_engine.errors import ContextEngineError, FileDamagedError, VersionConflictError
from ce_engine.runtime.waiting import STORE_S, answered
from ce_engine.schema.audit import AuditStatus
from ce_engine.schema.enums import EvidenceType
from ce_engine.schema.report import DeletionReport
from ce_engine.schema.retention import (
    Expired,
    RetentionConfig,
    RetentionRule,
    SweepReport,
    expired_evidence,
    expired_sessions,
)
from ce_engine.schema.rows import HEAD_ONLY, SessionInfo
from ce_engine.schema.scope import Scope
from ce_engine.schema.times import parse_time
from ce_engine.stores.row_rules import DELETED_AT


T = TypeVar("T")
Key = tuple[str, str, str]

logger = logging.getLogger("ce_engine.retention")

SAID = (EvidenceType.USER_INPUT, EvidenceType.LLM_OUTPUT)
"""What was said goes with its session: a talk without its questions is none."""

SWEEPER = "retention"
"""Who deletes, in the audit log."""


class RetentionMethods(DeletionMethods):
    """Sweeps: one session at a time and under its lock, so that calls go on meanwhile."""

    guard: AccessGuard
    _next_sweep = 0.0

    async def sweep(
        self,
        config: RetentionConfig | None = None,
        *,
        dry_run: bool = False,
        advance: Callable[[int], None] = lambda _: None,
    ) -> SweepReport:
        """Delete what has outlived its rule, of all accounts, from every byte of the store.

        A sweep that is stopped is completed by the next. Each deletion is an event, and a record of the audit
        log; what is being worked with has just been written to, and is young.

        `authorize` is asked whether the actor may `delete` what is of everybody (`LISTED`): by default that is the
        app itself, where no actor is named. The engine's own sweeps beside its calls ask nobody.

        Args:
            config: the rules; else the engine's own (`RuntimeConfig.retention`).
            dry_run: only look.
            advance: is called with the number of what is still to be deleted.

        Raises:
            ScopeViolationError: the actor may not; nothing was looked at.
            StoreUnavailableError: the store cannot be read now, or has bytes of what was deleted.
        """
        config = config or self.config.retention
        return await self.loop.share(self._sweep(config, advance, dry_run=dry_run))

    async def _sweep(
        self, config: RetentionConfig, advance: Callable[[int], None], *, dry_run: bool
    ) -> SweepReport:
        report = SweepReport()
        if not config.rules:
            return report
        await self._land_all(STORE_S)
        now = parse_time(self.clock.now_iso()) or datetime.now(UTC)
        sessions = await self._all_sessions(config)
        report.expired = expired_sessions(sessions, config, now)
        expired_keys = {_key(item) for item in report.expired}
        updated_at = {_key(info): info.updated_at for info, _ in sessions}
        for info, project in sessions:
            rule = config.rule("evidence", info.account_id, info.user_id, project)
            if rule is not None and _key(info) not in expired_keys:
                report.expired += await self._expired_evidence(info, project, rule, now)
        if dry_run:
            return report
        for left, item in zip(range(len(report.expired), 0, -1), report.expired, strict=True):
            advance(left)
            try:
                report.deleted += await self._swept(item, updated_at[_key(item)])
            except ContextEngineError as error:
                report.failed.append((item, error.code))
        if report.expired:
            report.deleted += await self._purge()
            self._forget_words()
        return report

    async def _all_sessions(self, config: RetentionConfig) -> list[tuple[SessionInfo, str]]:
        """Every session that is there, with the id of its project where a rule asks for that."""
        sessions = []
        for account in sorted({key[0] for key in await answered(self.store.list_keys())}):
            listed = self.store.list_sessions(account_id=account, user_id=None, ephemeral=True)
            for info in await answered(listed):
                if not config.asks_project(account, info.user_id):
                    sessions.append((info, ""))
                    continue
                state = await _unless_spoilt(
                    self.store.state(_scope(info), after_seq=HEAD_ONLY, after_evidence=HEAD_ONLY)
                )
                if state is not None:
                    sessions.append((info, state.head.project_id))
        return sessions

    async def _expired_evidence(
        self, info: SessionInfo, project: str, rule: RetentionRule, now: datetime
    ) -> list[Expired]:
        there = await _unless_spoilt(self.store.list_evidences(_scope(info, project)))
        came = [
            (evidence.evidence_id, str(evidence.metadata.get("created_at") or info.created_at))
            for evidence in there or ()
            if evidence.type not in SAID and DELETED_AT not in evidence.metadata
        ]
        owner = {name: getattr(info, name) for name in ("account_id", "user_id", "session_id")}
        ids = expired_evidence(came, rule, now)
        return [Expired(kind="evidence", evidence_id=id_, **owner) for id_ in ids]

    async def _swept(self, item: Expired, updated_at: str) -> DeletionReport:
        """Delete one, and tell the audit log of it; a session only as it was at `updated_at`."""
        scope = Scope.of_stored(item.account_id, item.user_id, item.session_id)
        began = time.perf_counter()
        try:
            if item.evidence_id:
                done = await self._emptied(
                    scope, item.evidence_id, any_project=True, everywhere=False
                )
            else:
                done = await self._erase(scope, any_project=True, updated_at=updated_at)
        except VersionConflictError:  # it is being worked with
            return DeletionReport()
        except ContextEngineError as error:
            self._tell_sweep(scope, began, error)
            raise
        if item.evidence_id or done.sessions:
            self._tell_sweep(scope, began, None)
        return done

    def _tell_sweep(self, scope: Scope, began: float, error: ContextEngineError | None) -> None:
        status: AuditStatus = "ok" if error is None else "error"
        self.guard.tell("sweep", "delete", SWEEPER, scope, began=began, status=status, error=error)

    def _sweep_soon(self) -> None:
        """Sweep beside the calls, where it is time."""
        config = self.config.retention
        if not config.rules or config.every is None or monotonic() < self._next_sweep:
            return
        self._next_sweep = monotonic() + config.every.total_seconds()
        self._background.ask(SWEEPER, self._sweep_beside)

    async def _sweep_beside(self) -> None:
        try:
            report = await self._sweep(self.config.retention, lambda _: None, dry_run=False)
        except ContextEngineError as error:
            logger.warning("what has outlived its rule could not be deleted now [%s]", error.code)
            return
        if report.failed:
            logger.warning(
                "%d of %d that have outlived their rules could not be deleted now [%s]",
                len(report.failed),
                len(report.expired),
                report.failed[0][1],
            )


async def _unless_spoilt(work: Awaitable[T]) -> T | None:
    """What the store has, or nothing of a session that is spoilt: the others' time runs out all the same."""
    try:
        return await answered(work)
    except FileDamagedError as error:
        logger.warning("nothing of a spoilt session is swept: %s", error)
        return None


def _key(item: SessionInfo | Expired) -> Key:
    return item.account_id, item.user_id, item.session_id


def _scope(info: SessionInfo, project: str = "") -> Scope:
    return Scope.of_stored(info.account_id, info.user_id, info.session_id, project)
