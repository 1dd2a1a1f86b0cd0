"""The mark of an installation among LangChain's handlers, and what a run tells of itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from uuid import UUID, uuid4  # noqa: TID251 - what LangChain takes where it has no ordered ids

from langchain_core.callbacks import (
    AsyncCallbackManager,
    BaseCallbackHandler,
    BaseCallbackManager,
    CallbackManager,
    manager,
)
from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool

from ce_integrations.calls.run_tree import RunTree
from ce_integrations.identity.user_around import Naming, tell_user
from ce_integrations.install import marks
from ce_integrations.install.adapter import Detach, Hooks
from ce_integrations.wrapping.function_kinds import same_kind
from ce_integrations.wrapping.patches import Make, put


_MODELS = (BaseChatModel, BaseLLM)
LEAVES = (*_MODELS, BaseRetriever, BaseTool)
"""What has callbacks of its own, and takes part in the runs of others."""

_INNER = ("bound", "runnable", "default")
"""What has another Runnable in the place of itself, by its attribute."""

# As LangChain makes them itself. Core 0.3.73 and 1.0: random ones; 0.3.86 and 1.7: in order of time.
new_run_id: Callable[[], UUID] = getattr(manager, "uuid7", uuid4)


class Mark(marks.Mark, BaseCallbackHandler):
    """A handler that says: this model, tool or graph belongs to that installation.

    Handlers survive copies, bindings, retries and new instances by `configurable_fields`, and what a
    graph calls inherits them. Model calls are recorded where they are made, so that this one ignores
    them and chains: an ignored event costs nothing.
    """

    copies = "share"  # all that an installation marks has one

    ignore_llm = ignore_chat_model = ignore_chain = True  # properties of the base that say no

    def __init__(self, hooks: Hooks[Any]) -> None:
        super().__init__(hooks)
        self.agents: set[str] = set()
        """The names that the app gave to its graphs: langchain before 1.2 tells no others of its agents."""


class MarkedManager(BaseCallbackManager):
    """The app's own manager with a mark beside its handlers: each knows what the other is told later."""

    __slots__ = ("mark", "theirs")

    def __init__(self, theirs: BaseCallbackManager, mark: Mark) -> None:
        self.__dict__ = vars(theirs)  # one state, in which there is no mark
        self.theirs, self.mark = theirs, mark

    handlers: Any = property(lambda self: [*self.theirs.handlers, self.mark])
    inheritable_handlers: Any = property(
        lambda self: [*self.theirs.inheritable_handlers, self.mark]
    )

    def copy(self) -> Any:
        added = self.theirs.copy()
        added.add_handler(self.mark)
        return added

    def merge(self, other: BaseCallbackManager) -> Any:
        return self.copy().merge(other)

    def add_handler(self, /, *args: Any, **kwargs: Any) -> None:
        self.theirs.add_handler(*args, **kwargs)

    def remove_handler(self, handler: BaseCallbackHandler) -> None:
        self.theirs.remove_handler(handler)

    def set_handlers(self, /, *args: Any, **kwargs: Any) -> None:
        self.theirs.set_handlers(*args, **kwargs)


class Carrier:
    """Something of ours that carries a mark as models do, in its `callbacks`."""

    callbacks: list[Mark] | None = None


def mark_of(value: object) -> Mark | None:
    """The first active mark of callbacks or a configuration; inherited handlers stand before a run's own."""
    if isinstance(value, dict):
        value = value.get("callbacks")
    handlers = value.handlers if isinstance(value, BaseCallbackManager) else value
    if not isinstance(handlers, list):
        return None
    return next((h for h in handlers if isinstance(h, Mark) and h.active), None)


def graph_types() -> tuple[type, ...]:
    """The class of graphs, where LangGraph is imported; before 0.6 it has no `langgraph.pregel.main`."""
    graph_type = getattr(sys.modules.get("langgraph.pregel"), "Pregel", None)
    return () if graph_type is None else (graph_type,)


def made_later() -> tuple[type, ...]:
    """The class of what `init_chat_model` makes without settling on a model, where it is imported."""
    model_type = getattr(sys.modules.get("langchain.chat_models.base"), "_ConfigurableModel", None)
    return () if model_type is None else (model_type,)


def carriers(parts: Iterable[Any]) -> Iterator[Any]:
    """What of it can be marked.

    Every run of a graph has its configuration, and with it models that are made inside a node.
    Retrievers have no field `callbacks`; the attribute is copied with them all the same. What
    `init_chat_model` makes without settling on a model gives its defaults to each that it makes.
    A carrier of ours has a mark only where it is the first, the target: others may share it.
    """
    kinds = (*LEAVES, *graph_types(), *made_later())
    for n, part in enumerate(parts):
        if isinstance(part, (*kinds, Carrier) if n == 0 else kinds):
            yield part


def is_graph(carrier: object) -> bool:
    """Whether it says who governs all that runs in it."""
    return isinstance(carrier, graph_types())


def is_chain(target: object) -> bool:
    """Whether it may hold a conversation that nobody keeps: no leaf, nor what begins with a model."""
    inside = _inside(target)
    first = _inside(getattr(inside, "first", None))
    alone = (*LEAVES, *graph_types(), *made_later(), Carrier)
    return not isinstance(inside, alone) and not isinstance(first, (*_MODELS, *made_later()))


def _inside(target: object) -> object:
    """What is bound, retried, or the first of alternatives."""
    while (inner := next((i for a in _INNER if (i := getattr(target, a, None))), None)) is not None:
        target = inner
    return target


def _key_of(carrier: object) -> str:
    """The attribute that carries the mark."""
    if is_graph(carrier):
        return "config"
    return "_default_config" if isinstance(carrier, made_later()) else "callbacks"


class Callbacks:
    """The place of marks: among the callbacks of a carrier, or of its configuration."""

    def mark_of(self, subject: Any) -> Mark | None:
        return mark_of(getattr(subject, _key_of(subject), None))

    def put(self, subject: Any, mark: Any) -> Detach:
        key = _key_of(subject)
        return put(vars(subject), key, partial(with_mark, mark, key), partial(without, mark))


class _Defaults(dict[str, Any]):
    """Defaults with a mark: where there are no others, LangChain must not look for their model."""

    def __bool__(self) -> bool:
        return len(self) > 1


def _keeping(original: Callable[..., Any]) -> Callable[..., Any]:
    """Its copies (`bind_tools`, `with_config`) are given what is in its defaults, in a plain dictionary."""

    @same_kind(original)
    def init(self: Any, /, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        attributes = vars(self)
        if mark_of(attributes.get("_default_config")) is not None:
            attributes["_default_config"] = _Defaults(attributes["_default_config"])

    return init


def copies() -> dict[type, dict[str, Make]]:
    """The methods by which those are copied, to be wrapped."""
    return {cls: {"__init__": _keeping} for cls in made_later()}


def with_mark(mark: Mark, key: str, value: Any) -> Any:
    """The value of such an attribute with the mark, as a new one."""
    if key != "callbacks":
        config = value or {}
        kind = dict if key == "config" else _Defaults
        return kind(config, callbacks=with_mark(mark, "callbacks", config.get("callbacks")))
    if isinstance(value, BaseCallbackManager):
        return MarkedManager(value, mark)
    return [*(value or ()), mark]


def without(mark: Mark, value: Any) -> Any:
    """The value without the mark, and without any whose installation is gone; else the very same.

    `None` where no handler is left.
    """
    if isinstance(value, dict):
        callbacks = value.get("callbacks")
        if (rest := without(mark, callbacks)) is callbacks:
            return value
        return {
            k: rest if k == "callbacks" else v for k, v in value.items() if rest or k != "callbacks"
        }
    if isinstance(value, list):
        rest = [h for h in value if h is not mark and (not isinstance(h, Mark) or h.active)]
        return value if len(rest) == len(value) else rest or None
    if isinstance(value, MarkedManager):
        rest = without(mark, value.theirs)
        if value.mark is mark or not value.mark.active:
            return rest
        return value if rest is value.theirs else MarkedManager(rest, value.mark)
    if isinstance(value, BaseCallbackManager):
        value.remove_handler(mark)  # the app's own copy of a marked one
    return value


tree: RunTree[UUID, Mark] = RunTree()
"""A leaf sees its parent only, never its root, and may be the only one that is marked."""


def user_in(*places: object) -> object:
    """The user whom configurable fields or metadata name; `""` where they say nobody."""
    users = [
        p["user_id"] for p in places if isinstance(p, Mapping) and p.get("user_id") is not None
    ]
    return next(
        (user for user in users if not isinstance(user, str) or user), "" if users else None
    )


def _run_here() -> tuple[UUID | None, object]:
    """(id, user whom its configuration names) of the run that is at work around us."""
    around = var_child_runnable_config.get() or {}
    run_id = getattr(around.get("callbacks"), "parent_run_id", None)
    return run_id, user_in(around.get("configurable"), around.get("metadata"))


def _named_here() -> Naming | None:
    """Whom the run names that is at work around us, or one around it."""
    return tree.naming(*_run_here())


tell_user(_named_here)


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Link each run to its root before its handlers hear of it; `run_id` is the third argument."""

    @same_kind(original)
    def start(self: BaseCallbackManager, /, *args: Any, **kwargs: Any) -> Any:
        if len(args) < 3:
            # Without one, LangChain itself would make this a moment later.
            run_id = kwargs["run_id"] = kwargs.get("run_id") or new_run_id()
            serialized = (args[0] if args else kwargs.get("serialized")) or {}
            tool = str(serialized.get("name") or "") if original.__name__ == "on_tool_start" else ""
            mark, name = mark_of(self), kwargs.get("name")
            agent = {"agent": name} if mark is not None and name in mark.agents else {}
            parent, (around, user_id) = self.parent_run_id, _run_here()
            naming = tree.naming(parent, user_id if around == parent else None)
            owner = tree.add(run_id, parent, mark, tool, naming=naming, **agent)
            if owner is not None and all(handler is not owner for handler in self.handlers):
                # Runs that the middleware claims have no mark to hand down. Copied, since it may be
                # the app's own manager.
                with owner.hooks.guard("callback"):
                    added = self.copy()
                    added.add_handler(owner)
                    self = added
        return original(self, *args, **kwargs)

    return start


STARTS: dict[type, dict[str, Make]] = {
    manager: dict.fromkeys(("on_chain_start", "on_tool_start", "on_retriever_start"), _noting)
    for manager in (CallbackManager, AsyncCallbackManager)
}
"""The methods by which runs start, to be wrapped."""


def _ending(original: Callable[..., Any]) -> Callable[..., Any]:
    """Note that a run ends, before its handlers hear of it."""

    @same_kind(original)
    def end(self: manager.BaseRunManager, /, *args: Any, **kwargs: Any) -> Any:
        tree.end(self.run_id)
        return original(self, *args, **kwargs)

    return end


ENDS: dict[type, dict[str, Make]] = {
    getattr(manager, f"{sort}CallbackManagerFor{kind.capitalize()}Run"): dict.fromkeys(
        (f"on_{kind}_end", f"on_{kind}_error"), _ending
    )
    for kind in ("chain", "tool", "retriever")
    for sort in ("", "Async")
}
"""The methods by which they end."""
