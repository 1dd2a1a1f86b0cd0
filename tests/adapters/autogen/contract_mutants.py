"""What can go wrong with AutoGen alone, done to its adapter."""

from __future__ import annotations

from typing import Any

from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage

from ce_integrations.autogen import injection, recorder, steps
from ce_integrations.autogen.installer import AutoGenAdapter
from ce_integrations.runs import Work
from tests.adapters.mutants import MADE, ONCE, ROWS, TEAM, Mutant, Patch


def records_twice(patch: Patch, _: object) -> None:
    """A client asks for itself in each of its classes."""
    patch.setattr(injection, "is_inside", lambda _: False)
    patch.setattr(injection, "call_around", lambda: None)


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


def records_a_tool_in_its_workbench_and_in_itself(patch: Patch, _: object) -> None:
    """A run is counted by everybody who hears of it."""
    patch.setattr(recorder, "at_work", Work)


def gives_all_agents_one_line(patch: Patch, _: object) -> None:
    """An agent that is another one's tool speaks in its line."""
    deeper = steps.deeper

    def same(around: Any, subject: Any, name: str, *rest: Any, **said: Any) -> Any:
        return deeper(around, subject, name if around is None else "", *rest, **said)

    patch.setattr(steps, "deeper", same)


OWN = [
    Mutant(records_twice, "agent", ONCE),
    Mutant(drops_calls_that_it_shortens, "agent", MADE, ""),
    Mutant(drops_ids_of_results, "agent", MADE, ""),
    Mutant(records_a_tool_in_its_workbench_and_in_itself, "agent", ROWS),
    Mutant(gives_all_agents_one_line, "agent", TEAM),
]
