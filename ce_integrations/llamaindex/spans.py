"""Spans of LlamaIndex: which belong together, whose they are, and what they say of the calls in them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.base_selector import BaseSelector
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.indices.query.query_transform.base import BaseQueryTransform
from llama_index.core.indices.struct_store.sql_retriever import BaseSQLParser
from llama_index.core.llms.structured_llm import StructuredLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.question_gen.types import BaseQuestionGenerator
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import TransformComponent
from llama_index.core.settings import Settings
from llama_index.core.tools import BaseTool
from llama_index_instrumentation.dispatcher import active_instrument_tags
from llama_index_instrumentation.span import active_span_id
from workflows import Workflow

from ce_engine.runtime.contexts import unset
from ce_integrations import patches
from ce_integrations.base import CallInfo, Hooks
from ce_integrations.bounded import BoundedMap
from ce_integrations.runs import MAX_RUNS, OpenRuns, RunTree


KEY = "_ce_mark"
"""Where an object's mark stands, in its `__dict__`: copies have it, and no field shows it."""

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
    *(
        (cls, "helper")
        for cls in (
            BaseNodePostprocessor,
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

_HELPER: dict[str, Any] = {"purpose": "helper"}


class Mark:
    """Says of an object of the framework whose it is."""

    def __init__(self, hooks: Hooks[Any]) -> None:
        self.hooks = hooks
        self.runs: OpenRuns[str] = OpenRuns(hooks)
        self.undo = ExitStack()
        """The way back, of what is marked later, too."""

    def put_on(self, subject: object) -> None:
        """Mark an object of the framework."""
        put = patches.put(vars(subject), KEY, lambda _: self, lambda v: None if v is self else v)
        self.undo.callback(put)

    @property
    def active(self) -> bool:
        return self.hooks.active

    def __deepcopy__(self, memo: object) -> Mark:
        return self  # a deep copy of an agent stays in its installation

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # what is unpickled elsewhere is silent

    def __repr__(self) -> str:
        return f"<ce {self.hooks.adapter.name}>"


def mark_of(subject: object) -> Mark | None:
    """The active mark of an object of the framework."""
    mark = getattr(subject, "__dict__", {}).get(KEY)
    return mark if isinstance(mark, Mark) and mark.active else None


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
        recorded: whether a `tool` or a `retriever` is at work in it, which is recorded.
        run: the span of the workflow's run around it, or its own.
        before: the span around that run.
    """

    place: str = ""
    recorded: str = ""
    run: str = ""
    before: str | None = None


class Spans(RunTree[str, Mark]):
    """The spans that are somebody's."""

    def __init__(self) -> None:
        super().__init__()
        self._told: BoundedMap[str, Mapping[str, Any]] = BoundedMap(MAX_RUNS)
        self._spans: BoundedMap[str, Span] = BoundedMap(MAX_RUNS)
        self._ended: BoundedMap[str, bool] = BoundedMap(MAX_RUNS)

    def end(self, id_: str) -> None:
        """Note that a span ends. Before 0.14 a workflow's run stays the active one of its caller's task."""
        if self.span(id_).run == id_:
            self._ended.put(id_, True)

    def inside(self, id_: str | None) -> str | None:
        """The span, if it is in no run that is at its end; else what was around that."""
        while id_ and (run := self._spans.get(id_)) is not None and self._ended.get(run.run):
            id_ = run.before
        return id_ or None

    def enter(
        self, id_: str, parent: str | None, own: Mark, span: Span, tool: str, **told: Any
    ) -> None:
        """Note a span, and what it says of the calls in it: the innermost that says something wins."""
        self.add(id_, parent, own, tool)
        self._told.put(id_, {**self.told(parent), **told})
        self._spans.put(id_, span)

    def told(self, id_: str | None) -> Mapping[str, Any]:
        return (self._told.get(id_) if id_ else None) or {}

    def span(self, id_: str | None) -> Span:
        return (self._spans.get(id_) if id_ else None) or Span()

    def info(self, id_: str | None) -> CallInfo:
        """What is known of a call or a tool's run inside a span."""
        told = dict(self.told(id_))
        agent = told.get("agent") or ""
        info = CallInfo(
            request_id=self.of(id_)[0] if id_ else secrets.token_hex(8),
            parent_request_id=id_ or "",
            lane_key="/".join(filter(None, (*self.tools(id_), agent))) or None,
            **told,
        )
        tags = active_instrument_tags.get()
        info.session_id = tags.get("session_id") or info.session_id
        info.user_id = tags.get("user_id") or info.user_id
        info.metadata = tags
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
        named = _session(_memory(args, instance))
        return kind, {"keeps_history": True, "purpose": "chat", **named}
    if kind in ("helper", "retriever"):
        return kind, _HELPER
    place = kind if kind == "tool" else around.place
    return place, _HELPER if _is_aside(kind, method, place) else {}


def _is_aside(kind: str, method: str, place: str) -> bool:
    """An answer that is there, in another form; or a question that is made to stand alone."""
    if kind == "structured":
        return place == "parse_agent_output"
    return kind == "model" and place == "chat engine" and method in ("predict", "apredict")


def _of_a_step(method: str, event: Any) -> tuple[str, dict[str, Any]]:
    """An agent's own steps have names, and events that tell who is at work; others are the app's."""
    if method == "call_tool" and hasattr(event, "tool_id"):
        return "tool", {"agent": ""}
    agent = getattr(event, "current_agent_name", None)
    return method, {"agent": agent, "purpose": "chat"} if agent else {}


def _memory(args: Mapping[str, Any], instance: object) -> object:
    """What has the messages: the memory of an engine, or the one that a run begins with."""
    begins: Any = args.get("start_event")
    given = begins.get("memory") if hasattr(begins, "get") else None
    return getattr(instance, "_memory", given)


def _session(memory: object) -> dict[str, Any]:
    """The session of a memory; an id that all share by default is none, which is found out later."""
    names = ("session_id", "chat_store_key")
    found = next((value for name in names if (value := getattr(memory, name, None))), None)
    return {} if found is None else {"session_id": found}


# What memories ask for themselves


_remembering: ContextVar[bool] = ContextVar("ce_llamaindex_remembering", default=False)


@contextmanager
def remembering(*_: object, **__: object) -> Iterator[None]:
    """A memory is at work inside: what it asks (for summaries, for facts) is its own business."""
    token = _remembering.set(True)
    try:
        yield
    finally:
        unset(_remembering, token)


def info_here() -> CallInfo:
    """What is known of a call that is made now."""
    info = tree.info(tree.inside(active_span_id.get()))
    if _remembering.get():
        info.purpose = "helper"
    return info


def owner_here(subject: object) -> Mark | None:
    """Whose call of a model this is: that of the outermost marked span, else the model's own."""
    here, own = tree.inside(active_span_id.get()), mark_of(subject)
    return tree.of(here, own)[1] if here else own
