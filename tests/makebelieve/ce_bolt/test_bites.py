"""What an adapter of a framework gets wrong that tells nobody of its tools: the contract suite catches each."""

from __future__ import annotations

from typing import Any

import pytest

from ce_integrations import hooks
from ce_integrations.asked_tools import AskedTools
from ce_integrations.recorders import RetrievalRecorder, ToolRecorder
from ce_integrations.unnamed import Unnamed
from tests.adapters.mutants import ASIDE, FOUND, NOBODY, ROWS, Mutant, Patch
from tests.adapters.push_mutants import PUSHED
from tests.makebelieve.ce_bolt import test_ce_bolt


def claims_nothing(patch: Patch, _: object) -> None:
    """Runs of tools are no model's."""
    patch.setattr(AskedTools, "claim", lambda *_: None)


def claims_any(patch: Patch, _: object) -> None:
    """Whatever waits first is what runs."""

    def first(self: Any, info: Any, *_: Any) -> Any:
        line = self._lines.get((info.request_id, info.lane_key or "")) or ()
        return next((waiting.popitem()[1] for waiting in line if waiting), None)

    patch.setattr(AskedTools, "claim", first)


def records_twins(patch: Patch, _: object) -> None:
    """An awaited run that hands on to a thread is recorded twice."""
    for recorder in (ToolRecorder, RetrievalRecorder):
        patch.setattr(recorder, "_around", lambda *_: None)


def overlooks_asides(patch: Patch, _: object) -> None:
    """What a framework asks for itself is taken for the talk."""
    patch.setattr(hooks, "is_aside", lambda: False)


def knows_no_agent_that_keeps_nothing(patch: Patch, _: object) -> None:
    """Each run of a conversation that nobody named is on its own."""
    patch.setattr(Unnamed, "number_of", lambda *_: None)


OWN = [
    Mutant(claims_nothing, "agent", ROWS),
    Mutant(claims_any, "agent", ROWS, "awaited"),
    Mutant(records_twins, "agent", ROWS, "awaited"),
    Mutant(records_twins, "agent", FOUND, "awaited"),
    Mutant(overlooks_asides, "agent", ASIDE),
    Mutant(knows_no_agent_that_keeps_nothing, "agent", NOBODY),
]


@pytest.mark.req("A-27")
@pytest.mark.parametrize(
    "mutant", [*OWN, *PUSHED], ids=lambda mutant: f"{mutant.name}-{mutant.test[5:20]}"
)
def test_a_mutant_is_caught(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant.is_caught(test_ce_bolt.TestBolt, monkeypatch)
