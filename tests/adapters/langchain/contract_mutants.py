"""What can go wrong with LangChain alone, done to its adapter."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel

from ce_integrations.langchain import context_injection
from ce_integrations.langchain.installer import LangChainAdapter
from tests.adapters.agent_mutants import overlooks
from tests.adapters.message_mutants import FAILED, calls_failed_results_good
from tests.adapters.mutants import BROUGHT_IN, GOVERNED, MADE, ONCE, Mutant, Patch, observes_only
from tests.adapters.session_mutants import (
    ALONE,
    UNASKED,
    remembers_for_prompts,
    remembers_unasked,
)


def records_twice(patch: Patch, _: object) -> None:
    """Each layer of a call asks for itself."""
    patch.setattr(context_injection, "is_inside", lambda _: False)
    entry = context_injection.MAKERS[BaseChatModel]

    def governed(original: Any) -> Any:
        def invoke(self: Any, given: Any, config: Any = None, **kwargs: Any) -> Any:
            call = context_injection._stream_call(self, given, config, kwargs, "invoke")
            if call is None:
                return original(self, given, config, **kwargs)
            return call.run(
                lambda goes: original(self, goes[0], config, **kwargs),
                lambda answer: [(answer, None)],
            )

        return invoke

    patch.setitem(entry, "invoke", governed)


def drops_calls_that_it_shortens(patch: Patch, _: object) -> None:
    """A message that is made anew has lost its tool calls."""
    to_native = LangChainAdapter.to_native

    def bare(self: Any, step: Any, native: Any) -> Any:
        made = to_native(self, step, native)
        return made.model_copy(update={"tool_calls": []}) if hasattr(made, "tool_calls") else made

    patch.setattr(LangChainAdapter, "to_native", bare)


OWN = [
    Mutant(calls_failed_results_good, "agent", FAILED, given={"teller": "the message"}),
    Mutant(records_twice, "agent", ONCE),
    Mutant(drops_calls_that_it_shortens, "agent", MADE, ""),
    Mutant(overlooks("stream"), "plain", GOVERNED, "", {"surface": "stream"}),
    Mutant(observes_only, "plain", BROUGHT_IN, "", {"surface": "ainvoke"}),
    Mutant(remembers_unasked, "plain", UNASKED),
    Mutant(remembers_for_prompts, "plain", ALONE, "", {"surface": "invoke"}),
]
