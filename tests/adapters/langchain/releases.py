"""What the installed release of LangChain has, and an agent made in the way that it has."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from langchain_core.language_models import BaseChatModel


def _has_create_agent() -> bool:
    return find_spec("langchain") is not None and find_spec("langchain.agents.factory") is not None


NEEDS: dict[str, tuple[str, Callable[[], bool]]] = {
    "create_agent": ("langchain>=1", _has_create_agent),
    "event_streams": ("langchain-core>=1.7", lambda: hasattr(BaseChatModel, "stream_events")),
}
"""What a test may need, as in `@pytest.mark.needs("create_agent")`: who has it, and how one sees that."""

HAS = {need: seen() for need, (_, seen) in NEEDS.items()}

MODEL_NODE = "model" if HAS["create_agent"] else "agent"
"""The node of an agent that asks the model."""


def make_agent(
    model: Any, tools: list[Any], *, system_prompt: str | None = None, **kwargs: Any
) -> Any:
    """An agent: by `create_agent`, or by what came before it."""
    if HAS["create_agent"]:
        from langchain.agents import create_agent

        return create_agent(model, tools, system_prompt=system_prompt, **kwargs)
    from langgraph.prebuilt import create_react_agent

    return create_react_agent(model, tools, prompt=system_prompt, **kwargs)
