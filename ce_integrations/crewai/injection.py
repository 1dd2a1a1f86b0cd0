"""Puts the engine in front of every call of a model: `call` and `acall`, which all ways lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pkgutil import resolve_name
from typing import Any

from crewai.llms.base_llm import BaseLLM

from ce_integrations.asking import Asked, governed, schema_of
from ce_integrations.base import CallInfo
from ce_integrations.crewai.mapper import answer_of, usage_told
from ce_integrations.crewai.scope import info_of, owner_of
from ce_integrations.patches import Make
from ce_integrations.turns import aside, note_usage
from ce_integrations.wrappers import same_kind, within


_BEHIND = ("tools", "callbacks", "available_functions", "from_task", "from_agent", "response_model")
"""The arguments of a model's `call` behind the messages."""

_ASIDE = """
utilities.converter.Converter to_pydantic ato_pydantic to_json ato_json
tasks.llm_guardrail.LLMGuardrail __call__
memory.unified_memory.Memory remember remember_many extract_memories recall update
utilities.planning_handler.CrewPlanner _handle_crew_planning
utilities.reasoning_handler.AgentReasoning handle_agent_reasoning
utilities.evaluators.task_evaluator.TaskEvaluator evaluate evaluate_training_data
agents.planner_observer.PlannerObserver observe
agent.core.Agent _get_knowledge_search_query
llms.base_llm.BaseLLM summarize_messages
utilities.agent_utils summarize_messages
"""
"""What asks models for itself: where, and by which functions; not every release has all of them."""


def _messages(given: Any) -> list[Any]:
    if isinstance(given, list):
        return given
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)


def _described(asked: Asked) -> tuple[list[Any], CallInfo]:
    model, named = asked.subject, {**dict(zip(_BEHIND, asked.rest, strict=False)), **asked.named}
    info = info_of(asked.owner, model, named.get("from_task"))
    info.model, info.provider = model.model, str(getattr(model, "provider", ""))
    info.tools = [tool for tool in named.get("tools") or () if isinstance(tool, Mapping)]
    info.response_format = schema_of(named.get("response_model"))
    return _messages(asked.given), info


def _answers(result: Any) -> Iterator[tuple[dict[str, Any], None]]:
    yield answer_of(result), None


def _preflight(original: Callable[..., Any]) -> Callable[..., Any]:
    """Whether a request is too long for the model: what would go out counts, not the whole history."""

    @same_kind(original)
    def overflows(model: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
        too_long, owner = original(model, messages, *args, **kwargs), owner_of(model)
        if not too_long or owner is None:
            return too_long
        with owner.hooks.guard("preflight"):
            asked = Asked(owner, model, messages, args[:1], kwargs, "preflight")
            messages = owner.hooks.preview(*_described(asked))
        return original(model, messages, *args, **kwargs)

    return overflows


def _tracked(original: Callable[..., Any]) -> Callable[..., Any]:
    """What a provider told of its call: in every release and provider it comes by here."""

    @same_kind(original)
    def track(model: Any, usage_data: Any) -> Any:
        if (owner := owner_of(model)) is not None:
            with owner.hooks.guard("usage"):
                note_usage(usage_told(usage_data))
        return original(model, usage_data)

    return track


def asides() -> Iterator[tuple[Any, str, Make]]:
    """What of `_ASIDE` this release has, to be wrapped."""
    for line in _ASIDE.strip().splitlines():
        where, *names = line.split()
        with suppress(ImportError, AttributeError):
            place = resolve_name(f"crewai.{where}")
            yield from ((place, name, within(aside)) for name in names if name in vars(place))


MAKERS: dict[type, dict[str, Make]] = {
    BaseLLM: {
        **dict.fromkeys(("call", "acall"), governed(owner_of, _described, answers=_answers)),
        "is_context_window_overflowing_threshold": _preflight,
        "_track_token_usage_internal": _tracked,
    }
}
