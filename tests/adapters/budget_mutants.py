"""What adapters get wrong about the budget."""

from __future__ import annotations

from typing import Any

import pytest

from ce_engine import Keep, Role, Shorten
from ce_engine.sessions.bodies import LaneBodies, OwnList
from ce_engine.turns.report.over_budget import OverBudgetLog
from ce_integrations.calls.helper_calls import is_aside
from ce_integrations.install.adapter import Adapter, Hooks
from tests.adapters.agent_mutants import forgets_retrievals
from tests.adapters.mutants import Mutant


Patch = pytest.MonkeyPatch


def leaves_the_system_message(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What the system's message says goes out whole, whatever the plan."""
    natives = Hooks._natives

    def whole(self: Any, given: Any, prepared: Any) -> Any:
        messages = prepared.call.messages
        prepared.plan = [
            Keep(step.index)
            if isinstance(step, Shorten) and messages[step.index].message.role is Role.SYSTEM
            else step
            for step in prepared.plan
        ]
        return natives(self, given, prepared)

    patch.setattr(Hooks, "_natives", whole)


def lets_helpers_pass(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What a framework asks for itself is nobody's."""
    begin = Hooks._begin

    def passes(self: Any, natives: Any, info: Any) -> Any:
        return None if info.purpose == "helper" or is_aside() else begin(self, natives, info)

    patch.setattr(Hooks, "_begin", passes)


def goes_over_quietly(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Nobody hears of what goes out over the budget."""
    patch.setattr(OverBudgetLog, "tell", lambda *_: None)


def repeats_itself(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Every call over the budget is a line in the log."""
    tell = OverBudgetLog.tell

    def again(self: Any, *told: Any) -> None:
        self._told.clear()
        tell(self, *told)

    patch.setattr(OverBudgetLog, "tell", again)


def forgets_what_was_sent(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Every body is the first of its lane."""
    patch.setattr(LaneBodies, "follow", lambda *_: None)
    patch.setattr(OwnList, "follow", lambda *_: None)


def takes_all_for_new(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Without us nothing of a call would have been in a cache."""
    patch.setattr(OwnList, "follow", lambda *_: 0)


BUDGET = [
    Mutant(forgets_what_was_sent, "plain", "test_with_room_a_call_costs_what_it_costs_without_us"),
    Mutant(
        takes_all_for_new,
        "agent",
        "test_over_budget_what_it_costs_without_us_is_what_the_app_sends_then",
    ),
    Mutant(
        forgets_retrievals,
        "plain",
        "test_over_budget_what_was_retrieved_is_shortened_where_it_stands",
    ),
    Mutant(
        leaves_the_system_message,
        "plain",
        "test_over_budget_what_was_retrieved_is_shortened_where_it_stands",
    ),
    Mutant(
        lets_helpers_pass,
        "plain",
        "test_over_budget_a_framework_s_own_call_loses_the_oldest_of_the_talk",
    ),
    Mutant(goes_over_quietly, "agent", "test_what_goes_out_over_its_budget_is_told"),
    Mutant(repeats_itself, "plain", "test_what_goes_out_over_its_budget_is_told"),
]
