"""Puts the engine in front of every call of a model: `call` and `acall`, which all ways lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from crewai.llms.base_llm import BaseLLM

from ce_integrations.calls.helper_calls import aside
from ce_integrations.calls.model_methods import ModelMethodCall, governed, schema_of
from ce_integrations.calls.open_turn import note_usage
from ce_integrations.crewai.mapper import answer_of, usage_told
from ce_integrations.crewai.session import info_of, owner_of
from ce_integrations.install.adapter import CallInfo
from ce_integrations.install.class_adapter import Entry
from ce_integrations.wrapping.function_kinds import same_kind, within


_BEHIND = ("tools", "callbacks", "available_functions", "from_task", "from_agent", "response_model")
"""The arguments of a model's `call` behind the messages."""

MEMORY = "remember remember_many extract_memories recall update"
EVALUATES = "evaluate evaluate_training_data"


def _messages(argument: Any) -> list[Any]:
    if isinstance(argument, list):
        return argument
    return [{"role": "user", "content": argument}] if isinstance(argument, str) else list(argument)


def _describe(call: ModelMethodCall) -> tuple[list[Any], CallInfo]:
    model, arguments = call.subject, call.by_name(*_BEHIND)
    info = info_of(call.owner, model, arguments.get("from_task"))
    info.model, info.provider = model.model, str(getattr(model, "provider", ""))
    info.tools = [tool for tool in arguments.get("tools") or () if isinstance(tool, Mapping)]
    info.response_format = schema_of(arguments.get("response_model"))
    return _messages(call.argument), info


def _answers(result: Any) -> Iterator[tuple[dict[str, Any], None]]:
    yield answer_of(result), None


def _preflight(original: Callable[..., Any]) -> Callable[..., Any]:
    """Whether a request is too long for the model: what would go out counts, not the whole history."""

    @same_kind(original)
    def overflows(model: Any, /, messages: Any, *args: Any, **kwargs: Any) -> Any:
        too_long, owner = original(model, messages, *args, **kwargs), owner_of(model)
        if not too_long or owner is None:
            return too_long
        with owner.hooks.guard("preflight"):
            call = ModelMethodCall(owner, model, messages, args[:1], kwargs, "preflight")
            messages = owner.hooks.preview(*_describe(call))
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


_aside = within(aside)
MAKERS: tuple[Entry, ...] = (
    (BaseLLM, governed(owner_of, _describe, answers=_answers), "call acall"),
    (BaseLLM, _preflight, "is_context_window_overflowing_threshold"),
    (BaseLLM, _tracked, "_track_token_usage_internal"),
    # What asks models for itself
    ("crewai.utilities.converter.Converter", _aside, "to_pydantic ato_pydantic to_json ato_json"),
    ("crewai.tasks.llm_guardrail.LLMGuardrail", _aside, "__call__"),
    ("crewai.memory.unified_memory.Memory", _aside, MEMORY),
    ("crewai.utilities.planning_handler.CrewPlanner", _aside, "_handle_crew_planning"),
    ("crewai.utilities.reasoning_handler.AgentReasoning", _aside, "handle_agent_reasoning"),
    ("crewai.utilities.evaluators.task_evaluator.TaskEvaluator", _aside, EVALUATES),
    (
        "crewai.utilities.evaluators.crew_evaluator_handler.CrewEvaluator",
        _aside,
        "evaluate",
    ),
    ("crewai.agents.planner_observer.PlannerObserver", _aside, "observe"),
    ("crewai.agent.core.Agent", _aside, "_get_knowledge_search_query"),
    (BaseLLM, _aside, "summarize_messages"),
    ("crewai.utilities.agent_utils", _aside, "summarize_messages"),
)
"""What is wrapped of models, and of what asks them; not every release has all of it."""
