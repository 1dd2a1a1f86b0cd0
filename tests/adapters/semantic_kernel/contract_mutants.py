"""What can go wrong with Semantic Kernel alone, done to its adapter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from semantic_kernel.contents import FunctionCallContent, FunctionResultContent

from ce_integrations.calls import agent_steps, hooks
from ce_integrations.calls import model_methods as asking
from ce_integrations.semantic_kernel import context_injection, recorder
from ce_integrations.semantic_kernel.installer import SemanticKernelAdapter
from tests.adapters.agent_mutants import overlooks
from tests.adapters.install_mutants import wraps_for_each_kind_of_adapter
from tests.adapters.mutants import (
    ASIDE,
    ELSEWHERE,
    FOUND,
    GOVERNED,
    MADE,
    ONCE,
    TEAM,
    Mutant,
    Patch,
)
from tests.adapters.session_mutants import (
    ALONE,
    UNASKED,
    remembers_for_prompts,
    remembers_unasked,
)


def records_twice(patch: Patch, _: object) -> None:
    """A connector asks for itself in each of its classes."""
    patch.setattr(asking, "is_inside", lambda _: False)
    patch.setattr(hooks, "call_around", lambda: None)


def _made_anew(patch: Patch, change: Callable[[Any], list[Any]]) -> None:
    to_native = SemanticKernelAdapter.to_native

    def bare(self: Any, step: Any, native: Any) -> Any:
        made = to_native(self, step, native)
        return made.model_copy(update={"items": change(made)})

    patch.setattr(SemanticKernelAdapter, "to_native", bare)


def drops_calls_that_it_shortens(patch: Patch, _: object) -> None:
    """A message that is made anew has lost its calls."""
    _made_anew(
        patch,
        lambda made: [item for item in made.items if not isinstance(item, FunctionCallContent)],
    )


def drops_ids_of_results(patch: Patch, _: object) -> None:
    """A result that is made anew answers nothing."""

    def without(item: Any) -> Any:
        is_result = isinstance(item, FunctionResultContent)
        return item.model_copy(update={"id": ""}) if is_result else item

    _made_anew(patch, lambda made: list(map(without, made.items)))


def gives_all_agents_one_line(patch: Patch, _: object) -> None:
    """An agent that is another one's function speaks in its line."""
    deeper = agent_steps.deeper

    def same(subject: Any, name: str = "", *rest: Any, **said: Any) -> Any:
        return deeper(subject, name if agent_steps.step_around() is None else "", *rest, **said)

    patch.setattr(context_injection, "deeper", same)
    patch.setattr(recorder, "deeper", same)


def calls_summaries_answers(patch: Patch, _: object) -> None:
    """What a reducer asks for is taken for a part of the talk."""
    patch.setattr(hooks, "is_aside", lambda: False)


def takes_distances_for_scores(patch: Patch, _: object) -> None:
    """The page that is nearest has the least."""
    patch.setattr(recorder, "_nearness", lambda score, *_: score)


OWN = [
    Mutant(records_twice, "agent", ONCE),
    Mutant(drops_calls_that_it_shortens, "agent", MADE, ""),
    Mutant(drops_ids_of_results, "agent", MADE, ""),
    Mutant(gives_all_agents_one_line, "agent", TEAM),
    Mutant(calls_summaries_answers, "agent", ASIDE),
    Mutant(takes_distances_for_scores, "agent", FOUND),
    Mutant(
        overlooks("_inner_get_streaming_chat_message_contents"),
        "agent",
        GOVERNED,
        "",
        {"surface": "service, streaming"},
    ),
    Mutant(remembers_unasked, "plain", UNASKED),
    Mutant(remembers_for_prompts, "agent", ALONE, "", {"surface": "service"}),
    Mutant(
        wraps_for_each_kind_of_adapter,
        "agent",
        "test_beside_an_adapter_derived_from_it_a_tool_is_recorded_once",
    ),
    *ELSEWHERE,
]
