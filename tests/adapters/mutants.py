"""What adapters get wrong, done to a real one of whatever framework: the contract suite must catch each."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from ce_engine import Message, Role, RuntimeConfig, StoreConfig
from ce_integrations.calls.governed_call import GovernedCall
from ce_integrations.calls.streamed_answer import StreamedAnswer
from ce_integrations.install.adapter import Adapter, Hooks, Turn, Way
from ce_integrations.testing import adapter_ends, side_by_side
from ce_integrations.testing.adapter_contract import AdapterContract
from ce_integrations.testing.side_by_side import SideBySide
from ce_integrations.wrapping.guard import Guard, _Step
from tests.adapters.agent_mutants import (
    forgets_retrievals,
    forgets_where_pages_are_from,
    forgets_who_spoke,
    records_retrievals_of_nobody,
    tells,
)
from tests.adapters.install_mutants import (
    FORGOTTEN,
    installs_twice,
    the_first_takes_all,
    the_last_takes_none,
)
from tests.adapters.session_mutants import (
    forgets_its_answers,
    forgets_where_the_app_asked,
    leaks_out_of_generators,
    mixes_sessions,
    names_what_nobody_named,
    shares_what_nobody_named,
)
from tests.adapters.tool_mutants import (
    calls_errors_of_tools_results,
    fails_after_a_tool,
    forgets_which_call_a_result_answers,
    has_words_of_its_own_for_results,
    looks_at_nothing,
    prepares_where_it_looks,
)


Patch = pytest.MonkeyPatch
Mutate = Callable[[Patch, Adapter[Any, Any]], None]
Kind = Literal["whole", "awaited", "streamed", "pushed", ""]

WAYS: dict[str, tuple[Way, ...]] = {
    "whole": ("sync", "async"),
    "awaited": ("async",),
    "streamed": ("stream", "astream"),
    "pushed": ("push", "apush"),
}
"""How a mutant is asked: in the first of these ways that the framework has; `""` where a test has none."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault of adapters, and the test that is for it.

    Attributes:
        app: the kind of app that shows it: an agent with tools, or a model and nothing else.
    """

    mutate: Mutate
    app: Literal["agent", "plain"]
    test: str
    way: Kind = "whole"
    given: dict[str, Any] = field(default_factory=dict)
    deadline_s: float = 10
    """How long the engine waits for its store: where it holds up the app's loop, the test waits as long."""

    @property
    def name(self) -> str:
        return self.mutate.__name__

    def is_caught(self, suite: type[AdapterContract], patch: Patch) -> None:
        """See that the mutant fails the test, and that the real adapter passes it: a `Test...` shows that itself."""
        gc.collect()  # what another test attached by hand holds the classes until then
        given = dict(self.given)
        if self.way:
            able = suite.adapter.capabilities.ways
            given["way"] = next(way for way in WAYS[self.way] if way in able)
        if not suite.__name__.startswith("Test"):
            _run(suite, self.test, given)
        patch.setattr(adapter_ends, "TIMEOUT", 1)
        store = StoreConfig(deadline_s=self.deadline_s, breaker_s=0.05)
        patch.setattr(side_by_side, "PATIENT", RuntimeConfig(store=store))
        self.mutate(patch, suite.adapter)
        try:
            with pytest.raises((AssertionError, TimeoutError)):
                _run(suite, self.test, given)
        finally:
            while FORGOTTEN:
                FORGOTTEN.pop()()


def _run(suite: type[AdapterContract], test: str, given: dict[str, Any]) -> None:
    case = suite()
    with SideBySide(case) as trial:
        getattr(case, test)(trial, **given)


def replaced(name: str, change: Callable[..., Any]) -> Mutate:
    """What `Hooks` would send, changed: `change(sent, adapter)`."""

    def mutate(patch: Patch, adapter: Adapter[Any, Any]) -> None:
        natives_of = Hooks._natives

        def changed(self: Any, natives: Any, prepared: Any) -> Any:
            return change(natives_of(self, natives, prepared), natives, adapter)

        patch.setattr(Hooks, "_natives", changed)

    mutate.__name__ = name
    return mutate


def _first(adapter: Adapter[Any, Any], native: Any) -> Message:
    """What a native stands for, or the first message of several."""
    return adapter.map_message(adapter.split(native)[0])


def _without_a_result(sent: list[Any], _: Any, adapter: Adapter[Any, Any]) -> list[Any]:
    """A result is left out, and its call is not."""
    results = [n for n, each in enumerate(sent) if _first(adapter, each).role is Role.TOOL]
    return [each for n, each in enumerate(sent) if n not in results[:1]]


def _shuffled(sent: list[Any], _: Any, adapter: Adapter[Any, Any]) -> list[Any]:
    """Whole pairs go out, in another order."""
    at = [n for n, each in enumerate(sent) if _first(adapter, each).tool_calls]
    if len(at) < 2:
        return sent
    (first, second), end = at[-2:], len(sent)
    return [*sent[:first], *sent[second:end], *sent[first:second]]


def _into_the_list(sent: list[Any], natives: list[Any], _: Any) -> list[Any]:
    natives[:] = sent
    return natives


observes_only = replaced("observes_only", lambda _, natives, __: natives)
splits_a_pair = replaced("splits_a_pair", _without_a_result)
shuffles = replaced("shuffles", _shuffled)
changes_the_app_s_list = replaced("changes_the_app_s_list", _into_the_list)


def rebuilds_always(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Copies go out where nothing changed."""
    ready = Hooks._ready

    def rebuilt(self: Any, *args: Any) -> Any:
        sent, turn = ready(self, *args)
        return [copy.copy(native) for native in sent], turn

    patch.setattr(Hooks, "_ready", rebuilt)


def forgets_to_detach(patch: Patch, adapter: Adapter[Any, Any]) -> None:
    """What was attached stays."""
    attach = type(adapter).attach

    def attached(self: Any, target: Any, hooks: Any) -> Any:
        FORGOTTEN.append(attach(self, target, hooks))
        return lambda: None

    patch.setattr(type(adapter), "attach", attached)


def drops_the_guard(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Our faults reach the app."""
    patch.setattr(Guard, "swallows", lambda *_: False)


def awaits_on_the_app_s_loop(patch: Patch, _: Adapter[Any, Any]) -> None:
    """An async app's loop is blocked while we wait."""

    async def blocking(self: Any, natives: Any, info: Any) -> Any:
        return Hooks.before_model(self, natives, info)

    patch.setattr(Hooks, "abefore_model", blocking)


def commits_on_the_app_s_loop(patch: Patch, _: Adapter[Any, Any]) -> None:
    """An async app's loop is blocked while its answer is recorded."""

    async def blocking(self: Any, turn: Any, native: Any, usage: Any = None) -> None:
        Hooks.after_model(self, turn, native, usage)

    patch.setattr(Hooks, "aafter_model", blocking)


def fails_on_the_app_s_loop(patch: Patch, _: Adapter[Any, Any]) -> None:
    """An async app's loop is blocked while an error is recorded."""

    async def blocking(self: Any, turn: Any, error: Any, text: str = "") -> None:
        Hooks.failed(self, turn, error, text)

    patch.setattr(Hooks, "afailed", blocking)


def ignores_async(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What is awaited goes out as it is."""

    async def passed(self: Any, invoke: Any, *_: Any) -> Any:
        return await invoke(self.inputs)

    patch.setattr(GovernedCall, "arun", passed)
    patch.setattr(GovernedCall, "aopen", passed)


def loses_the_last_chunk(patch: Patch, _: Adapter[Any, Any]) -> None:
    """The end of a streamed answer is not recorded."""
    whole = StreamedAnswer._whole

    def shorter(self: Any) -> Any:
        last = max(n for n, said in enumerate(self._texts) if said)
        self._turn.chunks.pop(last, None)
        del self._pieces[last:], self._texts[last:]
        return whole(self)

    patch.setattr(StreamedAnswer, "_whole", shorter)


def gathers_streams(patch: Patch, _: Adapter[Any, Any]) -> None:
    """The app gets a stream when it is at its end."""
    stream, astream = GovernedCall.stream, GovernedCall.astream

    async def gathered(*args: Any) -> Any:
        for chunk in [chunk async for chunk in astream(*args)]:
            yield chunk

    patch.setattr(GovernedCall, "stream", lambda *args: iter([*stream(*args)]))
    patch.setattr(GovernedCall, "astream", gathered)


def swallows_cancellation(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Who is cancelled leaves an open turn."""

    async def nothing(*_: Any) -> None:
        return None

    patch.setattr(Hooks, "afailed", nothing)


def swallows_the_app_s_errors(patch: Patch, _: Adapter[Any, Any]) -> None:
    """A provider's error comes as one of ours."""
    run, arun = GovernedCall.run, GovernedCall.arun

    def ours(self: Any, invoke: Any, answers: Any) -> Any:
        try:
            return run(self, invoke, answers)
        except Exception as error:
            raise RuntimeError("context engineering failed") from error

    async def awaited(self: Any, invoke: Any, answers: Any) -> Any:
        try:
            return await arun(self, invoke, answers)
        except Exception as error:
            raise RuntimeError("context engineering failed") from error

    patch.setattr(GovernedCall, "run", ours)
    patch.setattr(GovernedCall, "arun", awaited)


def puts_its_error_before_the_app_s(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What cannot be recorded of a failed call is told the app in the place of its own error."""
    patch.setattr(Guard, "__call__", lambda self, where, **_: _Step(self, where, True))


def calls_estimates_real(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What is estimated is not marked."""
    estimated = Hooks._estimated

    def unmarked(self: Any, turn: Turn, answer: Any) -> Any:
        usage = estimated(self, turn, answer)
        object.__setattr__(usage, "estimated", False)
        return usage

    patch.setattr(Hooks, "_estimated", unmarked)


def loses_usage(patch: Patch, adapter: Adapter[Any, Any]) -> None:
    """What the provider told is estimated."""
    commit = Hooks._commit
    patch.setattr(type(adapter), "map_model_usage", lambda *_: None)
    patch.setattr(Hooks, "_commit", lambda self, turn, native, _: commit(self, turn, native, None))


def changes_the_app_s_messages(patch: Patch, adapter: Adapter[Any, Any]) -> None:
    """A shorter text is written into the app's own message."""
    to_native = type(adapter).to_native

    def written(self: Any, step: Any, native: Any) -> Any:
        made = to_native(self, step, native)
        if native is None:
            return made
        held = native if isinstance(native, dict) else vars(native)
        held.update(made if isinstance(made, dict) else vars(made))
        return native

    patch.setattr(type(adapter), "to_native", written)


BOUNDS = "test_over_budget_a_long_talk_fits"
WHOLE = "test_over_budget_what_goes_out_fits_and_is_whole"
LOOP = "test_who_waits_for_the_store_does_not_hold_the_app_s_loop"
MADE = "test_a_message_of_a_plan_has_another_text_and_nothing_else"
ONCE = "test_each_model_call_is_prepared_and_recorded_once"
PREVIEW = "test_a_preview_is_what_goes_out_and_leaves_no_trace"
ROWS = "test_the_rows_are_these_and_no_more"
USAGE = "test_usage_is_the_provider_s_or_marked_as_estimated"
NOBODY = "test_what_nobody_named_is_each_app_s_own"
TEAM = "test_each_call_of_a_team_is_prepared_and_recorded_once"
AUTHORS = "test_each_answer_of_a_team_has_its_author"
GROUP = "test_what_agents_say_to_each_other_is_stored_once"
SEEN = "test_what_is_asked_of_a_group_was_seen_by_each_of_it"
ASIDE = "test_what_a_framework_asks_for_itself_is_no_part_of_the_talk"
FOUND = "test_what_is_retrieved_is_evidence_once"
GOVERNED = "test_whoever_asks_the_model_is_governed_once"
ENGINE = "test_the_engine_of_an_installation_is_its_own_for_who_installs_again"
BROUGHT_IN = "test_whoever_asks_the_model_sends_what_is_brought_in"

SHARED = [
    Mutant(observes_only, "agent", WHOLE, given={"budget": 900}),
    Mutant(observes_only, "plain", BOUNDS),
    Mutant(rebuilds_always, "agent", "test_with_room_no_message_is_rebuilt", "awaited"),
    Mutant(forgets_to_detach, "agent", "test_uninstalling_leaves_no_trace"),
    Mutant(splits_a_pair, "agent", WHOLE, given={"budget": 2500}),
    Mutant(shuffles, "agent", WHOLE, given={"budget": 2500}),
    Mutant(drops_the_guard, "agent", "test_a_fault_of_ours_is_not_the_app_s"),
    Mutant(mixes_sessions, "plain", "test_two_sessions_at_once_never_mix"),
    Mutant(awaits_on_the_app_s_loop, "plain", LOOP, "awaited", {"moment": "before the call"}, 1),
    Mutant(commits_on_the_app_s_loop, "plain", LOOP, "awaited", {"moment": "after it"}, 1),
    Mutant(fails_on_the_app_s_loop, "plain", LOOP, "awaited", {"moment": "after it failed"}, 1),
    Mutant(gathers_streams, "plain", "test_a_stream_that_breaks_gives_what_there_was", "streamed"),
    Mutant(changes_the_app_s_messages, "plain", MADE, ""),
    Mutant(changes_the_app_s_list, "plain", BOUNDS),
    Mutant(tells(tools=()), "agent", ONCE),
    Mutant(tells(request_id=""), "agent", ONCE),
    Mutant(tells(lane_key=None, agent=""), "agent", TEAM),
    Mutant(tells(agent=""), "agent", AUTHORS),
    Mutant(forgets_who_spoke, "agent", GROUP),
    Mutant(tells(lane_key=None, agent="", shared_history=False), "agent", SEEN),
    Mutant(tells(purpose="chat"), "plain", ASIDE),
    Mutant(forgets_retrievals, "plain", FOUND),
    Mutant(forgets_where_pages_are_from, "plain", FOUND),
    Mutant(records_retrievals_of_nobody, "plain", FOUND),
    Mutant(
        calls_errors_of_tools_results, "agent", "test_an_error_of_a_tool_is_the_app_s_as_before"
    ),
    Mutant(
        has_words_of_its_own_for_results,
        "agent",
        "test_an_object_that_a_tool_gives_is_evidence_as_the_model_is_told",
    ),
    Mutant(forgets_which_call_a_result_answers, "agent", ROWS),
    Mutant(fails_after_a_tool, "agent", ROWS),
    Mutant(looks_at_nothing, "agent", PREVIEW),
    Mutant(prepares_where_it_looks, "agent", PREVIEW),
    Mutant(installs_twice, "plain", "test_installing_twice_is_one_installation"),
    Mutant(installs_twice, "plain", ENGINE, ""),
    Mutant(the_first_takes_all, "plain", "test_each_who_installs_takes_away_its_own"),
    Mutant(the_last_takes_none, "plain", "test_each_who_installs_takes_away_its_own"),
    Mutant(loses_usage, "plain", USAGE),
    Mutant(calls_estimates_real, "plain", USAGE, "streamed"),
    Mutant(
        leaks_out_of_generators,
        "plain",
        "test_streams_in_generators_that_take_turns_never_mix",
        "streamed",
    ),
    Mutant(forgets_its_answers, "agent", NOBODY),
    Mutant(shares_what_nobody_named, "agent", NOBODY),
    Mutant(names_what_nobody_named, "plain", NOBODY),
    Mutant(ignores_async, "agent", ONCE, "awaited"),
    Mutant(loses_the_last_chunk, "plain", "test_the_answer_is_recorded_whole", "streamed"),
    Mutant(
        swallows_cancellation, "plain", "test_a_call_that_is_cancelled_is_recorded_once", "awaited"
    ),
    Mutant(
        swallows_the_app_s_errors, "plain", "test_an_error_of_the_provider_is_the_app_s_as_before"
    ),
    Mutant(
        puts_its_error_before_the_app_s,
        "plain",
        "test_an_error_of_the_provider_is_the_app_s_where_nothing_can_be_recorded",
    ),
]

ELSEWHERE = [
    Mutant(
        forgets_where_the_app_asked,
        "plain",
        "test_what_is_said_where_the_app_asks_holds_where_it_works",
    )
]
"""For adapters that declare it."""
