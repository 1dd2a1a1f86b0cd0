"""The contract suite catches what adapters get wrong: each mutant of the real one fails the test that is for it."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from ce_integrations.testing import adapter_ends
from ce_integrations.testing.adapter_contract import AdapterContract
from ce_integrations.testing.trial import Trial
from tests.adapters.langchain import contract_mutants as mutants
from tests.adapters.langchain.contract_apps import AgentApps, ChainApps


class Agent(AgentApps, AdapterContract):
    pass


class Chain(ChainApps, AdapterContract):
    pass


BOUNDS = "test_over_budget_a_long_talk_fits"
LOOP = "test_who_waits_for_the_store_does_not_hold_the_app_s_loop"
MADE = "test_a_message_of_a_plan_has_another_text_and_nothing_else"
ONCE = "test_each_model_call_is_prepared_and_recorded_once"
ROWS = "test_the_rows_are_these_and_no_more"

MUTANTS: list[tuple[mutants.Mutate, type[AdapterContract], str, dict[str, Any]]] = [
    (
        mutants.observes_only,
        Agent,
        "test_over_budget_what_goes_out_fits_and_is_whole",
        {"way": "sync", "budget": 900},
    ),
    (mutants.rebuilds_always, Agent, "test_with_room_no_message_is_rebuilt", {"way": "async"}),
    (mutants.forgets_to_detach, Agent, "test_uninstalling_leaves_no_trace", {"way": "sync"}),
    (
        mutants.splits_a_pair,
        Agent,
        "test_over_budget_what_goes_out_fits_and_is_whole",
        {"way": "sync", "budget": 2500},
    ),
    (
        mutants.shuffles,
        Agent,
        "test_over_budget_what_goes_out_fits_and_is_whole",
        {"way": "sync", "budget": 2500},
    ),
    (mutants.drops_the_guard, Agent, "test_a_fault_of_ours_is_not_the_app_s", {"way": "sync"}),
    (mutants.mixes_sessions, Chain, "test_two_sessions_at_once_never_mix", {"way": "sync"}),
    (
        mutants.records_twice,
        Agent,
        "test_each_model_call_is_prepared_and_recorded_once",
        {"way": "sync"},
    ),
    (
        mutants.awaits_on_the_app_s_loop,
        Chain,
        LOOP,
        {"way": "async", "moment": "before the call"},
    ),
    (mutants.commits_on_the_app_s_loop, Chain, LOOP, {"way": "astream", "moment": "after it"}),
    (mutants.fails_on_the_app_s_loop, Chain, LOOP, {"way": "async", "moment": "after it failed"}),
    (
        mutants.gathers_streams,
        Chain,
        "test_a_stream_that_breaks_gives_what_there_was",
        {"way": "stream"},
    ),
    (mutants.observes_only, Chain, BOUNDS, {"way": "sync"}),
    (mutants.changes_the_app_s_messages, Chain, MADE, {}),
    (mutants.changes_the_app_s_list, Chain, BOUNDS, {"way": "sync"}),
    (mutants.drops_calls_that_it_shortens, Agent, MADE, {}),
    (mutants.tells(tools=()), Agent, ONCE, {"way": "sync"}),
    (mutants.tells(request_id=""), Agent, ONCE, {"way": "sync"}),
    (
        mutants.tells(lane_key=None),
        Agent,
        "test_each_call_of_a_team_is_prepared_and_recorded_once",
        {"way": "sync"},
    ),
    (
        mutants.calls_errors_of_tools_results,
        Agent,
        "test_an_error_of_a_tool_is_the_app_s_as_before",
        {"way": "sync"},
    ),
    (mutants.forgets_which_call_a_result_answers, Agent, ROWS, {"way": "sync"}),
    (mutants.installs_twice, Chain, "test_installing_twice_is_one_installation", {"way": "sync"}),
    (
        mutants.loses_usage,
        Chain,
        "test_usage_is_the_provider_s_or_marked_as_estimated",
        {"way": "sync"},
    ),
    (
        mutants.ignores_async,
        Agent,
        "test_each_model_call_is_prepared_and_recorded_once",
        {"way": "async"},
    ),
    (mutants.loses_the_last_chunk, Chain, "test_the_answer_is_recorded_whole", {"way": "stream"}),
    (
        mutants.swallows_cancellation,
        Chain,
        "test_a_call_that_is_cancelled_is_recorded_once",
        {"way": "async"},
    ),
    (
        mutants.swallows_the_app_s_errors,
        Chain,
        "test_an_error_of_the_provider_is_the_app_s_as_before",
        {"way": "sync"},
    ),
    (
        mutants.calls_estimates_real,
        Chain,
        "test_usage_is_the_provider_s_or_marked_as_estimated",
        {"way": "stream"},
    ),
]


def run(suite: type[AdapterContract], test: str, given: dict[str, Any]) -> None:
    case = suite()
    with Trial(case) as trial:
        getattr(case, test)(trial, **given)


@pytest.mark.req("A-27")
@pytest.mark.parametrize(
    ("mutate", "suite", "test", "given"), MUTANTS, ids=[each[0].__name__ for each in MUTANTS]
)
def test_a_mutant_is_caught(
    mutate: mutants.Mutate,
    suite: type[AdapterContract],
    test: str,
    given: dict[str, Any],
    monkeypatch: mutants.Patch,
) -> None:
    gc.collect()  # what another test attached by hand holds the classes until then
    run(suite, test, given)
    monkeypatch.setattr(adapter_ends, "TIMEOUT", 3)
    mutate(monkeypatch)
    try:
        with pytest.raises((AssertionError, TimeoutError)):
            run(suite, test, given)
    finally:
        while mutants.FORGOTTEN:
            mutants.FORGOTTEN.pop()()
