"""The engine that prepares, within a budget, and records what goes to a model; it knows no framework."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from ce_engine.apps.notebook import SessionPicture, show
    from ce_engine.audit.access import acting_as, only_own_scope
    from ce_engine.audit.json_lines import JsonLinesAudit
    from ce_engine.audit.judges import LlmJudge, RuleJudge
    from ce_engine.audit.otel_logs import OpenTelemetryAudit
    from ce_engine.audit.otel_spans import OpenTelemetry
    from ce_engine.audit.store_metrics import MetricsApp, StoreMetrics
    from ce_engine.config import (
        BudgetConfig,
        CollectConfig,
        CompactionConfig,
        HandoverConfig,
        JudgeConfig,
        ObservabilityConfig,
        PruneConfig,
        RedactionConfig,
        RedactionRules,
        RenderConfig,
        RuntimeConfig,
        StoreConfig,
        SummaryConfig,
        load_config,
    )
    from ce_engine.create import ContextEngine, create_context_engine
    from ce_engine.errors import (
        AdapterError,
        BackpressureError,
        BudgetConflictError,
        BudgetExceededError,
        ConfigError,
        ConstraintLimitError,
        ConstraintNotFoundError,
        ContextEngineError,
        EmbedderError,
        EncryptionKeyError,
        EvidenceNotFoundError,
        FileDamagedError,
        InputTooLargeError,
        InspectForbiddenError,
        JudgeError,
        MigrationError,
        MissingDependencyError,
        OriginalRefusedError,
        RedactionError,
        ReplayUnavailableError,
        SchemaValidationError,
        ScopeViolationError,
        SelectorResolveError,
        SessionNotFoundError,
        StoreError,
        StoreUnavailableError,
        StoreUrlError,
        SummarizerError,
        SyncCallError,
        TurnAmbiguousError,
        TurnNotFoundError,
        UnsupportedTargetError,
        UnsupportedVersionError,
        VersionConflictError,
    )
    from ce_engine.memory.rolling_summarizer import RollingSummarizer
    from ce_engine.ports.audit import AuditSink, Authorize
    from ce_engine.ports.blocks import BlockDeriver, DeriveOptions
    from ce_engine.ports.context import ContextPiece, ContextSource, Judge
    from ce_engine.ports.embedder import Embedder
    from ce_engine.ports.encryption import ContentCipher
    from ce_engine.ports.events import EventBus
    from ce_engine.ports.evidence import (
        EvidenceDraft,
        EvidenceIngestor,
    )
    from ce_engine.ports.ids import Clock, Hasher, IdGenerator
    from ce_engine.ports.llm import LlmAdapter, LlmRequest, LlmResponse
    from ce_engine.ports.pruner import Pruner
    from ce_engine.ports.redaction import PiiDetector, PiiSpan, Redactor, RedactResult
    from ce_engine.ports.rendering import Assembler, EvidenceResolver, Renderer, RenderHints
    from ce_engine.ports.store import Store
    from ce_engine.ports.telemetry import Telemetry
    from ce_engine.ports.tokens import TokenEstimator
    from ce_engine.prepare.blocks.derive_session import SessionDeriver
    from ce_engine.prepare.blocks.render_block import BlockRenderer
    from ce_engine.prepare.choose.prune import (
        DegradeToSummaryPruner,
        GreedyPriorityPruner,
        GroupAwarePruner,
    )
    from ce_engine.prepare.compose.assemble_input import InputAssembler
    from ce_engine.runtime.event_bus import InMemoryEventBus
    from ce_engine.runtime.own_calls import Summarizer, is_own_call
    from ce_engine.schema.audit import Action, AuditRecord
    from ce_engine.schema.call import (
        Answer,
        Attachment,
        CallerRole,
        Extend,
        HostMessage,
        Insert,
        Keep,
        ModelCall,
        Prepared,
        Restore,
        Shorten,
        Step,
        TurnHandle,
        Usage,
    )
    from ce_engine.schema.document import (
        Actor,
        AgentInfo,
        AttachmentRecord,
        Author,
        ContextBlock,
        Evidence,
        EvidenceLinks,
        EvidenceSource,
        Message,
        MessageIndexRange,
        Meta,
        ModelUsage,
        Ref,
        Session,
        SessionDocument,
        Summary,
        Task,
        TaskState,
        TodoList,
        ToolCall,
        ToolProvider,
        ToolRequest,
        ToolState,
    )
    from ce_engine.schema.enums import (
        AuthorKind,
        BlockType,
        EvidenceType,
        Layer,
        ModelUsageStage,
        ModelUsageStatus,
        Origin,
        Priority,
        ProviderKind,
        Role,
        SourceKind,
        TaskStatus,
        ToolCallStatus,
        ToolType,
        TurnStatus,
    )
    from ce_engine.schema.events import CompactLog, Deletion, Event, EventType, Verification
    from ce_engine.schema.export import json_schema
    from ce_engine.schema.handover import Checkpoint, Handover, HandoverStep
    from ce_engine.schema.ids import (
        Sha256Hasher,
        SystemClock,
        UuidV4Generator,
    )
    from ce_engine.schema.invariants import check_invariants
    from ce_engine.schema.json_text import canonical_json
    from ce_engine.schema.migration import MigrateResult, Migrator, parse_document
    from ce_engine.schema.operations import Operation
    from ce_engine.schema.pruning import (
        PruneBudget,
        PruneResult,
        PruneRules,
    )
    from ce_engine.schema.replay import (
        BroughtIn,
        BroughtInBefore,
        Explanation,
        InspectedLayer,
        Inspection,
        PassedOver,
        Replay,
        ReplayProblem,
        Sent,
        SentPart,
    )
    from ce_engine.schema.report import (
        AssembledInput,
        BlockFilter,
        ConflictRecord,
        DeletionReport,
        EvidenceFilter,
        ImportReport,
        MessagePart,
        OriginalsReport,
        PrepareResult,
        PruneDecision,
        PutResult,
        RedactionRecord,
        RenderedBlock,
        Report,
        Untouched,
    )
    from ce_engine.schema.retention import (
        Expired,
        RetentionConfig,
        RetentionRule,
        SweepReport,
    )
    from ce_engine.schema.rows import SessionInfo, TurnRow
    from ce_engine.schema.scope import Scope
    from ce_engine.schema.selectors import RefSelector
    from ce_engine.schema.settings import Constraint
    from ce_engine.schema.tool_runs import (
        IngestOptions,
        Original,
        Retrieval,
        RetrievedDoc,
        TaskRun,
        ToolRun,
    )
    from ce_engine.schema.trace import EvidenceTrace, Trace
    from ce_engine.schema.user_export import SessionExport, SettingExport, UserExport
    from ce_engine.stores import open_store
    from ce_engine.stores.documents.memory import MemoryStore
    from ce_engine.sync import SyncEngine
    from ce_engine.text.redaction.presidio import PresidioDetector
    from ce_engine.text.relevance.minilm import MiniLmEmbedder
    from ce_engine.text.tokens import (
        CharBasedEstimator,
        TiktokenEstimator,
        context_window,
        image_tokens,
    )
    from ce_engine.turns.evidence_tool import EvidenceTool
    from ce_engine.turns.record.confidence import (
        RuleIngestor,
    )


__all__ = [
    "Action",
    "Actor",
    "AdapterError",
    "AgentInfo",
    "Answer",
    "AssembledInput",
    "Assembler",
    "Attachment",
    "AttachmentRecord",
    "AuditRecord",
    "AuditSink",
    "Author",
    "AuthorKind",
    "Authorize",
    "BackpressureError",
    "BlockDeriver",
    "BlockFilter",
    "BlockRenderer",
    "BlockType",
    "BroughtIn",
    "BroughtInBefore",
    "BudgetConfig",
    "BudgetConflictError",
    "BudgetExceededError",
    "CallerRole",
    "CharBasedEstimator",
    "Checkpoint",
    "Clock",
    "CollectConfig",
    "CompactLog",
    "CompactionConfig",
    "ConfigError",
    "ConflictRecord",
    "Constraint",
    "ConstraintLimitError",
    "ConstraintNotFoundError",
    "ContentCipher",
    "ContextBlock",
    "ContextEngine",
    "ContextEngineError",
    "ContextPiece",
    "ContextSource",
    "DegradeToSummaryPruner",
    "Deletion",
    "DeletionReport",
    "DeriveOptions",
    "Embedder",
    "EmbedderError",
    "EncryptionKeyError",
    "Event",
    "EventBus",
    "EventType",
    "Evidence",
    "EvidenceDraft",
    "EvidenceFilter",
    "EvidenceIngestor",
    "EvidenceLinks",
    "EvidenceNotFoundError",
    "EvidenceResolver",
    "EvidenceSource",
    "EvidenceTool",
    "EvidenceTrace",
    "EvidenceType",
    "Expired",
    "Explanation",
    "Extend",
    "FileDamagedError",
    "GreedyPriorityPruner",
    "GroupAwarePruner",
    "Handover",
    "HandoverConfig",
    "HandoverStep",
    "Hasher",
    "HostMessage",
    "IdGenerator",
    "ImportReport",
    "InMemoryEventBus",
    "IngestOptions",
    "InputAssembler",
    "InputTooLargeError",
    "Insert",
    "InspectForbiddenError",
    "InspectedLayer",
    "Inspection",
    "JsonLinesAudit",
    "Judge",
    "JudgeConfig",
    "JudgeError",
    "Keep",
    "Layer",
    "LlmAdapter",
    "LlmJudge",
    "LlmRequest",
    "LlmResponse",
    "MemoryStore",
    "Message",
    "MessageIndexRange",
    "MessagePart",
    "Meta",
    "MetricsApp",
    "MigrateResult",
    "MigrationError",
    "Migrator",
    "MiniLmEmbedder",
    "MissingDependencyError",
    "ModelCall",
    "ModelUsage",
    "ModelUsageStage",
    "ModelUsageStatus",
    "ObservabilityConfig",
    "OpenTelemetry",
    "OpenTelemetryAudit",
    "Operation",
    "Origin",
    "Original",
    "OriginalRefusedError",
    "OriginalsReport",
    "PassedOver",
    "PiiDetector",
    "PiiSpan",
    "PrepareResult",
    "Prepared",
    "PresidioDetector",
    "Priority",
    "ProviderKind",
    "PruneBudget",
    "PruneConfig",
    "PruneDecision",
    "PruneResult",
    "PruneRules",
    "Pruner",
    "PutResult",
    "RedactResult",
    "RedactionConfig",
    "RedactionError",
    "RedactionRecord",
    "RedactionRules",
    "Redactor",
    "Ref",
    "RefSelector",
    "RenderConfig",
    "RenderHints",
    "RenderedBlock",
    "Renderer",
    "Replay",
    "ReplayProblem",
    "ReplayUnavailableError",
    "Report",
    "Restore",
    "RetentionConfig",
    "RetentionRule",
    "Retrieval",
    "RetrievedDoc",
    "Role",
    "RollingSummarizer",
    "RuleIngestor",
    "RuleJudge",
    "RuntimeConfig",
    "SchemaValidationError",
    "Scope",
    "ScopeViolationError",
    "SelectorResolveError",
    "Sent",
    "SentPart",
    "Session",
    "SessionDeriver",
    "SessionDocument",
    "SessionExport",
    "SessionInfo",
    "SessionNotFoundError",
    "SessionPicture",
    "SettingExport",
    "Sha256Hasher",
    "Shorten",
    "SourceKind",
    "Step",
    "Store",
    "StoreConfig",
    "StoreError",
    "StoreMetrics",
    "StoreUnavailableError",
    "StoreUrlError",
    "Summarizer",
    "SummarizerError",
    "Summary",
    "SummaryConfig",
    "SweepReport",
    "SyncCallError",
    "SyncEngine",
    "SystemClock",
    "Task",
    "TaskRun",
    "TaskState",
    "TaskStatus",
    "Telemetry",
    "TiktokenEstimator",
    "TodoList",
    "TokenEstimator",
    "ToolCall",
    "ToolCallStatus",
    "ToolProvider",
    "ToolRequest",
    "ToolRun",
    "ToolState",
    "ToolType",
    "Trace",
    "TurnAmbiguousError",
    "TurnHandle",
    "TurnNotFoundError",
    "TurnRow",
    "TurnStatus",
    "UnsupportedTargetError",
    "UnsupportedVersionError",
    "Untouched",
    "Usage",
    "UserExport",
    "UuidV4Generator",
    "Verification",
    "VersionConflictError",
    "acting_as",
    "canonical_json",
    "check_invariants",
    "context_window",
    "create_context_engine",
    "image_tokens",
    "is_own_call",
    "json_schema",
    "load_config",
    "only_own_scope",
    "open_store",
    "parse_document",
    "show",
]

_HOMES = {
    "apps.notebook": "SessionPicture show",
    "audit.access": "acting_as only_own_scope",
    "audit.json_lines": "JsonLinesAudit",
    "audit.judges": "LlmJudge RuleJudge",
    "audit.otel_logs": "OpenTelemetryAudit",
    "audit.otel_spans": "OpenTelemetry",
    "audit.store_metrics": "MetricsApp StoreMetrics",
    "config": "BudgetConfig CollectConfig CompactionConfig HandoverConfig JudgeConfig ObservabilityConfig PruneConfig RedactionConfig RedactionRules RenderConfig RuntimeConfig StoreConfig SummaryConfig load_config",
    "create": "ContextEngine create_context_engine",
    "errors": "AdapterError BackpressureError BudgetConflictError BudgetExceededError ConfigError ConstraintLimitError ConstraintNotFoundError ContextEngineError EmbedderError EncryptionKeyError EvidenceNotFoundError FileDamagedError InputTooLargeError InspectForbiddenError JudgeError MigrationError MissingDependencyError OriginalRefusedError RedactionError ReplayUnavailableError SchemaValidationError ScopeViolationError SelectorResolveError SessionNotFoundError StoreError StoreUnavailableError StoreUrlError SummarizerError SyncCallError TurnAmbiguousError TurnNotFoundError UnsupportedTargetError UnsupportedVersionError VersionConflictError",
    "memory.rolling_summarizer": "RollingSummarizer",
    "ports.audit": "AuditSink Authorize",
    "ports.blocks": "BlockDeriver DeriveOptions",
    "ports.context": "ContextPiece ContextSource Judge",
    "ports.embedder": "Embedder",
    "ports.encryption": "ContentCipher",
    "ports.events": "EventBus",
    "ports.evidence": "EvidenceDraft EvidenceIngestor",
    "ports.ids": "Clock Hasher IdGenerator",
    "ports.llm": "LlmAdapter LlmRequest LlmResponse",
    "ports.pruner": "Pruner",
    "ports.redaction": "PiiDetector PiiSpan RedactResult Redactor",
    "ports.rendering": "Assembler EvidenceResolver RenderHints Renderer",
    "ports.store": "Store",
    "ports.telemetry": "Telemetry",
    "ports.tokens": "TokenEstimator",
    "prepare.blocks.derive_session": "SessionDeriver",
    "prepare.blocks.render_block": "BlockRenderer",
    "prepare.choose.prune": "DegradeToSummaryPruner GreedyPriorityPruner GroupAwarePruner",
    "prepare.compose.assemble_input": "InputAssembler",
    "runtime.event_bus": "InMemoryEventBus",
    "runtime.own_calls": "Summarizer is_own_call",
    "schema.audit": "Action AuditRecord",
    "schema.call": "Answer Attachment CallerRole Extend HostMessage Insert Keep ModelCall Prepared Restore Shorten Step TurnHandle Usage",
    "schema.document": "Actor AgentInfo AttachmentRecord Author ContextBlock Evidence EvidenceLinks EvidenceSource Message MessageIndexRange Meta ModelUsage Ref Session SessionDocument Summary Task TaskState TodoList ToolCall ToolProvider ToolRequest ToolState",
    "schema.enums": "AuthorKind BlockType EvidenceType Layer ModelUsageStage ModelUsageStatus Origin Priority ProviderKind Role SourceKind TaskStatus ToolCallStatus ToolType TurnStatus",
    "schema.events": "CompactLog Deletion Event EventType Verification",
    "schema.export": "json_schema",
    "schema.handover": "Checkpoint Handover HandoverStep",
    "schema.ids": "Sha256Hasher SystemClock UuidV4Generator",
    "schema.invariants": "check_invariants",
    "schema.json_text": "canonical_json",
    "schema.migration": "MigrateResult Migrator parse_document",
    "schema.operations": "Operation",
    "schema.pruning": "PruneBudget PruneResult PruneRules",
    "schema.replay": "BroughtIn BroughtInBefore Explanation InspectedLayer Inspection PassedOver Replay ReplayProblem Sent SentPart",
    "schema.report": "AssembledInput BlockFilter ConflictRecord DeletionReport EvidenceFilter ImportReport MessagePart OriginalsReport PrepareResult PruneDecision PutResult RedactionRecord RenderedBlock Report Untouched",
    "schema.retention": "Expired RetentionConfig RetentionRule SweepReport",
    "schema.rows": "SessionInfo TurnRow",
    "schema.scope": "Scope",
    "schema.selectors": "RefSelector",
    "schema.settings": "Constraint",
    "schema.tool_runs": "IngestOptions Original Retrieval RetrievedDoc TaskRun ToolRun",
    "schema.trace": "EvidenceTrace Trace",
    "schema.user_export": "SessionExport SettingExport UserExport",
    "stores": "open_store",
    "stores.documents.memory": "MemoryStore",
    "sync": "SyncEngine",
    "text.redaction.presidio": "PresidioDetector",
    "text.relevance.minilm": "MiniLmEmbedder",
    "text.tokens": "CharBasedEstimator TiktokenEstimator context_window image_tokens",
    "turns.evidence_tool": "EvidenceTool",
    "turns.record.confidence": "RuleIngestor",
}
"""Module -> the public names that live in it. Each is imported when it is first asked for: `import ce_engine` is cheap."""

_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


if not TYPE_CHECKING:  # a type checker would take any name for ours

    def __getattr__(name: str) -> Any:
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
        return found


def __dir__() -> list[str]:
    return list(__all__)
