"""Deletes what is stored of a session, a user, a piece of evidence (A-30, B-08)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ce_engine.audit.derived_answers import derived_answers
from ce_engine.audit.quotation_search import quoting_events, quoting_ids, unquoted_chunks
from ce_engine.audit.reading import see_whole
from ce_engine.audit.verifying import Verifying
from ce_engine.errors import (
    DeletedBytesError,
    FileDamagedError,
    SessionNotFoundError,
    StoreUnavailableError,
    VersionConflictError,
)
from ce_engine.ports.store import Store
from ce_engine.runtime.waiting import STORE_S, answered
from ce_engine.schema.document import Evidence
from ce_engine.schema.report import DeletionReport, PutResult
from ce_engine.schema.rows import HEAD_ONLY, DeleteEvidence, DeleteSession, SessionHead
from ce_engine.schema.scope import Scope, as_scope, check_project
from ce_engine.schema.text_cache import forget_texts


logger = logging.getLogger("ce_engine.deletion")

_TRIES = 4
"""Times that the log is looked through for evidence; the last time, whoever writes to the session meanwhile."""

PURGE_S = 600.0
"""How long it waits for the store to be rid of the bytes: a large file is written anew."""


class DeletionMethods(Verifying):
    """Deletes, in one session at a time and under its lock.

    What is deleted is gone from the store, from what this process remembers, and from every byte of
    the store's files; where PostgreSQL keeps some, `bytes_left` of the report says why. Other processes
    forget it with their next call, and what they still record for it is refused. Ids, times and counts stay, as envelopes of events, and each deletion is an event.
    Whoever goes on with the id of a deleted session begins a new life of it, under a new key. What a
    host itself still has, and sends again, is new there: delete it in the host first.

    Deletions wait longer than the engine's other calls (seconds, not milliseconds), and are
    repeatable: one that raised is completed by the next.
    """

    async def delete_session(self, session_id: Scope | str) -> DeletionReport:
        """Delete all content of a session; a turn that is open in it records nothing any more (A-30).

        Raises:
            ScopeViolationError: the session belongs to another project.
            StoreUnavailableError: the store cannot do it now; try again.
        """
        return await self._then_forgotten(self._delete_session(as_scope(session_id)))

    async def delete_evidence(self, session_id: Scope | str, evidence_id: str) -> DeletionReport:
        """Delete the content of a piece of evidence, and its text wherever it stands in the session (A-30).

        The message that has it loses it; from other messages, evidence, blocks, arguments of tools, tasks,
        reports and events of the host's own its text is taken out, all of it and each passage of 24
        characters (12 of Chinese, Japanese or Korean), white space, case and the escapes of JSON and HTML
        aside; summaries go. `cleared`
        of the result names where it stood. What says it in other words, or in shorter pieces, stays:
        `derived` names the answers that may. Other sessions are not looked into.

        Its id, source and links stay, so that what rests on it can still be traced; its metadata says
        when it was deleted. The same content, sent or retrieved again in this session, stays deleted;
        a text that quotes it anew is new.

        Raises:
            ScopeViolationError: the session belongs to another project.
            StoreUnavailableError: the store cannot do it now; try again.
        """
        return await self._then_forgotten(self._delete_evidence(as_scope(session_id), evidence_id))

    async def delete_user_data(self, account_id: str, user_id: str) -> DeletionReport:
        """Delete all sessions and settings of exactly this user, of every project, ephemeral ones too (B-08).

        No user is the user `""`, and only that one. Other users' sessions are not touched.

        Raises:
            FileDamagedError: all but what it names is deleted: that is damaged, and cannot be known for a session,
                or cannot be deleted.
            StoreUnavailableError: the store cannot do it now; try again.
        """
        return await self._then_forgotten(self._delete_user_data(account_id, user_id))

    async def _then_forgotten(
        self, deletion: Coroutine[Any, Any, DeletionReport]
    ) -> DeletionReport:
        """Wait for a deletion, and empty what adapters remember of messages: it does not say whose."""
        try:
            return await self.loop.share(deletion)
        finally:
            self._forget_words()

    def _forget_words(self) -> None:
        for cache in list(self.caches):
            cache.clear()
        forget_texts()

    async def _delete_session(self, scope: Scope) -> DeletionReport:
        deleted = await self._erase(scope)
        return deleted + await self._purge()

    async def _delete_user_data(self, account_id: str, user_id: str) -> DeletionReport:
        await self._land_all(STORE_S)  # what does not land in time is noticed session by session
        listed = await answered(
            self.store.list_sessions(account_id=account_id, user_id=user_id, ephemeral=True)
        )
        # A store may take `None` for all users: nobody's data goes but this user's.
        keys = {(info.account_id, info.user_id, info.session_id) for info in listed}
        keys |= await self._originals.keys_of(account_id, user_id)
        keys = {key for key in keys if key[:2] == (account_id, user_id)}
        deleted, damaged = DeletionReport(), list[FileDamagedError]()
        try:
            for *_, session_id in sorted(keys | self._sessions.keys_of(account_id, user_id)):
                scope = Scope.of_stored(account_id, user_id, session_id)
                try:
                    deleted += await self._erase(scope, any_project=True)
                except FileDamagedError as error:  # keeps none of the others
                    damaged.append(error)
            deleted += DeletionReport(settings=await self._settings.delete(account_id, user_id))
        finally:
            left = await self._purge()  # also of what went before something could not be deleted
        if damaged:
            raise damaged[0]
        await see_whole(self.store, account_id, user_id)
        return deleted + left

    async def _erase(
        self, scope: Scope, *, any_project: bool = False, updated_at: str = ""
    ) -> DeletionReport:
        """Delete a session's rows and what is remembered of it; the bytes are still to be purged.

        With `updated_at` only if nobody has written to it since then.

        Raises:
            VersionConflictError: somebody wrote to it just now.
        """
        await self._land(scope)
        payload, result, version = {"what": "session"}, None, None
        async with self._locks.hold(scope.key):
            with suppress(FileDamagedError):  # which nobody works with
                head = await self._head(scope, any_project=any_project) if updated_at else None
                if updated_at and (head is None or head.updated_at != updated_at):
                    return DeletionReport()
                version = head.version if head is not None else None
            if await self._is_there(scope, any_project=any_project):
                event = self._originals.deletion(scope, payload, self.store)
                result = await self._delete(scope, DeleteSession(event), version)
            self._sessions.forget(scope)
            # After the rows, and whether or not there were any: an earlier deletion may have got so far.
            await self._originals.delete(
                scope,
                lambda store: [DeleteSession(self._originals.deletion(scope, payload, store))],
            )
        is_gone = result is not None and result.success
        removed = {"sessions": 1, **result.removed} if result and is_gone else {}
        return DeletionReport.model_validate(removed)

    async def _delete_evidence(self, scope: Scope, evidence_id: str) -> DeletionReport:
        deleted = await self._emptied(scope, evidence_id)
        return deleted + await self._purge()

    async def _emptied(
        self, scope: Scope, evidence_id: str, *, any_project: bool = False, everywhere: bool = True
    ) -> DeletionReport:
        """Delete the content of evidence; the bytes are still to be purged.

        Not `everywhere`, what others said with its words stays.
        """
        await self._land(scope)
        async with self._locks.hold(scope.key):
            head = await self._head(scope, any_project=any_project)
            if head is None:
                return DeletionReport()
            scope = Scope.of_stored(*scope.key, head.project_id)
            rows = await answered(self.store.evidence_rows(scope, [evidence_id]))
            if not rows:
                return DeletionReport()
            own = [evidence_id, *(row.message_id for row in rows if row.message_id)]
            texts, before = list[str](), list[str]()
            if everywhere:
                originals = await self._originals.of_session(scope)
                before = [each.content for each in originals if each.evidence_id in own]
                texts = [*(row.evidence.content for row in rows), *before]
                # Before the rows, and its own after them: so whatever fails, the next time finds the words.
                quoting = await self._quoting(scope, originals, texts)
                await self._delete_originals(scope, evidence_id, quoting.difference(own))
            result = await self._delete_unchanged(scope, evidence_id, texts, before, everywhere)
            await self._forget_chunks(scope, texts)
            if self._sessions.peek(scope) is not None:
                self._sessions.drop(scope)
                await self._sessions.view(scope, ephemeral=False)
            await self._delete_originals(scope, evidence_id, [*own, *result.cleared])
            rest = await self._derived(scope, evidence_id, [*own[1:], *result.cleared])
        if not result.removed:
            return DeletionReport()
        fields = {"cleared": result.cleared, "derived": rest}
        return DeletionReport.model_validate({**result.removed, **fields})

    async def _delete_unchanged(
        self,
        scope: Scope,
        evidence_id: str,
        texts: Sequence[str],
        before: Sequence[str],
        everywhere: bool,
    ) -> PutResult:
        """Delete evidence, and what of the log has its texts, in a session that nobody writes to meanwhile, if that can be."""
        for left in range(_TRIES, 0, -1):
            version = (await answered(self.store.version(scope))).version if left > 1 else None
            numbers = await self._quoting_events(scope, texts)
            payload: dict[str, Any] = {"what": "evidence", "evidence_id": evidence_id}
            if numbers:
                payload["events"] = numbers
            event = self._originals.deletion(scope, payload, self.store)
            write = DeleteEvidence(evidence_id, event, numbers, before, everywhere)
            with suppress(VersionConflictError):
                return await self._delete(scope, write, version)
        raise AssertionError

    async def _forget_chunks(self, scope: Scope, texts: Sequence[str]) -> None:
        """Leave the texts out of what was streamed so far of answers that are open here."""
        streaming = [turn for turn in self._sessions.turns(scope).values() if turn.chunks]
        for turn in streaming if any(texts) else ():
            find = partial(unquoted_chunks, dict(turn.chunks), texts)
            turn.chunks.update(await self.workers.run(find))

    async def _delete_originals(self, scope: Scope, evidence_id: str, ids: Iterable[str]) -> None:
        """Delete the originals of these, each alone: what else has its words may have more to say."""
        payload = {"what": "evidence", "evidence_id": evidence_id}

        def writes(store: Store) -> list[DeleteEvidence]:
            events = {each: self._originals.deletion(scope, payload, store) for each in ids}
            return [DeleteEvidence(each, event, everywhere=False) for each, event in events.items()]

        await self._originals.delete(scope, writes)

    async def _quoting(
        self, scope: Scope, originals: Sequence[Evidence], texts: Sequence[str]
    ) -> set[str]:
        """The ids of what has one of the texts, in the first store or in its original."""
        if not originals:
            return set()
        state = await answered(self.store.state(scope))
        document = await answered(self.store.get_session(scope))
        if state is None or document is None:
            return set()
        return await self.workers.run(lambda: quoting_ids(texts, state, document, originals))

    async def _quoting_events(self, scope: Scope, texts: Sequence[str]) -> list[int]:
        chain = await answered(self.store.chain(scope)) if any(texts) else None
        if chain is None:
            return []
        return await self.workers.run(lambda: quoting_events(chain.events, texts))

    async def _derived(self, scope: Scope, evidence_id: str, holders: Sequence[str]) -> list[str]:
        state = await answered(self.store.state(scope))
        if state is None:
            return []
        turns = await answered(self.store.list_turns(scope))
        return await self.workers.run(
            lambda: derived_answers(state.rows, turns, evidence_id, holders)
        )

    async def _delete(
        self,
        scope: Scope,
        write: DeleteSession | DeleteEvidence,
        expected_version: int | None = None,
    ) -> PutResult:
        try:
            result = await answered(
                self.store.apply(scope, [write], expected_version=expected_version)
            )
        except SessionNotFoundError:  # another process was faster
            return PutResult(success=False, version=0)
        is_wanted = self.config.observability.emit_events and self._announcer.is_heard
        if result.removed and is_wanted:
            self._announcer.tell(scope, [write.event])
        return result

    async def _purge(self) -> DeletionReport:
        """Be rid of the bytes; what is still to be done by a server's operator is in the report, and logged."""
        try:
            left = await _left_by(answered(self.store.purge(), PURGE_S))
            of_originals = await _left_by(self._originals.purge(PURGE_S))
        except StoreUnavailableError as error:
            raise StoreUnavailableError(
                f"it is deleted, but bytes of it are still in the store's files: {error} Then delete "
                "it once more."
            ) from error
        return DeletionReport(bytes_left=" ".join(filter(None, (left, of_originals))))

    async def _is_there(self, scope: Scope, *, any_project: bool) -> bool:
        """Whether there is such a session; where some of it is damaged, as little as can be is read: that is to go as well."""
        try:
            return await self._head(scope, any_project=any_project) is not None
        except FileDamagedError:
            if not (await answered(self.store.version(scope))).version:
                raise
        if not any_project:
            await answered(self.store.evidence_rows(scope, []))  # refused to another project
        return True

    async def _head(self, scope: Scope, *, any_project: bool = False) -> SessionHead | None:
        """The head of a session that is there, when everything of it that was accepted has landed."""
        if not await self._journal.settle(scope):
            raise StoreUnavailableError(
                "records of this session are still on their way to the store; delete it again"
            )
        state = await answered(
            self.store.state(scope, after_seq=HEAD_ONLY, after_evidence=HEAD_ONLY)
        )
        if state is None:
            return None
        if not any_project:
            check_project(scope, state.head.project_id)
        return state.head


async def _left_by(purge: Awaitable[None]) -> str:
    """Why a server keeps bytes after a purge; empty where it keeps none."""
    try:
        await purge
    except DeletedBytesError as error:
        logger.warning("%s [%s]", error, error.code)
        return str(error)
    return ""
