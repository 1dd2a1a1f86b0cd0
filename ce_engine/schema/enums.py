"""The closed vocabularies of the schema (A-01)."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """Who a message is from, as providers name it."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class AuthorKind(StrEnum):
    """What kind of author a message has."""

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    SYSTEM = "system"


class EvidenceType(StrEnum):
    """What a piece of evidence is."""

    RAG_DOC = "rag_doc"
    TOOL_RESULT = "tool_result"
    SKILL_OUTPUT = "skill_output"
    LLM_OUTPUT = "llm_output"
    USER_INPUT = "user_input"
    OTHER = "other"


class SourceKind(StrEnum):
    """What kind of thing evidence came from."""

    RAG = "rag"
    TOOL = "tool"
    SKILL = "skill"
    LLM = "llm"
    USER = "user"
    SYSTEM = "system"


class BlockType(StrEnum):
    """What a context block holds."""

    INSTRUCTION = "instruction"
    CONVERSATION = "conversation"
    STATE = "state"
    PLAN = "plan"
    EVIDENCE = "evidence"
    MEMORY = "memory"


class Priority(StrEnum):
    """How much a block matters, most first."""

    MUST = "must"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class ToolCallStatus(StrEnum):
    """How a tool's run ended."""

    SUCCESS = "success"
    TIMEOUT = "timeout"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    ERROR = "error"


class ProviderKind(StrEnum):
    """Who provides a tool."""

    BUILTIN = "builtin"
    MCP = "mcp"
    OTHER = "other"


class ToolType(StrEnum):
    """What kind of tool it is."""

    TOOL = "tool"
    SKILL = "skill"
    FUNCTION_CALL = "function_call"


class ModelUsageStage(StrEnum):
    """What a model call was for."""

    ROUTE = "route"
    PLAN = "plan"
    TOOL_CALL = "tool_call"
    ANSWER = "answer"
    SUMMARIZE = "summarize"
    OTHER = "other"


class ModelUsageStatus(StrEnum):
    """How a model call ended."""

    SUCCESS = "success"
    ERROR = "error"


class TaskStatus(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Origin(StrEnum):
    """What a host message *is*, whatever its role; the mapper decides.

    Attributes:
        SYSTEM: the app's instructions: they keep their place, and are not stored.
        TASK: what somebody asks; the newest one never goes.
        COLLEAGUE: what an agent says to another in the role of the user.
        ANSWER: what a model said, and TOOL_CALL, where it asks for tools; neither is shortened.
        TOOL_RESULT: what a tool gave; it goes and stays with its call.
        HOST_SUMMARY: what the framework made of earlier messages: history, and nobody's words.
        HELPER: what the framework says for itself in the midst of the talk, such as "Go on.": no task.
            Both have the role of the user: what an assistant says counts as a model's answer.
    """

    SYSTEM = "system"
    TASK = "task"
    COLLEAGUE = "colleague"
    ANSWER = "answer"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    HOST_SUMMARY = "host_summary"
    HELPER = "helper"


class Layer(StrEnum):
    """The four layers, in their fixed order (D-01)."""

    RULES = "rules"
    SETTINGS = "settings"
    RETRIEVED = "retrieved"
    IMMEDIATE = "immediate"


class TurnStatus(StrEnum):
    """The life of one preparation."""

    OPEN = "open"
    COMMITTED = "committed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    ABANDONED = "abandoned"
