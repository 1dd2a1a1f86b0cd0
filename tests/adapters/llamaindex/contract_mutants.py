"""What can go wrong with LlamaIndex alone, done to its adapter."""

from __future__ import annotations

from typing import Any

from ce_integrations.llamaindex import recorder, spans
from ce_integrations.llamaindex.installer import LlamaIndexAdapter
from tests.adapters.agent_mutants import overlooks
from tests.adapters.message_mutants import FAILED, overlooks_failures
from tests.adapters.mutants import BROUGHT_IN, GOVERNED, MADE, ONCE, Mutant, Patch, observes_only
from tests.adapters.session_mutants import (
    ALONE,
    UNASKED,
    remembers_for_prompts,
    remembers_unasked,
)


def takes_each_span_for_a_root(patch: Patch, _: object) -> None:
    """The calls of one run are requests of their own."""
    add = spans.Spans.add

    def alone(self: Any, id_: str, parent: Any, own: Any, tool: str = "", **told: Any) -> Any:
        return add(self, id_, None, own, tool, **told)

    patch.setattr(spans.Spans, "add", alone)


def loses_the_memory_s_session(patch: Patch, _: object) -> None:
    """A run does not say whose session its calls are."""
    patch.setattr(spans, "session_of", lambda _: {})


def hears_no_tools(patch: Patch, _: object) -> None:
    """What tools did is not recorded."""
    patch.setattr(recorder, "_ended", lambda *_: None)


def drops_calls_that_it_shortens(patch: Patch, _: object) -> None:
    """A message that is made anew has lost its tool calls."""
    to_native = LlamaIndexAdapter.to_native

    def bare(self: Any, step: Any, native: Any) -> Any:
        made = to_native(self, step, native)
        blocks = [block for block in made.blocks if block.block_type == "text"]
        return made.model_copy(update={"blocks": blocks, "additional_kwargs": {}})

    patch.setattr(LlamaIndexAdapter, "to_native", bare)


TOOL_ERROR = "test_an_error_of_a_tool_is_the_app_s_as_before"

OWN = [
    Mutant(takes_each_span_for_a_root, "agent", ONCE, "awaited"),
    Mutant(loses_the_memory_s_session, "agent", ONCE, "awaited"),
    Mutant(overlooks_failures, "agent", FAILED, "awaited", {"teller": "the run"}),
    Mutant(hears_no_tools, "agent", TOOL_ERROR, "awaited"),
    Mutant(drops_calls_that_it_shortens, "agent", MADE, ""),
    Mutant(overlooks("stream_chat"), "plain", GOVERNED, "", {"surface": "stream_chat"}),
    Mutant(observes_only, "plain", BROUGHT_IN, "", {"surface": "achat_with_tools"}),
    Mutant(remembers_unasked, "plain", UNASKED),
    Mutant(remembers_for_prompts, "plain", ALONE, "", {"surface": "chat"}),
]
