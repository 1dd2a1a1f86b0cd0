"""LangChain: an agent with a checkpointer, whose tools tell their errors to the model, and a chain that looks up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any

from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver

from ce_integrations.testing.framework_apps import SYSTEM, Tool
from ce_integrations.testing.wire import Wire
from tests.adapters.langchain.contract_apps import AgentApps, ChainApps
from tests.adapters.langchain.releases import make_agent


class Agent(AgentApps):
    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        return make_agent(
            self.model(wire),
            [*map(_forgiving, tools)],
            system_prompt=SYSTEM,
            checkpointer=InMemorySaver(),
        )


def _forgiving(given: Tool) -> Any:
    """Without this, an error of a tool ends the app's run."""

    @wraps(given)
    def run(*args: Any, **kwargs: Any) -> str:
        try:
            return given(*args, **kwargs)
        except ValueError as error:
            raise ToolException(str(error)) from error

    made: Any = tool(run)
    made.handle_tool_error = True
    return made


AGENT, FINDER = Agent, ChainApps
