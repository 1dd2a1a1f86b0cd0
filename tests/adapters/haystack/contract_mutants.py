"""What can go wrong with Haystack alone, done to its adapter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ce_integrations.haystack import injection, marking, recorder
from ce_integrations.haystack.installer import HaystackAdapter
from tests.adapters.agent_mutants import overlooks
from tests.adapters.message_mutants import FAILED, overlooks_failures
from tests.adapters.mutants import BROUGHT_IN, GOVERNED, MADE, ONCE, Mutant, Patch, observes_only
from tests.adapters.session_mutants import ALONE, UNASKED, remembers_for_prompts, remembers_unasked


def takes_each_run_for_the_app_s(patch: Patch, _: object) -> None:
    """The calls of one run are requests of their own."""
    patch.setattr(injection, "_step", lambda *_: None)


def hears_no_tools(patch: Patch, _: object) -> None:
    """What tools did is not recorded."""
    patch.setattr(recorder, "_tool", lambda *_: None)
    patch.setattr(recorder, "_answered", lambda _, result: result)


def loses_ids_of_calls(patch: Patch, _: object) -> None:
    """No run of a tool is known to be the one that the model asked for."""
    patch.setattr(recorder._Calls, "claim", lambda *_: None)


def drops_calls_that_it_shortens(patch: Patch, _: object) -> None:
    """A message that is made anew has lost its tool calls."""
    to_native = HaystackAdapter.to_native

    def bare(self: Any, step: Any, native: Any) -> Any:
        made = to_native(self, step, native)
        return replace(made, _content=made._content[:1], _meta={})

    patch.setattr(HaystackAdapter, "to_native", bare)


def hears_no_pieces(patch: Patch, _: object) -> None:
    """The app's callback is told, and we are not."""
    patch.setattr(injection, "_hearing", lambda callback, *_: callback)


def adds_a_callback(patch: Patch, _: object) -> None:
    """Who asked for a whole answer gets a stream."""
    heard = injection._heard

    def adding(original: Any, *, takes: bool) -> Any:
        call = heard(original, takes=takes)
        return lambda subject, *args, **kwargs: call(
            subject, *args, **{"streaming_callback": lambda _: None, **kwargs}
        )

    patch.setattr(injection, "_heard", adding)
    patch.setitem(marking._MAKERS, "generator", injection.asks)


TOOL_ERROR = "test_an_error_of_a_tool_is_the_app_s_as_before"
LEFT = "test_a_stream_that_is_left_is_recorded_once"

OWN = [
    Mutant(takes_each_run_for_the_app_s, "agent", ONCE),
    Mutant(overlooks_failures, "agent", FAILED, "awaited", {"teller": "the run"}),
    Mutant(hears_no_tools, "agent", TOOL_ERROR, "awaited"),
    Mutant(loses_ids_of_calls, "agent", "test_the_rows_are_these_and_no_more"),
    Mutant(drops_calls_that_it_shortens, "agent", MADE, ""),
    Mutant(hears_no_pieces, "plain", LEFT, "streamed"),
    Mutant(adds_a_callback, "plain", GOVERNED, "", {"surface": "run"}),
    Mutant(overlooks("run_async"), "plain", GOVERNED, "", {"surface": "run_async"}),
    Mutant(observes_only, "plain", BROUGHT_IN, "", {"surface": "run"}),
    Mutant(remembers_unasked, "plain", UNASKED),
    Mutant(remembers_for_prompts, "plain", ALONE, "", {"surface": "run"}),
]
