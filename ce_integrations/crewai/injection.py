"""Puts the engine in front of every call of a model: `call` and `acall`, which all ways lead to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from crewai.llms.base_llm import BaseLLM

from ce_engine import Usage
from ce_integrations.asking import Asked, governed, schema_of
from ce_integrations.base import CallInfo
from ce_integrations.crewai.mapper import answer_of
from ce_integrations.crewai.scope import (
    MAKERS as SCOPES,
    aside,
    info_of,
    metered,
    note_asked,
    owner_of,
    used_here,
)
from ce_integrations.patches import Make
from ce_integrations.usage import summed
from ce_integrations.wrappers import same_kind, within


PARAMETERS = ("tools", "callbacks", "available_functions", "from_task", "from_agent", "response_model")
"""Of a model's `call`, behind the messages."""

HELPERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("crewai.utilities.converter", "Converter", ("to_pydantic", "ato_pydantic", "to_json", "ato_json")),
    ("crewai.tasks.llm_guardrail", "LLMGuardrail", ("__call__",)),
    (
        "crewai.memory.unified_memory",
        "Memory",
        ("remember", "remember_many", "extract_memories", "recall", "update"),
    ),
    ("crewai.utilities.planning_handler", "CrewPlanner", ("_handle_crew_planning",)),
    ("crewai.utilities.reasoning_handler", "AgentReasoning", ("handle_agent_reasoning",)),
    ("crewai.utilities.evaluators.task_evaluator", "TaskEvaluator", ("evaluate", "evaluate_training_data")),
    ("crewai.agents.planner_observer", "PlannerObserver", ("observe",)),
    ("crewai.agent.core", "Agent", ("_get_knowledge_search_query",)),
    ("crewai.llms.base_llm", "BaseLLM", ("summarize_messages",)),
    ("crewai.utilities.agent_utils", "", ("summarize_messages",)),
)
"""What asks models for itself: module, class, functions; not every release has all of them."""


def _messages(given: Any) -> list[Any]:
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)


def _described(asked: Asked) -> tuple[list[Any], CallInfo]:
    model, named = asked.subject, {**dict(zip(PARAMETERS, asked.rest, strict=False)), **asked.named}
    info = info_of(asked.owner, model, named.get("from_task"))
    info.model, info.provider = model.model, str(getattr(model, "provider", ""))
    info.tools = [tool for tool in named.get("tools") or () if isinstance(tool, Mapping)]
    info.response_format = schema_of(named.get("response_model"))
    return asked.given if isinstance(asked.given, list) else _messages(asked.given), info


def _answers(result: Any) -> Iterator[tuple[dict[str, Any], Usage | None]]:
    answer, used = answer_of(result), used_here()
    told = [call["function"] | {"id": call["id"]} for call in answer.get("tool_calls", ())]
    note_asked([(call["id"], call["name"], _args(call["arguments"])) for call in told])
    yield answer, summed(used) if used else None


def _args(written: str) -> Any:
    try:
        return json.loads(written)
    except ValueError:
        return written


_governed = governed(owner_of, _described, answers=_answers)


def _asks(original: Callable[..., Any]) -> Callable[..., Any]:
    return within(metered)(_governed(original))


def _preflight(original: Callable[..., Any]) -> Callable[..., Any]:
    """Whether a request is too long for the model: the one that would go out, and not the whole history."""

    @same_kind(original)
    def overflows(model: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
        return original(model, messages, *args, **kwargs)

    return overflows


def wrapped() -> Iterator[tuple[Any, str, Make]]:
    """What is to be wrapped beside methods of models, agents and crews: (place, name, maker)."""
    for module, cls, names in HELPERS:
        try:
            place: Any = import_module(module)
        except ImportError:  # not in this release
            continue
        place = getattr(place, cls, None) if cls else place
        for name in names:
            if name in vars(place or object):
                yield place, name, aside


MAKERS: dict[type, dict[str, Make]] = {
    **SCOPES,
    BaseLLM: {
        **dict.fromkeys(("call", "acall"), _asks),
        "is_context_window_overflowing_threshold": _preflight,
    },
}
