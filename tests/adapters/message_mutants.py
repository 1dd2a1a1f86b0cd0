"""What adapters get wrong about messages: what these hold beside their text, and what of a call is counted."""

from __future__ import annotations

from typing import Any

from ce_engine import Shorten
from ce_integrations.identity.session import resolve
from ce_integrations.install.adapter import Adapter, Hooks
from tests.adapters.agent_mutants import tells
from tests.adapters.mutants import Mutant, Patch


KEPT = "test_what_goes_back_holds_all_that_the_app_s_message_held"
SEES = "test_what_the_app_changes_in_its_message_is_seen"
FAILED = "test_a_result_says_that_its_tool_failed"
COMPACT = "test_compact_results_say_the_same_in_fewer_tokens"
FETCHED = "test_an_agent_reads_of_its_own_session_what_is_shown_in_part"
COUNTED = "test_over_budget_the_tools_are_counted"

EXTRAS = ("name", "additional_kwargs", "response_metadata", "source", "speaker", "_meta", "_name")
"""Fields of the frameworks' messages beside their text, which an adapter may lose."""


def loses_what_it_does_not_map(patch: Patch, adapter: Adapter[Any, Any]) -> None:
    """Names and metadata are not on the way back."""
    to_native = type(adapter).to_native

    def bare(self: Any, step: Any, native: Any) -> Any:
        made = to_native(self, step, native)
        if native is not None:
            text = self.to_schema(made).message.content
            held = made if isinstance(made, dict) else vars(made)
            for name, value in list(held.items()):
                if name in EXTRAS and text not in str(value):
                    held[name] = type(value)() if value else value
        return made

    patch.setattr(type(adapter), "to_native", bare)


def calls_failed_results_good(patch: Patch, adapter: Adapter[Any, Any]) -> None:
    """What a message says of its tool's failure is not mapped."""
    to_schema = type(adapter).to_schema

    def good(self: Any, native: Any) -> Any:
        host = to_schema(self, native)
        host.error, host.message.status = False, None
        return host

    patch.setattr(type(adapter), "to_schema", good)


def overlooks_failures(patch: Patch, _: Adapter[Any, Any]) -> None:
    """The run of a tool that failed is not heard."""
    patch.setattr(Hooks, "tool_call", lambda *_: None)


def recognises_by_identity_alone(patch: Patch, adapter: Adapter[Any, Any]) -> None:
    """`parts` gives nothing: what an app changes in its message goes unseen."""
    patch.setattr(type(adapter), "parts", lambda *_: ())
    patch.setattr(type(adapter), "alike", lambda *_: None)


def leaves_results_as_they_are(patch: Patch, adapter: Adapter[Any, Any]) -> None:
    """A result that is to go out in fewer tokens does not."""
    to_native = type(adapter).to_native

    def whole(self: Any, step: Any, native: Any) -> Any:
        is_shorter = isinstance(step, Shorten) and native is not None
        return native if is_shorter else to_native(self, step, native)

    patch.setattr(type(adapter), "to_native", whole)


def reads_as_whoever_asked_first(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Stored evidence is read for the first session that asked, whoever asks."""
    first: list[Any] = []

    def resolved(*given: Any) -> Any:
        first.append(resolve(*given))
        return first[0]

    patch.setattr("ce_integrations.calls.evidence_tool.resolve", resolved)


MESSAGES = [
    Mutant(leaves_results_as_they_are, "agent", COMPACT),
    Mutant(reads_as_whoever_asked_first, "agent", FETCHED),
    Mutant(loses_what_it_does_not_map, "agent", KEPT, ""),
    Mutant(recognises_by_identity_alone, "agent", SEES, ""),
    Mutant(tells(tools=[{}]), "agent", COUNTED),
]
