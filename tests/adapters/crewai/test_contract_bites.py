"""The contract suite catches what adapters get wrong: each mutant of the real one fails the test that is for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.budget_mutants import BUDGET
from tests.adapters.crewai.contract_mutants import OVERTAKEN, OWN
from tests.adapters.crewai.test_contract import TestAgent as Agent
from tests.adapters.crewai.test_contract import TestModel as Plain
from tests.adapters.data_mutants import DATA
from tests.adapters.message_mutants import MESSAGES
from tests.adapters.mutants import SHARED, Mutant, Patch
from tests.adapters.picture_mutants import PICTURES


def given(mutant: Mutant) -> Any:
    """Where an agent cannot be given a conversation, its mutants are not tried."""
    marks = [pytest.mark.needs("talks")] if mutant.app == "agent" else []
    return pytest.param(mutant, marks=marks, id=mutant.name)


def applies(mutant: Mutant) -> bool:
    """Whether CrewAI's apps have the test that is for it."""
    suite = Agent if mutant.app == "agent" else Plain
    has = getattr(suite, mutant.test, None) is not None and mutant.way != "streamed"
    return has and mutant.name not in OVERTAKEN


@pytest.mark.req("A-27")
@pytest.mark.parametrize(
    "mutant",
    [
        given(each)
        for each in [*SHARED, *PICTURES, *DATA, *BUDGET, *MESSAGES, *OWN]
        if applies(each)
    ],
)
def test_a_mutant_is_caught(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant.is_caught(Agent if mutant.app == "agent" else Plain, monkeypatch)
