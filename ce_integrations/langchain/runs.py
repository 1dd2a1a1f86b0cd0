"""Which run of LangChain belongs to which root run and to which installation."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import (
    AsyncCallbackManager,
    BaseCallbackHandler,
    BaseCallbackManager,
    CallbackManager,
)
from langchain_core.messages import BaseMessage
from langchain_core.runnables.config import RunnableConfig, ensure_config
from langchain_core.utils.uuid import uuid7

from ce_integrations.base import CallInfo, Hooks
from ce_integrations.bounded import BoundedMap


MAX_RUNS = 20_000
"""Runs that are remembered; a child of one that is forgotten counts as a root."""

SESSION_KEYS = ("thread_id", "session_id", "conversation_id")
HELPER_KEYS = ("lc_internal_call", "lc_source", "ce:skip")
"""In the metadata of calls that LangChain or the app makes for itself."""

SKIP_TAG = "ce:skip"


class Mark(BaseCallbackHandler):
    """A callback handler that says: this model, tool or graph belongs to that installation.

    Handlers survive copies, bindings, retries and new instances by `configurable_fields`, and are
    inherited by what a graph calls. Model calls are recorded where they are made, so that this one
    ignores them and chains: an ignored event costs nothing.
    """

    def __init__(self, hooks: Hooks[BaseMessage]) -> None:
        self.hooks = hooks

    @property
    def active(self) -> bool:
        return self.hooks.active

    @property
    def ignore_llm(self) -> bool:
        return True

    @property
    def ignore_chat_model(self) -> bool:
        return True

    @property
    def ignore_chain(self) -> bool:
        return True

    def __copy__(self) -> Mark:
        return self

    def __deepcopy__(self, memo: object) -> Mark:
        return self  # a deep copy of a model stays in its installation

    def __reduce__(self) -> tuple[type[BaseCallbackHandler], tuple[()]]:
        return BaseCallbackHandler, ()  # what is unpickled elsewhere is silent

    def __repr__(self) -> str:
        return f"<ce {self.hooks.adapter.name}>"


def mark_of(callbacks: object) -> Mark | None:
    """The first active mark of a `callbacks` value; inherited handlers stand before a run's own."""
    handlers = callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else callbacks
    if not isinstance(handlers, list):
        return None
    return next((h for h in handlers if isinstance(h, Mark) and h.active), None)


def with_mark(callbacks: Any, mark: Mark) -> Any:
    """The callbacks with the mark, as a new value."""
    if callbacks is None:
        return [mark]
    if isinstance(callbacks, BaseCallbackManager):
        added = callbacks.copy()
        added.add_handler(mark)
        return added
    return [*callbacks, mark]


class Link:
    """A run's root, and the mark of the outermost installation that governs it."""

    __slots__ = ("_mark", "root")

    def __init__(self, root: UUID, mark: Mark | None) -> None:
        self.root = root
        self._mark = None if mark is None else weakref.ref(mark)

    @property
    def mark(self) -> Mark | None:
        mark = None if self._mark is None else self._mark()
        return mark if mark is not None and mark.active else None


_links: BoundedMap[UUID, Link] = BoundedMap(MAX_RUNS)


def link_of(run_id: UUID | None, callbacks: object = None) -> Link | None:
    """What is known of a run; a mark among its `callbacks` counts where its root has none."""
    if run_id is None:
        return None
    known = _links.get(run_id)
    if known is not None and known.mark is not None:
        return known
    return Link(known.root if known is not None else run_id, mark_of(callbacks))


def starts() -> Iterator[tuple[type, str, Callable[[Any], Any]]]:
    """The methods by which runs start, to be wrapped: a leaf sees its parent only, never its root."""
    for name in ("on_chain_start", "on_tool_start", "on_retriever_start"):
        yield CallbackManager, name, _noting
        yield AsyncCallbackManager, name, _noting_async


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def start(self: CallbackManager, *args: Any, **kwargs: Any) -> Any:
        _note(self, args, kwargs)
        return original(self, *args, **kwargs)

    return start


def _noting_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def start(self: AsyncCallbackManager, *args: Any, **kwargs: Any) -> Any:
        _note(self, args, kwargs)
        return await original(self, *args, **kwargs)

    return start


def _note(manager: BaseCallbackManager, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Link a run to its root, before its handlers hear of it; `run_id` is the third argument."""
    run_id = args[2] if len(args) > 2 else kwargs.get("run_id")
    if run_id is None:
        if len(args) > 2:
            return
        run_id = kwargs["run_id"] = uuid7()  # as LangChain itself would, a moment later
    parent = link_of(manager.parent_run_id, manager.handlers)
    _links.put(run_id, parent or Link(run_id, mark_of(manager.handlers)))


# What a run tells of itself


def info_of(
    config: RunnableConfig | None,
    *,
    parent: UUID | None,
    run_id: UUID | None = None,
    metadata: Mapping[str, Any] | None = None,
    tags: list[str] | None = None,
) -> CallInfo:
    """What the configuration around a call says: session, user, agent, branch, purpose."""
    around = ensure_config(config)
    configurable = around.get("configurable", {})
    told = {**around.get("metadata", {}), **(metadata or {})}
    link = link_of(parent)
    is_helper = any(told.get(key) for key in HELPER_KEYS)
    is_helper = is_helper or SKIP_TAG in [*around.get("tags", ()), *(tags or ())]
    branch = configurable.get("checkpoint_ns") or told.get("langgraph_checkpoint_ns") or ""
    return CallInfo(
        request_id=str(link.root if link is not None else run_id or uuid7()),
        parent_request_id=str(parent or ""),
        session_id=_first(SESSION_KEYS, configurable, told),
        user_id=_first(("user_id",), configurable, told),
        lane_key=_without_task_ids(str(branch)) or None,
        agent=str(told.get("lc_agent_name") or ""),
        purpose="helper" if is_helper else "chat",
        metadata=told,
    )


def _first(keys: tuple[str, ...], *places: Mapping[str, Any]) -> object:
    return next((place[key] for place in places for key in keys if place.get(key)), None)


def _without_task_ids(branch: str) -> str:
    """`planner:<task id>|model:<task id>` as `planner|model`: a branch keeps its name from run to run."""
    return "|".join(part.split(":")[0] for part in branch.split("|") if not part.isdigit())
