"""Spans of LlamaIndex: which belong together, whose they are, and what they say of the calls in them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import ref

from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.base_selector import BaseSelector
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.indices.query.query_transform.base import BaseQueryTransform
from llama_index.core.indices.struct_store.sql_retriever import BaseSQLParser
from llama_index.core.llms.structured_llm import StructuredLLM
from llama_index.core.question_gen.types import BaseQuestionGenerator
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import TransformComponent
from llama_index.core.settings import Settings
from llama_index.core.tools import BaseTool
from llama_index_instrumentation.dispatcher import active_instrument_tags
from llama_index_instrumentation.span import active_span_id
from workflows import Workflow

from ce_integrations.calls.run_tree import RunTree
from ce_integrations.calls.tool_events import MAX_RUNS
from ce_integrations.identity.user_around import Naming, tell_user
from ce_integrations.install.adapter import CallInfo
from ce_integrations.install.class_adapter import SharedMark
from ce_integrations.install.marks import PLACE
from ce_integrations.llamaindex.chat_memory import memory_of, session_of
from ce_integrations.wrapping.bounded_maps import BoundedMap


KINDS: tuple[tuple[type, str], ...] = (
    (StructuredLLM, "structured"),
    (BaseLLM, "model"),
    (Workflow, "workflow"),
    (BaseChatEngine, "chat engine"),
    (BaseQueryEngine, "query engine"),
    (BaseSynthesizer, "synthesizer"),
    (BaseRetriever, "retriever"),
    (BaseTool, "tool"),
    (type(Settings), "settings"),
    (BaseEmbedding, ""),  # a transformation that asks no model of ours, and very many of them
    *(
        (cls, "helper")
        for cls in (
            BaseQueryTransform,
            BaseQuestionGenerator,
            BaseSelector,
            BaseSQLParser,
            TransformComponent,
        )
    ),
)
ROOTS = frozenset(
    {"workflow", "chat engine", "query engine", "synthesizer", "retriever", "tool", "settings"}
)
"""What an app calls to have models called; it says whose all the calls in it are."""

_ENGINES = frozenset({"workflow", "chat engine", "query engine", "synthesizer"})
"""What puts the messages of a call together by itself."""

_TALKING = frozenset({"workflow", "chat engine"})
"""What of them holds a conversation; a query is answered by itself."""

_HELPER: dict[str, Any] = {"purpose": "helper"}
_ONE_SHOT: dict[str, Any] = {"takes_history": False}
"""A model's spans are those of its prompts: `predict`, `structured_predict` and the like."""


def mark_of(subject: object) -> SharedMark | None:
    """The active mark of an object of the framework."""
    mark = PLACE.mark_of(subject)
    return mark if isinstance(mark, SharedMark) else None


def kind_of(subject: object) -> str:
    """What an object is to us."""
    cls: Any = type(subject)
    return _kind(cls)


@lru_cache(1024)
def _kind(cls: Any) -> str:
    return next((kind for base, kind in KINDS if issubclass(cls, base)), "")


@dataclass(frozen=True, slots=True)
class Span:
    """What is to be known of a span beside what it says of calls.

    Attributes:
        place: the kind of what works, or the name of an agent's step; a model's is that around it.
        work: whether a `tool` or a `retriever` is at work in it.
        run: the span of the workflow's run around it, or its own.
        before: the span around that run.
        agent: who of the run's agents speaks.
        caller: the task that began a run, which is not inside it.
    """

    place: str = ""
    work: str = ""
    run: str = ""
    before: str | None = None
    agent: str = ""
    caller: ref[Any] | None = None


UNKNOWN = Span()


def task_here() -> ref[Any] | None:
    """The task that runs here."""
    with suppress(RuntimeError):  # no loop runs
        task = asyncio.current_task()
        return None if task is None else ref(task)
    return None


def _is_outside(id_: str, span: Span) -> bool:
    """Whether this is the task that began the run, which works in tasks of its own."""
    return span.run == id_ and span.caller is not None and span.caller == task_here()


class Spans(RunTree[str, SharedMark]):
    """The spans that say something of the calls of models in them, or are in such; most have an owner."""

    def __init__(self) -> None:
        super().__init__()
        self._spans: BoundedMap[str, Span] = BoundedMap(MAX_RUNS)
        self._ended: BoundedMap[str, bool] = BoundedMap(MAX_RUNS)

    def begin(self, id_: str, span: Span) -> None:
        self._spans.put(id_, span)

    def end(self, id_: str) -> None:
        super().end(id_)
        if self.span(id_).run == id_:
            self._ended.put(id_, True)

    def span(self, id_: str | None) -> Span:
        return (self._spans.get(id_) if id_ else None) or UNKNOWN

    def inside(self, id_: str | None) -> str | None:
        """The span, if it is in a run that we are in; else what was around that.

        Before 0.14 a workflow's run stays the active span of its caller's task, after its end and, where
        a generator waits between its pieces, for whoever asks in the same task meanwhile.
        """
        while id_ and (self._ended.get((span := self.span(id_)).run) or _is_outside(id_, span)):
            id_ = span.before
        return id_ or None

    def info_in(self, id_: str | None) -> CallInfo:
        """What is known of a call or a tool's run inside a span; the app's tags say whose it is first."""
        tags = active_instrument_tags.get()
        info = self.info(
            id_,
            request_id="" if id_ else secrets.token_hex(8),
            session_id=tags.get("session_id"),
            user_id=tags.get("user_id"),
            metadata=tags,
        )
        info.agent = self.span(id_).agent
        return info


tree = Spans()
"""A model sees its own span's parent only, never its root, and may be the only one that is marked."""


def what_a_span_tells(
    method: str, args: Mapping[str, Any], instance: object, around: Span
) -> tuple[str, dict[str, Any]]:
    """(place, what it says of the calls in it)."""
    kind, event = kind_of(instance), args.get("ev")
    if event is not None and kind in ("", "workflow"):
        return _of_a_step(method, event)
    if kind in _ENGINES:
        own_fields = {**session_of(memory_of(args, instance)), **_line(instance)}
        return kind, {"takes_history": kind in _TALKING, **own_fields}
    if kind in ("helper", "retriever"):
        return kind, _HELPER
    place = kind if kind == "tool" else around.place
    fields = _ONE_SHOT if kind in ("model", "structured") else {}
    return place, _HELPER if _is_aside(kind, method, place) else fields


def _is_aside(kind: str, method: str, place: str) -> bool:
    """An answer that is there, in another form; or a question that is made to stand alone."""
    if kind == "structured":
        return place == "parse_agent_output"
    return kind == "model" and place == "chat engine" and method in ("predict", "apredict")


def _of_a_step(method: str, event: Any) -> tuple[str, dict[str, Any]]:
    """An agent's own steps have names, and events that tell who is at work; others are the app's."""
    if method == "call_tool" and hasattr(event, "tool_id"):
        return "tool", {}
    return method, {}


def _line(instance: object) -> dict[str, Any]:
    """The line of a run: an agent's own, or the one that the agents of a workflow share.

    No message of the framework says which agent it is from.
    """
    if isinstance(instance, AgentWorkflow):
        return {"lane_key": "workflow", "shared_history": True}
    if isinstance(instance, BaseWorkflowAgent):
        return {"lane_key": instance.name, "shared_history": True}
    return {}


def info_here() -> CallInfo:
    """What is known of a call that is made now."""
    return tree.info_in(tree.inside(active_span_id.get()))


def user_in_tags() -> object:
    """The user whom the app's tags name here."""
    return active_instrument_tags.get().get("user_id")


def _named_here() -> Naming | None:
    """Whom the run names that is at work around us, or one around it."""
    return tree.naming(tree.inside(active_span_id.get()), user_in_tags())


tell_user(_named_here)


def owner_here(subject: object) -> SharedMark | None:
    """Whose call of a model this is: that of the outermost marked span, else the model's own.

    Nobody's, where the model hands it on to one inside: that one's call is the call.
    """
    if kind_of(subject) == "structured":
        return None
    here, own = tree.inside(active_span_id.get()), mark_of(subject)
    return tree.of(here, own)[1] if here else own
