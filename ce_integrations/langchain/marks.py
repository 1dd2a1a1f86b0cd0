"""The mark of an installation among LangChain's handlers, and what a run tells of itself."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import (
    AsyncCallbackManager,
    BaseCallbackHandler,
    BaseCallbackManager,
    CallbackManager,
)
from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.messages import BaseMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import RunnableConfig, ensure_config
from langchain_core.tools import BaseTool
from langchain_core.utils.uuid import uuid7

from ce_integrations.base import CallInfo, Hooks
from ce_integrations.patches import Make
from ce_integrations.runs import RunTree


SESSION_KEYS = ("thread_id", "session_id", "conversation_id")
HELPER_KEYS = ("lc_internal_call", "lc_source", "ce:skip")
"""In the metadata of calls that LangChain or the app makes for itself; the last one is a tag, too."""


class Mark(BaseCallbackHandler):
    """A handler that says: this model, tool or graph belongs to that installation.

    Handlers survive copies, bindings, retries and new instances by `configurable_fields`, and what a
    graph calls inherits them. Model calls are recorded where they are made, so that this one ignores
    them and chains: an ignored event costs nothing.
    """

    def __init__(self, hooks: Hooks[BaseMessage]) -> None:
        self.hooks = hooks

    @property
    def active(self) -> bool:
        return self.hooks.active

    ignore_llm = ignore_chat_model = ignore_chain = True  # properties of the base that say no

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


def marked(found: Any, mark: Mark) -> tuple[str, Any] | None:
    """The attribute that carries a mark, and its value with one; `None` for what cannot be marked.

    Retrievers have no field `callbacks`; the attribute is copied with them all the same.
    """
    graphs = sys.modules.get("langgraph.pregel.main")
    if graphs is not None and isinstance(found, graphs.Pregel):
        # Every run of the graph has it, and with it models that are made inside a node.
        mark.hooks.agents.update(found.nodes)
        config = found.config or {}
        return "config", {**config, "callbacks": with_mark(config.get("callbacks"), mark)}
    if isinstance(found, BaseChatModel | BaseLLM | BaseRetriever | BaseTool):
        return "callbacks", with_mark(getattr(found, "callbacks", None), mark)
    return None


def without(mark: Mark, value: Any) -> Any:
    """Such a value without the mark, as a new one; `None` where no handler is left."""
    if isinstance(value, dict):
        return {**value, "callbacks": without(mark, value.get("callbacks"))}
    if isinstance(value, list):
        return [handler for handler in value if handler is not mark] or None
    if isinstance(value, BaseCallbackManager) and mark in value.handlers:
        value = value.copy()
        value.remove_handler(mark)
    return value


def with_mark(callbacks: Any, mark: Mark) -> Any:
    """The callbacks with the mark, as a new value."""
    if isinstance(callbacks, BaseCallbackManager):
        added = callbacks.copy()
        added.add_handler(mark)
        return added
    return [*(callbacks or ()), mark]


tree: RunTree[UUID, Mark] = RunTree()
"""A leaf sees its parent only, never its root, and may be the only one that is marked."""


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Link each run to its root before its handlers hear of it; `run_id` is the third argument."""

    @functools.wraps(original)
    def start(self: BaseCallbackManager, *args: Any, **kwargs: Any) -> Any:
        if len(args) < 3:
            # Without one, LangChain itself would make this a moment later.
            run_id = kwargs["run_id"] = kwargs.get("run_id") or uuid7()
            told = (args[0] if args else kwargs.get("serialized")) or {}
            tool = str(told.get("name") or "") if original.__name__ == "on_tool_start" else ""
            tree.add(run_id, self.parent_run_id, mark_of(self), tool)
        return original(self, *args, **kwargs)

    return start


STARTS: dict[type, dict[str, Make]] = {
    manager: dict.fromkeys(("on_chain_start", "on_tool_start", "on_retriever_start"), _noting)
    for manager in (CallbackManager, AsyncCallbackManager)
}
"""The methods by which runs start, to be wrapped."""


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
    words = {*(key for key in HELPER_KEYS if told.get(key)), *around.get("tags", ()), *(tags or ())}
    branch = configurable.get("checkpoint_ns") or told.get("langgraph_checkpoint_ns") or ""
    agent = str(told.get("lc_agent_name") or "")
    root = tree.of(parent)[0] if parent is not None else run_id or uuid7()
    return CallInfo(
        request_id=str(root),
        parent_request_id=str(parent or ""),
        session_id=_first(SESSION_KEYS, configurable, told),
        user_id=_first(("user_id",), configurable, told),
        # A sub-agent's node has the same name in every tool and agent.
        lane_key="/".join(
            filter(None, (*tree.tools(parent), agent, _without_task_ids(str(branch))))
        )
        or None,
        agent=agent,
        keeps_history="langgraph_node" in told,
        purpose="chat" if words.isdisjoint(HELPER_KEYS) else "helper",
        metadata=told,
    )


def _first(keys: tuple[str, ...], *places: Mapping[str, Any]) -> object:
    return next((place[key] for place in places for key in keys if place.get(key)), None)


def _without_task_ids(branch: str) -> str:
    """`planner:<task id>|model:<task id>` as `planner|model`: a branch keeps its name from run to run."""
    return "|".join(part.split(":")[0] for part in branch.split("|") if not part.isdigit())
