"""What can go wrong with Haystack alone, done to its adapter."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from ce_integrations.calls.agent_steps import deeper
from ce_integrations.calls.tool_methods import Outcome
from ce_integrations.haystack import component_kinds, component_methods, context_injection, recorder
from ce_integrations.haystack.installer import HaystackAdapter
from tests.adapters.agent_mutants import overlooks
from tests.adapters.mutants import (
    ASIDE,
    BROUGHT_IN,
    FOUND,
    GOVERNED,
    MADE,
    ONCE,
    ROWS,
    TEAM,
    Mutant,
    Patch,
    observes_only,
)
from tests.adapters.session_mutants import ALONE, UNASKED, remembers_for_prompts, remembers_unasked


GROUPS = {"forgets_who_spoke", "tells_wrong_lane_key_agent_shared_history"}
"""Mutants of what its agents do not do."""

PULLED = {"gathers_streams", "loses_the_last_chunk"}
"""Mutants of streams that an app reads from us: here the framework pushes them, and gives the whole."""


def takes_each_call_for_the_app_s(patch: Patch, _: object) -> None:
    """The calls of one run are requests of their own."""
    describe, numbers = context_injection._describe, count()

    def alone(call: Any) -> Any:
        natives, info = describe(call)
        info.request_id = deeper(object()).request_id + str(next(numbers))
        return natives, info

    patch.setattr(context_injection, "asks", replace(context_injection.asks, describe=alone))
    patch.setitem(component_methods._MAKERS, "generator", context_injection.asks)


def hears_other_results(patch: Patch, _: object) -> None:
    """What a tool gave is recorded as something else."""
    patch.setattr(recorder, "Outcome", lambda *_, **__: Outcome("something else"))


def drops_calls_that_it_shortens(patch: Patch, _: object) -> None:
    """A message that is made anew has lost its tool calls."""
    to_native = HaystackAdapter.to_native

    def bare(self: Any, step: Any, native: Any) -> Any:
        made = to_native(self, step, native)
        return replace(made, _content=made._content[:1], _meta={})

    patch.setattr(HaystackAdapter, "to_native", bare)


def takes_framework_s_components_for_the_app_s(patch: Patch, _: object) -> None:
    """A router's question is a part of the talk."""
    known = component_kinds.kind_of_class

    def role(cls: type) -> str:
        found = known(cls)
        return "" if found == "helper" else found

    patch.setattr("ce_integrations.haystack.component_methods.kind_of_class", role)


def overlooks_what_finds(patch: Patch, _: object) -> None:
    """A retriever is nobody's."""
    patch.setattr(component_kinds, "_QUERIES", frozenset())
    patch.setattr("ce_integrations.haystack.component_methods.kind_of_class", lambda _: "")


def names_no_tool_s_agent(patch: Patch, _: object) -> None:
    """An agent in a tool is on the line of the one that asks it."""
    patch.setattr(context_injection, "_tool_in", lambda _: "")


OWN = [
    Mutant(takes_each_call_for_the_app_s, "agent", ONCE),
    Mutant(hears_other_results, "agent", ROWS),
    Mutant(drops_calls_that_it_shortens, "agent", MADE, ""),
    Mutant(takes_framework_s_components_for_the_app_s, "plain", ASIDE),
    Mutant(overlooks_what_finds, "plain", FOUND),
    Mutant(names_no_tool_s_agent, "agent", TEAM),
    Mutant(overlooks("run_async"), "plain", GOVERNED, "", {"surface": "run_async"}),
    Mutant(observes_only, "plain", BROUGHT_IN, "", {"surface": "run"}),
    Mutant(remembers_unasked, "plain", UNASKED),
    Mutant(remembers_for_prompts, "plain", ALONE, "", {"surface": "run"}),
]
