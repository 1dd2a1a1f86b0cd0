"""What can go wrong with AutoGen alone, done to its adapter."""

from __future__ import annotations

from typing import Any

from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage

from ce_integrations.autogen import agents, context_injection
from ce_integrations.autogen.installer import AutoGenAdapter
from ce_integrations.calls import agent_steps
from ce_integrations.calls import model_methods as asking
from tests.adapters.agent_mutants import overlooks
from tests.adapters.message_mutants import FAILED, calls_failed_results_good
from tests.adapters.mutants import (
    BROUGHT_IN,
    GOVERNED,
    MADE,
    ONCE,
    TEAM,
    Mutant,
    Patch,
    observes_only,
)
from tests.adapters.session_mutants import (
    ALONE,
    UNASKED,
    remembers_for_prompts,
    remembers_unasked,
)


def records_twice(patch: Patch, _: object) -> None:
    """A client asks for itself in each of its classes."""
    patch.setattr(asking, "is_inside", lambda _: False)
    patch.setattr(context_injection, "call_around", lambda: None)


def drops_calls_that_it_shortens(patch: Patch, _: object) -> None:
    """A message that is made anew has lost its tool calls."""
    to_native = AutoGenAdapter.to_native

    def bare(self: Any, step: Any, native: Any) -> Any:
        made = to_native(self, step, native)
        if isinstance(native, AssistantMessage) and not isinstance(native.content, str):
            return made.model_copy(update={"content": native.thought or ""})
        return made

    patch.setattr(AutoGenAdapter, "to_native", bare)


def drops_ids_of_results(patch: Patch, _: object) -> None:
    """A result that is made anew answers nothing."""
    to_native = AutoGenAdapter.to_native

    def bare(self: Any, step: Any, native: Any) -> Any:
        made = to_native(self, step, native)
        if isinstance(made, FunctionExecutionResultMessage):
            content = [result.model_copy(update={"call_id": ""}) for result in made.content]
            return made.model_copy(update={"content": content})
        return made

    patch.setattr(AutoGenAdapter, "to_native", bare)


def gives_all_agents_one_line(patch: Patch, _: object) -> None:
    """An agent that is another one's tool speaks in its line."""
    deeper = agent_steps.deeper

    def same(subject: Any, name: str, *rest: Any, **said: Any) -> Any:
        return deeper(subject, name if agent_steps.step_around() is None else "", *rest, **said)

    patch.setattr(agents, "deeper", same)


OWN = [
    Mutant(calls_failed_results_good, "agent", FAILED, given={"teller": "the message"}),
    Mutant(records_twice, "agent", ONCE),
    Mutant(drops_calls_that_it_shortens, "agent", MADE, ""),
    Mutant(drops_ids_of_results, "agent", MADE, ""),
    Mutant(gives_all_agents_one_line, "agent", TEAM),
    Mutant(overlooks("create_stream"), "agent", GOVERNED, "", {"surface": "create_stream"}),
    Mutant(observes_only, "agent", BROUGHT_IN, "", {"surface": "society of mind"}),
    Mutant(remembers_unasked, "plain", UNASKED),
    Mutant(remembers_for_prompts, "agent", ALONE, "", {"surface": "create"}),
]
