"""What can go wrong with CrewAI alone, done to its adapter."""

from __future__ import annotations

from typing import Any

from ce_engine import Role
from ce_integrations.calls import agent_steps, hooks
from ce_integrations.crewai import context_injection, session
from ce_integrations.crewai.installer import CrewAIAdapter
from tests.adapters.agent_mutants import overlooks
from tests.adapters.message_mutants import FAILED, overlooks_failures
from tests.adapters.mutants import ASIDE, MADE, ONCE, TEAM, USAGE, Mutant, Patch
from tests.adapters.session_mutants import UNASKED, remembers_unasked


def drops_calls_that_it_shortens(patch: Patch, _: object) -> None:
    """A message that is made anew has lost its tool calls."""
    to_native = CrewAIAdapter.to_native

    def bare(self: Any, step: Any, native: Any) -> Any:
        made = to_native(self, step, native)
        return {key: value for key, value in made.items() if key != "tool_calls"}

    patch.setattr(CrewAIAdapter, "to_native", bare)


def drops_ids_of_results(patch: Patch, _: object) -> None:
    """A result that is made anew answers nothing."""
    to_native = CrewAIAdapter.to_native

    def bare(self: Any, step: Any, native: Any) -> Any:
        made = dict(to_native(self, step, native))
        if made["role"] == Role.TOOL:
            made["tool_call_id"] = ""
        return made

    patch.setattr(CrewAIAdapter, "to_native", bare)


def gives_all_agents_one_line(patch: Patch, _: object) -> None:
    """A coworker speaks in the line of the agent that asks."""
    deeper = agent_steps.deeper

    def same(subject: Any, name: str = "", *rest: Any, **said: Any) -> Any:
        return deeper(subject, "" if name == "expert" else name, *rest, **said)

    patch.setattr(session, "deeper", same)


def hears_no_usage(patch: Patch, _: object) -> None:
    """What the provider told is estimated."""
    patch.setattr(context_injection, "usage_told", lambda _: None)


def takes_helpers_for_the_talk(patch: Patch, _: object) -> None:
    """What the framework asks for itself is a part of the talk."""
    patch.setattr(hooks, "is_aside", lambda: False)


OVERTAKEN = {"loses_usage", "ignores_async", "tells_wrong_purpose", "lets_helpers_pass"}
"""Mutants of others whose place is elsewhere here: usage and asides are told inside calls; agents await threads."""

OWN = [
    Mutant(takes_helpers_for_the_talk, "plain", ASIDE),
    Mutant(overlooks_failures, "agent", FAILED, given={"teller": "the run"}),
    Mutant(drops_calls_that_it_shortens, "agent", MADE, ""),
    Mutant(drops_ids_of_results, "agent", MADE, ""),
    Mutant(gives_all_agents_one_line, "agent", TEAM),
    Mutant(hears_no_usage, "plain", USAGE),
    Mutant(overlooks("acall"), "plain", ONCE, "awaited"),
    Mutant(remembers_unasked, "agent", UNASKED),
]
