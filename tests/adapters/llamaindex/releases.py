"""What the installed release of LlamaIndex has, and an agent made in the way that it has."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from packaging.version import Version


CORE = Version(version("llama-index-core"))

HAS = {
    "agents_that_remember": Version("0.13") <= CORE,
    "memory_blocks": Version("0.14") <= CORE,
    "parallel_calls": Version("0.14") <= CORE,
    "call_blocks": Version("0.14") <= CORE,
    "tools_in_context": Version("0.14") <= CORE,
    "contexts_that_remember": Version("0.14") > CORE,
    "chat_stores_as_json": Version("0.14") <= CORE,
}
"""What tests need, as in `@pytest.mark.needs("call_blocks")`.

agents_that_remember: before, an agent with a system prompt forgets its memory in every run, unless a
    workflow runs it.
memory_blocks: what a memory's blocks ask for is what a provider takes.
parallel_calls: an agent that does not stream runs all the tools that are asked for at once. Before:
    the first, and it takes the others out of the model's answer.
call_blocks: calls stand in blocks of a message. Before: in `additional_kwargs` alone.
tools_in_context: a tool that is no coroutine runs in its run's context. Before: in none.
contexts_that_remember: a `Context` that is handed from run to run has the memory in it.
chat_stores_as_json: a `SimpleChatStore` can be written as JSON. Before: not with pydantic 2.12 or newer.
"""


def make_agent(model: Any, tools: list[Any], system_prompt: str, *, name: str = "Agent") -> Any:
    """An agent with tools: by itself or, where that forgets, in a workflow."""
    told: dict[str, Any] = {"llm": model, "tools": tools, "system_prompt": system_prompt}
    if HAS["agents_that_remember"]:
        return FunctionAgent(name=name, timeout=60, **told)
    agent = FunctionAgent(name=name, description="Answers.", **told)
    return AgentWorkflow(agents=[agent], root_agent=name, timeout=60)
