"""Runs of a framework, as a tree: which root each belongs to, whose it is, and which tools are around it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ce_engine.runtime.scoped_variable import asked_here
from ce_integrations.calls.tool_events import MAX_RUNS, at_work
from ce_integrations.identity.session import CallInfo, as_text
from ce_integrations.identity.unnamed_sessions import Stateless
from ce_integrations.identity.user_around import Naming, order
from ce_integrations.wrapping.bounded_maps import BoundedMap


Id = TypeVar("Id", bound=Hashable)
Owner = TypeVar("Owner")


@dataclass(slots=True)
class _Run:
    root: Any
    parent: Any = None
    entry: Any = None
    order: int = 0
    naming: Naming | None = None
    owner: weakref.ref[Any] | None = None
    tools: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    conversation: Callable[[], Any] | None = None


class RunTree(Generic[Id, Owner]):
    """For each run its root, the tools around it and what is told of it, and whose it is.

    That is the outermost run's owner, held weakly.
    """

    def __init__(self) -> None:
        self._runs: BoundedMap[Id, _Run] = BoundedMap(MAX_RUNS)
        self._open: BoundedMap[Id, _Run] = BoundedMap(MAX_RUNS)
        """Those that are at work, which are not forgotten for others."""

    def add(
        self,
        /,
        run_id: Id,
        parent: Id | None,
        own: Owner | None,
        tool: str = "",
        user_id: object = None,
        naming: Naming | None = None,
        **facts: Any,
    ) -> Owner | None:
        """Note that a run, perhaps of a tool, begins, and give its owner.

        `own` counts where nobody above it has one; `user_id` is whom the app names there, and `naming`
        whom the run above names, if that was not known when it began. `facts` are fields of the `CallInfo` of
        the calls inside; what an inner run tells wins, and `None` and `""` tell nothing.
        """
        root, owner = self.of(parent, own) if parent is not None else (run_id, own)
        above = self._of(parent)
        conversation = _weakly(facts.pop("conversation", None)) or above.conversation
        tools = (*above.tools, tool) if tool else above.tools
        if (asking_context := asked_here()) is not None:
            facts["origin"] = asking_context
        merged = _innermost(above.facts, facts) if facts else above.facts
        is_inside = above.entry is not None and self._open.get(above.entry) is not None
        run = _Run(
            root,
            parent,
            # Its own where nothing of ours is at work around it: the app's run, or one in a tracer's.
            entry=above.entry if is_inside else run_id,
            order=next(order),
            owner=None if owner is None else weakref.ref(owner),
            tools=tools,
            facts=merged,
            conversation=conversation,
        )
        if self._open.get(run_id) is None:
            self._runs.pop(run_id)  # an app may give an id twice
        run = self._open.put(run_id, self._runs.put(run_id, run))
        run.naming = naming or self.naming(parent)
        run.naming = self.naming(run_id, user_id)
        return owner

    def end(self, run_id: Id) -> None:
        """Note that a run ends."""
        self._open.pop(run_id)

    def naming(self, run_id: Id | None, user_id: object = None) -> Naming | None:
        """Whom a run names, or one around it, while the outermost is at work; tasks that it left are in it no more.

        `user_id` is whom the app names in it.
        """
        run, user = self._of(run_id), as_text(user_id)
        if self._open.get(run.entry) is None:
            return None
        is_known = user is None or (run.naming is not None and run.naming[1] == user)
        return run.naming if is_known else (run.order, user)

    def info(self, run_id: Id | None, /, **facts: Any) -> CallInfo:
        """What is known of a call right in this run; `facts` is what the call tells itself.

        The tools around it, the agent and its branch (`lane_key`) name its line: an agent in a tool
        has one of its own.
        """
        run = self._of(run_id)
        merged = _innermost(run.facts, facts)
        if run.tools or at_work().subject is not None:
            merged["takes_history"] = False  # a tool's or retriever's prompts are no conversation
        line = (*run.tools, merged.get("agent"), merged.pop("lane_key", None))
        fields = {
            "request_id": str(run.root if run.root is not None else ""),
            "parent_request_id": str(run_id if run_id is not None else ""),
            "conversation": run.conversation() if run.conversation is not None else None,
            "lane_key": "/".join(filter(None, line)) or None,
            "user_id": (self.naming(run_id) or (0, None))[1],
        }
        user_id = facts.get("user_id")
        if isinstance(user_id, str) and not user_id:  # said to be nobody's
            merged["user_id"] = ""
        return CallInfo(**{**fields, **merged})

    def _of(self, run_id: Id | None) -> _Run:
        run = None if run_id is None else self._open.get(run_id) or self._runs.get(run_id)
        return run or _Run(run_id)

    def claim(self, run_id: Id, owner: Owner) -> None:
        """Make a run and the one right above it the owner's, with all that begin in them from now on.

        Where one of them has an owner already, that one stays.
        """
        for claimed_id in (run_id, self._of(run_id).parent):
            if claimed_id is not None and self.of(claimed_id)[1] is None:
                run = self._open.get(claimed_id) or self._runs.put(claimed_id, _Run(claimed_id))
                run.owner = weakref.ref(owner)

    def of(self, run_id: Id, own: Owner | None = None) -> tuple[Id, Owner | None]:
        """(root, owner) of a run."""
        run = self._of(run_id)
        owner = None if run.owner is None else run.owner()
        return run.root, owner if getattr(owner, "active", False) else own


def _innermost(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    facts = {k: v for k, v in inner.items() if v is not None and not (isinstance(v, str) and not v)}
    if "metadata" in facts and "metadata" in outer:
        facts["metadata"] = {**outer["metadata"], **facts["metadata"]}
    return {**outer, **facts}


def _weakly(value: object) -> Callable[[], Any] | None:
    if isinstance(value, Stateless):
        return lambda: value  # made for this run; it keeps an agent, no conversation
    try:
        return None if value is None else weakref.ref(value)
    except TypeError:  # it is no conversation either: `unnamed` does not know it again
        return None
