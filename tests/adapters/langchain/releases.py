"""What the installed release of LangChain has, and an agent made in the way that it has."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from inspect import getsource
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import retriever


def _has_create_agent() -> bool:
    return find_spec("langchain") is not None and find_spec("langchain.agents.factory") is not None


def _marks_helpers() -> bool:
    if not _has_create_agent():
        return False
    from langchain.agents.middleware import summarization

    return "lc_source" in getsource(summarization)


NEEDS: dict[str, tuple[str, Callable[[], bool]]] = {
    "create_agent": ("langchain>=1", _has_create_agent),
    "event_streams": ("langchain-core>=1.7", lambda: hasattr(BaseChatModel, "stream_events")),
    "marked_helpers": ("langchain>=1.2.10", _marks_helpers),
    "retriever_tools": ("langchain-core>=1.1", lambda: "partial(" not in getsource(retriever)),
    "profiles": ("langchain-core>=1.1", lambda: "profile" in BaseChatModel.model_fields),
}
"""What tests need, as in `@pytest.mark.needs("create_agent")`: who has it, and how one sees that.

create_agent: agents with middleware. Before: `create_react_agent` of langgraph.
event_streams: streams of events of version 3. Before: none that could be governed.
marked_helpers: calls of middleware, and the messages it makes, say so.
retriever_tools: agents take what `create_retriever_tool` makes. Before: partials, whose type hints
    Python 3.11 does not give.
profiles: models know how long their input may be. Before: no budget where none is given.
"""

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
