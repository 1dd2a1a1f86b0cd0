"""The convenience methods of every store, written once over `apply` and the reads."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import ValidationError

from ce_engine.errors import (
    EncryptionKeyError,
    SchemaValidationError,
    ScopeViolationError,
    StoreError,
)
from ce_engine.ports.encryption import ContentCipher
from ce_engine.ports.ids import Clock, IdGenerator
from ce_engine.schema.arguments import scoped
from ce_engine.schema.document import (
    ContextBlock,
    Evidence,
    Message,
    ModelUsage,
    Session,
    SessionDocument,
    Task,
    ToolCall,
    shape_problems,
)
from ce_engine.schema.events import NO_MACS, ContentCheck
from ce_engine.schema.ids import SystemClock, UuidV4Generator
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import (
    AppendMessages,
    AppendModelUsage,
    AppendToolCalls,
    EventChain,
    EvidenceRow,
    PutBlocks,
    PutEvidence,
    ReplaceDocument,
    ToolCallRow,
    UpsertTasks,
    Write,
)
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Setting, SettingsCheck, Standing
from ce_engine.stores import sealing
from ce_engine.stores.encryption import VARIABLE
from ce_engine.stores.row_rules import plain_row
from ce_engine.stores.setting_macs import NO_SETTING_MACS


if TYPE_CHECKING:
    from ce_engine.stores.documents.session import CheckedSession, StoredSession


class TransactionWrites:
    """The writes of one transaction; `result` once they have landed."""

    __slots__ = ("result", "writes")

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.result: PutResult | None = None

    def add(self, *writes: Write) -> None:
        self.writes += writes


class BaseStore(ABC):
    """What a store needs beside its own reads and `apply`; see `ports.Store` for the contract.

    Its methods take the id of a session, a text, in the place of a scope.
    """

    url_has_no_password: ClassVar[bool] = True
    """So that logs may name the store."""

    keeps_bytes: ClassVar[bool] = True
    """Outside this process: then content may be sealed."""

    encryption: ContentCipher | None = None
    """What seals content at rest; to be set before the store is used (19 B.9)."""
    _is_admitted = False
    _admits_itself: ClassVar[bool] = False
    """It sees to the key where it writes, before it writes first: so that what was handed over needs no second wait."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, method in list(vars(cls).items()):
            if not name.startswith("_") and inspect.iscoroutinefunction(method):
                setattr(cls, name, _sealing(method))
        scoped(cls)

    def __init__(self, *, clock: Clock | None = None, ids: IdGenerator | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        self._ids: IdGenerator = ids or UuidV4Generator()

    async def _admit(self) -> None:
        """See, before the first write, that this process has the key of a store that is sealed.

        Raises:
            EncryptionKeyError: it has not: what it wrote could not be read with the rest.
        """
        is_sealing = self.encryption is not None
        if must_be_marked(await self.get_setting(SEALED_BY, MARK), is_sealing=is_sealing):
            self._is_admitted = True
            await self.put_setting(SEALED_BY, MARK, value=True)

    async def rewrite(self) -> None:
        """Write all that is kept anew, without what was deleted, where `purge` alone does not; nobody uses it meanwhile.

        Raises:
            DeletedBytesError: some of it stays; the message names the cure.
        """
        await self.purge()

    async def reseal(self, scope: Scope) -> bool:
        """Seal a session, a deleted one too, under the key that seals now; false if all of it is already.

        Raises:
            EncryptionKeyError: it is sealed with a key that is not here.
        """
        return self._nothing_is_sealed(scope)

    async def reseal_settings(self) -> int:
        """Seal what owners set anew; how many settings were not yet.

        Raises:
            FileDamagedError: some cannot be opened; it names them, and all others are sealed.
        """
        return int(self._nothing_is_sealed(None))

    def _nothing_is_sealed(self, scope: Scope | None) -> bool:
        del scope
        if self.keeps_bytes:
            raise StoreError(
                f"the store {self.url!r} cannot seal anew what it has: copy it to another one, "
                "which is sealed with the new key, with `ce copy`"
            )
        return False

    async def whole(self, scope: Scope) -> StoredSession | None:
        """All that is kept of a session, of a deleted one too, read in one state; not to be changed."""
        raise self._no_copies(scope)

    async def checked(self, scope: Scope) -> CheckedSession | None:
        """The same with what the MACs say of it, all of one reading: nobody changes it between the two."""
        raise self._no_copies(scope)

    async def put_whole(
        self, scope: Scope, session: StoredSession, expected_version: int = 0
    ) -> None:
        """Put a session of another store with the same secret into its place, at once.

        Raises:
            VersionConflictError: what is, or was, there has not the expected version; 0 is nothing.
        """
        raise self._no_copies(scope, session, expected_version)

    async def list_settings(self) -> dict[tuple[str, ...], Setting]:
        """By account, user, project and name what all owners set."""
        raise self._no_copies()

    async def check_settings(
        self, account_id: str | None = None, user_id: str | None = None
    ) -> dict[tuple[str, str, str], SettingsCheck]:
        """By account, user and project what the MACs say of what owners set: of an account, of a user, or of all."""
        checks: dict[tuple[str, str, str], SettingsCheck] = {}
        for (account, user, project, _), setting in (await self.list_settings()).items():
            if account_id not in (None, account) or user_id not in (None, user):
                continue
            check = checks.get((account, user, project), NO_SETTING_MACS)
            checks[account, user, project] = replace(
                check, settings=check.settings + 1, versions=check.versions + setting.version
            )
        return checks

    async def damaged(self, account_id: str | None = None, user_id: str | None = None) -> list[str]:
        """What cannot be read at all, of an account, of a user of it or of all, and is in no list: a sentence each."""
        del account_id, user_id
        return []

    def _no_copies(self, *arguments: object) -> StoreError:
        del arguments
        return StoreError(f"sessions of the store {self.url!r} cannot be copied: it has no way to")

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    async def get_setting(self, scope: Scope, name: str) -> Setting | None: ...

    @abstractmethod
    async def put_setting(
        self,
        scope: Scope,
        name: str,
        value: Any,
        expected_version: int | None = None,
        *,
        standing: Standing = Standing.INTACT,
    ) -> int: ...

    @abstractmethod
    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult: ...

    def check_place(self) -> None:  # noqa: B027 - a store may need no place
        """See that the store can be where its URL says, without touching it or its secret.

        Raises:
            StoreUrlError: it can never be.
        """

    async def check_content(self, scope: Scope) -> ContentCheck | None:
        return NO_MACS if await self.chain(scope) is not None else None

    async def index_faults(self) -> list[str]:
        """Say where what the store finds rows by does not have what its rows say; the whole of it is read."""
        return []

    @abstractmethod
    async def purge(self) -> None: ...

    @abstractmethod
    async def chain(self, scope: Scope) -> EventChain | None: ...

    @asynccontextmanager
    async def transaction(self, scope: Scope) -> AsyncIterator[TransactionWrites]:
        group = TransactionWrites()
        yield group
        group.result = await self.apply(scope, group.writes)

    async def put_session(
        self, scope: Scope, document: SessionDocument, expected_version: int | None = None
    ) -> PutResult:
        """Replace the whole document; messages without an id get one, and the message before as parent.

        Raises:
            ScopeViolationError: the document is of another session.
            SchemaValidationError: ids in it repeat, or evidence stands under another's key.
        """
        _check_scope(scope, document.session.session_id)
        problems = shape_problems(document, remote_refs=True) + _repeated(document.session)
        if problems:
            raise SchemaValidationError(f"the document cannot be stored: {'; '.join(problems)}")
        write = ReplaceDocument(self._identified(document))
        return await self.apply(scope, [write], expected_version=expected_version)

    async def patch_session(
        self, scope: Scope, patch: Mapping[str, Any], expected_version: int | None = None
    ) -> PutResult:
        """Replace the named fields of `session`, whole.

        Raises:
            SessionNotFoundError: there is no session to patch.
            ScopeViolationError: the patch is of another session.
            SchemaValidationError: it names unknown fields, or their values do not fit.
        """
        _check_scope(scope, patch.get("session_id", scope.session_id))
        try:
            session = Session.model_validate({**patch, "session_id": scope.session_id})
        except ValidationError as error:
            places = ", ".join(".".join(map(str, item["loc"])) for item in error.errors()[:5])
            field_names = ", ".join(sorted(set(Session.model_fields) - {"session_id"}))
            raise SchemaValidationError(
                f"the patch does not fit at {places}; fields of a session are {field_names}"
            ) from error
        if problems := _repeated(session):
            raise SchemaValidationError(f"the patch cannot be stored: {'; '.join(problems)}")
        document = self._identified(SessionDocument(session=session))
        write = ReplaceDocument(document, frozenset(patch) - {"session_id"})
        return await self.apply(scope, [write], expected_version=expected_version)

    async def append_messages(self, scope: Scope, messages: Sequence[Message]) -> PutResult:
        rows = [plain_row(message) for message in self._with_ids(messages)]
        return await self.apply(scope, [AppendMessages(rows)])

    async def put_evidence(self, scope: Scope, evidence: Evidence) -> str:
        row = EvidenceRow(evidence, project_id=scope.project_id)
        await self.apply(scope, [PutEvidence(row)])
        return evidence.evidence_id

    async def put_context_blocks(self, scope: Scope, blocks: Sequence[ContextBlock]) -> PutResult:
        return await self.apply(scope, [PutBlocks(blocks)])

    async def append_tool_calls(
        self, scope: Scope, tool_calls: Sequence[ToolCall], expected_version: int | None = None
    ) -> PutResult:
        write = AppendToolCalls([ToolCallRow(call) for call in tool_calls])
        return await self.apply(scope, [write], expected_version=expected_version)

    async def append_model_usage(
        self, scope: Scope, usages: Sequence[ModelUsage], expected_version: int | None = None
    ) -> PutResult:
        write = AppendModelUsage(usages)
        return await self.apply(scope, [write], expected_version=expected_version)

    async def upsert_tasks(
        self, scope: Scope, tasks: Sequence[Task], expected_version: int | None = None
    ) -> PutResult:
        return await self.apply(scope, [UpsertTasks(tasks)], expected_version=expected_version)

    def _identified(self, document: SessionDocument) -> SessionDocument:
        messages = self._with_ids(document.session.messages)
        session = document.session.model_copy(update={"messages": messages})
        return document.model_copy(update={"session": session})

    def _with_ids(self, messages: Iterable[Message]) -> list[Message]:
        """Messages that have ids, and without one of their own the message before as parent."""
        messages_with_ids: list[Message] = []
        before: str | None = None
        for message in messages:
            if message.message_id is None:
                update = {
                    "message_id": self._ids.generate(),
                    "parent_id": message.parent_id or before,
                }
                messages_with_ids.append(message.model_copy(update=update))
            else:
                messages_with_ids.append(message)
            before = messages_with_ids[-1].message_id
        return messages_with_ids


SEALED_BY = Scope.of_stored("ce:store", "encryption", "")
"""An owner of nobody's, whose one setting is sealed: who can read it has the store's key."""
MARK = "sealed"


def must_be_marked(mark: Setting | None, *, is_sealing: bool) -> bool:
    """Whether a store gets the mark now, that its content is sealed.

    Raises:
        EncryptionKeyError: the mark is there, and readable without a key: somebody put it in the open.
    """
    if mark is None:
        return is_sealing
    if not is_sealing:
        raise EncryptionKeyError(
            "the store is sealed, and the mark that says so stands in the open: somebody who has no key changed "
            f"it. Set {VARIABLE} to the store's key, see what `ce verify` says, and delete nothing. Nothing was changed."
        )
    return False


_WRITING = frozenset({"apply", "put_setting", "reseal", "put_whole"})


def _sealing(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The method, in which it is known whose content is sealed and opened."""
    of_session = list(inspect.signature(method).parameters)[1:2] == ["scope"]
    is_writing = method.__name__ in _WRITING

    @wraps(method)
    async def bound(self: BaseStore, *args: Any, **more: Any) -> Any:
        if not self.keeps_bytes:
            return await method(self, *args, **more)
        scope = (more.get("scope") or args[0]) if of_session else None
        key = scope.key if isinstance(scope, Scope) else ("", "", "")
        with sealing.using(self.encryption, key):
            if not is_writing or self._is_admitted:
                return await method(self, *args, **more)
            if not self._admits_itself:
                await self._admit()
            result = await method(self, *args, **more)
            self._is_admitted = True
            return result

    return bound


def _check_scope(scope: Scope, session_id: object) -> None:
    if session_id != scope.session_id:
        raise ScopeViolationError(
            f"what was handed in is of session {session_id!r}, the scope of {scope.session_id!r}"
        )


def _repeated(session: Session) -> list[str]:
    ids = {
        "message_id": [message.message_id for message in session.messages if message.message_id],
        "tool_call_id": [call.tool_call_id for call in session.tool_state.tool_calls],
        "model_usage_id": [usage.model_usage_id for usage in session.model_usage],
        "task_id": [task.task_id for task in session.task_state.todo_list.tasks],
    }
    return [
        f"{name} {value!r} is not unique"
        for name, values in ids.items()
        for value, count in Counter(values).items()
        if count > 1
    ]
