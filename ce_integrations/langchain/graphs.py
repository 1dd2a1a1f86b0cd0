"""LangGraph: branches by their checkpoint, interrupts, and graphs whose own callbacks oust their caller's."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import ensure_config

from ce_integrations.langchain.marks import Mark, graph_types, mark_of, with_mark
from ce_integrations.wrapping.function_kinds import Arguments, within
from ce_integrations.wrapping.patches import Make


def branch_of(configurable: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    """The branch of a graph's run, by its checkpoint: `planner:<task id>|model:<task id>` as `planner|model`.

    So it keeps its name from run to run.
    """
    branch = configurable.get("checkpoint_ns") or metadata.get("langgraph_checkpoint_ns") or ""
    return "|".join(part.split(":")[0] for part in str(branch).split("|") if not part.isdigit())


def is_interrupt(error: BaseException) -> bool:
    """Whether a graph pauses by this error, for a person or a command; it is no failure."""
    errors = sys.modules.get("langgraph.errors")
    return errors is not None and isinstance(error, errors.GraphBubbleUp)


@contextmanager
def _graph_entry(_: object, graph: Any, /, *args: Any, **kwargs: Any) -> Iterator[Arguments | None]:
    """Around `stream(input, config)` of a graph whose configuration ousts other callbacks.

    With the mark in it, the graph would no longer hear its caller's handlers, or they would oust the
    mark. So both go in as the caller's.
    """
    own = (graph.config or {}).get("callbacks")
    config = args[1] if len(args) > 1 else kwargs.get("config")
    callbacks = (config or {}).get("callbacks")
    if (
        not callbacks
        and isinstance(own, list)
        and all(isinstance(handler, Mark) for handler in own)
    ):
        callbacks = ensure_config().get("callbacks")
    mark = mark_of(own)
    if not callbacks or mark is None:
        yield None
    else:
        if all(handler is not mark for handler in getattr(callbacks, "handlers", callbacks)):
            callbacks = with_mark(mark, "callbacks", callbacks)
        config = {**(config or {}), "callbacks": callbacks}
        yield (graph, *args[:1]), {**kwargs, "config": config}


def graph_entries() -> dict[type, dict[str, Make]]:
    """What is to be wrapped of graphs: nothing where LangGraph adds callbacks up, as later ones do."""
    first, second = BaseCallbackHandler(), BaseCallbackHandler()
    entries: dict[type, dict[str, Make]] = {}
    for cls in graph_types():
        merge = sys.modules[cls.__module__].ensure_config
        both = Context().run(merge, {"callbacks": [first]}, {"callbacks": [second]})["callbacks"]
        if first not in getattr(both, "handlers", both):
            entries[cls] = dict.fromkeys(("stream", "astream"), within(_graph_entry))
    return entries
