"""What adapters get wrong about tools: how they ended, and which call they answer."""

from __future__ import annotations

from typing import Any

import pytest

from ce_engine import ToolCallStatus
from ce_integrations.install.adapter import Adapter, Hooks


Patch = pytest.MonkeyPatch


def calls_errors_of_tools_results(patch: Patch, _: Adapter[Any, Any]) -> None:
    """A tool that failed is recorded as one that did not."""
    tool_call = Hooks.tool_call

    def well(self: Any, info: Any, run: Any) -> None:
        object.__setattr__(run, "status", ToolCallStatus.SUCCESS)
        tool_call(self, info, run)

    patch.setattr(Hooks, "tool_call", well)


def forgets_which_call_a_result_answers(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Results are evidence of nothing."""
    tool_call = Hooks.tool_call

    def unlinked(self: Any, info: Any, run: Any) -> None:
        object.__setattr__(run, "host_call_id", None)
        tool_call(self, info, run)

    patch.setattr(Hooks, "tool_call", unlinked)


def has_words_of_its_own_for_results(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What a tool gave is recorded otherwise than the model is told."""
    tool_call = Hooks.tool_call

    def worded(self: Any, info: Any, run: Any) -> None:
        object.__setattr__(run, "result", f"result: {run.result}")
        tool_call(self, info, run)

    patch.setattr(Hooks, "tool_call", worded)


def fails_after_a_tool(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What hears tools fails when all is recorded: a framework may swallow that."""
    tool_call = Hooks.tool_call

    def fails(self: Any, info: Any, run: Any) -> None:
        tool_call(self, info, run)
        with self.guard("tool_call"):
            raise LookupError(run.name)

    patch.setattr(Hooks, "tool_call", fails)


def prepares_where_it_looks(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Who asks what would go out has a turn opened."""

    def preview(self: Any, natives: Any, info: Any) -> Any:
        return Hooks.before_model(self, natives, info)[0]

    async def apreview(self: Any, natives: Any, info: Any) -> Any:
        return (await Hooks.abefore_model(self, natives, info))[0]

    patch.setattr(Hooks, "preview", preview)
    patch.setattr(Hooks, "apreview", apreview)


def looks_at_nothing(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What would go out is said to be all of it."""

    async def everything(_: Any, natives: Any, __: Any) -> Any:
        return natives

    patch.setattr(Hooks, "preview", lambda _, natives, __: natives)
    patch.setattr(Hooks, "apreview", everything)
