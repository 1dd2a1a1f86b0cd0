"""The errors of the engine and its adapters, each with a stable code (A-25).

ContextEngineError
├── SessionNotFoundError         no such session for this account and user
├── TurnNotFoundError            no such turn in the session
├── ReplayUnavailableError       a turn has nothing to be replayed from
├── InspectForbiddenError        inspecting is off, or not for this actor
├── VersionConflictError         the stored version is not the expected one
│   └── BudgetConflictError      another budget was stored meanwhile
├── BudgetExceededError          what may never be left out is over the budget
├── InputTooLargeError           more context was collected than may be
├── BackpressureError            too many assemblies of one session at once
├── ConstraintLimitError         an owner has as many constraints as may be
├── ConstraintNotFoundError      no such constraint of this owner and project
├── SelectorResolveError         a selector is malformed or matches nothing
├── EvidenceNotFoundError        no such evidence in this session
├── SchemaValidationError        data does not fit the schema
├── MigrationError               a document's schema version is not known
├── RedactionError               a redaction rule is invalid, or redaction failed
├── SummarizerError              a summary could not be made
├── JudgeError                   an answer could not be judged
├── EmbedderError                texts could not be given vectors
├── TurnAmbiguousError           no turn, or several turns, are open in the session
├── ScopeViolationError          something of another scope was asked for or handed in
├── ConfigError                  a configuration value is invalid
├── OriginalRefusedError         what redaction took out was asked for, and may not be told
├── SyncCallError                the synchronous face was called from its own loop
├── StoreError                   the store failed
│   ├── StoreUrlError            the store's URL is not understood
│   ├── SettingForgedError       what an owner set was changed by somebody without the secret
│   └── StoreUnavailableError    the store is down, locked, full, read-only, or too slow
│       ├── FileDamagedError     a file of one session or user is damaged; the store's others are not
│       ├── EncryptionKeyError   what is stored is encrypted with a key that is not here
│       └── DeletedBytesError    what was deleted stays in the files of a server
└── AdapterError                 an adapter cannot do what was asked
    ├── UnsupportedTargetError   this object cannot be governed
    ├── UnsupportedVersionError  the framework's installed release is out of range
    └── MissingDependencyError   a package that is needed is not installed
"""

from __future__ import annotations

from typing import ClassVar


class ContextEngineError(Exception):
    """Base of all errors of this project; `code` is stable and meant for machines."""

    code: ClassVar[str] = "CONTEXT_ERROR"


class SessionNotFoundError(ContextEngineError):
    """No such session for this account and user (another user's session reads the same)."""

    code = "CONTEXT_SESSION_NOT_FOUND"


class TurnNotFoundError(ContextEngineError):
    """No such turn in the session."""

    code = "CONTEXT_TURN_NOT_FOUND"


class ReplayUnavailableError(ContextEngineError):
    """A turn has no archive that it could be replayed from (A-21)."""

    code = "CONTEXT_REPLAY_UNAVAILABLE"


class InspectForbiddenError(ContextEngineError):
    """Inspecting is switched off, or not allowed to this actor (D-08)."""

    code = "CONTEXT_INSPECT_FORBIDDEN"


class VersionConflictError(ContextEngineError):
    """A replacing write carried an `expected_version` that is not the stored one."""

    code = "CONTEXT_VERSION_CONFLICT"


class BudgetConflictError(VersionConflictError):
    """Another budget was stored meanwhile; nothing was overwritten (D-04)."""

    code = "CONTEXT_BUDGET_CONFLICT"


class BudgetExceededError(ContextEngineError):
    """What may never be left out is over the budget; raised only where `fail="closed"`."""

    code = "CONTEXT_BUDGET_EXCEEDED"


class InputTooLargeError(ContextEngineError):
    """More context was collected than may be; raised only where `fail="closed"` (D-11)."""

    code = "CONTEXT_INPUT_TOO_LARGE"


class BackpressureError(ContextEngineError):
    """Too many assemblies of one session at once; raised only where `fail="closed"` (D-12)."""

    code = "CONTEXT_BACKPRESSURE"


class ConstraintLimitError(ContextEngineError):
    """An owner has as many constraints in a project as may be (D-06)."""

    code = "CONTEXT_CONSTRAINT_LIMIT"


class ConstraintNotFoundError(ContextEngineError):
    """No such constraint of this owner and project."""

    code = "CONTEXT_CONSTRAINT_NOT_FOUND"


class SelectorResolveError(ContextEngineError):
    """A selector is malformed or matches nothing."""

    code = "CONTEXT_SELECTOR_UNRESOLVED"


class EvidenceNotFoundError(ContextEngineError):
    """No such evidence in this session."""

    code = "CONTEXT_EVIDENCE_NOT_FOUND"


class SchemaValidationError(ContextEngineError):
    """Data does not fit the schema."""

    code = "CONTEXT_SCHEMA_INVALID"


class MigrationError(ContextEngineError):
    """A document's `schema_version` is not known here."""

    code = "CONTEXT_MIGRATION_FAILED"


class RedactionError(ContextEngineError):
    """A redaction rule is invalid, or redaction failed."""

    code = "CONTEXT_REDACTION_FAILED"


class SummarizerError(ContextEngineError):
    """A summary could not be made."""

    code = "CONTEXT_SUMMARIZE_FAILED"


class EmbedderError(ContextEngineError):
    """Texts could not be given vectors: words alone chose."""

    code = "CONTEXT_EMBED_FAILED"


class JudgeError(ContextEngineError):
    """An answer could not be judged by its owner's constraints (D-15)."""

    code = "CONTEXT_JUDGE_FAILED"


class TurnAmbiguousError(ContextEngineError):
    """A call without a turn id met no open turn, or several."""

    code = "CONTEXT_TURN_AMBIGUOUS"


class ScopeViolationError(ContextEngineError):
    """Something of another account, user or project was asked for or handed in (D-10)."""

    code = "CONTEXT_SCOPE_VIOLATION"


class ConfigError(ContextEngineError):
    """A configuration value is invalid."""

    code = "CONTEXT_CONFIG_INVALID"


class OriginalRefusedError(ContextEngineError):
    """What redaction took out was asked for where nobody records it, or by nobody (A-19)."""

    code = "CONTEXT_ORIGINAL_REFUSED"


class SyncCallError(ContextEngineError):
    """The synchronous face was called from the thread that runs its own loop."""

    code = "CONTEXT_SYNC_REENTERED"


class StoreError(ContextEngineError):
    """The store failed."""

    code = "CONTEXT_STORE_ERROR"


class StoreUrlError(StoreError):
    """The store's URL is not understood, or there can never be a store where it says."""

    code = "CONTEXT_STORE_URL_INVALID"


class SettingForgedError(StoreError):
    """What an owner set is not what was set: somebody without the secret changed it."""

    code = "CONTEXT_SETTING_FORGED"


class StoreUnavailableError(StoreError):
    """The store is down, locked, full, read-only, or slower than its deadline."""

    code = "CONTEXT_STORE_UNAVAILABLE"


class FileDamagedError(StoreUnavailableError):
    """A file of one session or user is damaged: for them the store is away, for all others it is not."""


class EncryptionKeyError(StoreUnavailableError):
    """What is stored is encrypted with a key that is not configured here; nothing was changed (19 B.9)."""

    code = "CONTEXT_ENCRYPTION_KEY"


class DeletedBytesError(StoreUnavailableError):
    """What was deleted is found no more, and a server keeps bytes of it in its files; the message names the cure."""

    code = "CONTEXT_DELETED_BYTES"


class AdapterError(ContextEngineError):
    """An adapter cannot do what was asked."""

    code = "CONTEXT_ADAPTER_ERROR"


class UnsupportedTargetError(AdapterError):
    """This object cannot be governed by the adapter."""

    code = "CONTEXT_TARGET_UNSUPPORTED"


class UnsupportedVersionError(AdapterError):
    """The framework's installed release is outside the supported range."""

    code = "CONTEXT_VERSION_UNSUPPORTED"


class MissingDependencyError(AdapterError):
    """A package that is needed is not installed."""

    code = "CONTEXT_DEPENDENCY_MISSING"
