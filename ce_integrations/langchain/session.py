"""What a run's configuration says: its session (`thread_id`), user, agent, branch and purpose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from ce_integrations.install.adapter import CallInfo
from ce_integrations.langchain.batches import batch_around
from ce_integrations.langchain.graphs import branch_of
from ce_integrations.langchain.marks import new_run_id, tree, user_in


SESSION_KEYS = ("thread_id", "session_id", "conversation_id")
HELPER_KEYS = ("lc_internal_call", "lc_source", "ce:skip")
"""In the metadata of calls that LangChain or the app makes for itself; the last one is a tag, too."""
HELPER_NODES = tuple(
    f".{when}_{kind}" for when in ("before", "after") for kind in ("agent", "model")
)
"""Ends of the names of nodes in which an agent's middleware works; LangChain 1.0 marks its calls by no more."""


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
    all_metadata = {**around.get("metadata", {}), **(metadata or {})}
    words = {
        *(key for key in HELPER_KEYS if all_metadata.get(key)),
        *around.get("tags", ()),
        *(tags or ()),
    }
    is_middleware = str(all_metadata.get("langgraph_node") or "").endswith(HELPER_NODES)
    return tree.info(
        parent,
        request_id="" if parent is not None else str(run_id or new_run_id()),
        session_id=_first(SESSION_KEYS, configurable, all_metadata),
        user_id=user_in(configurable, all_metadata),
        lane_key=branch_of(configurable, all_metadata),
        agent=str(all_metadata.get("lc_agent_name") or ""),
        # A graph keeps its own state; a model that is asked alone has nobody who talks.
        takes_history=parent is not None and "langgraph_node" not in all_metadata,
        batch=batch_around(),
        purpose="chat" if words.isdisjoint(HELPER_KEYS) and not is_middleware else "helper",
        metadata=all_metadata,
    )


def _first(keys: tuple[str, ...], *places: Mapping[str, Any]) -> object:
    values = (place.get(key) for place in places for key in keys)
    return next((v for v in values if not (v is None or (isinstance(v, str) and not v))), None)
