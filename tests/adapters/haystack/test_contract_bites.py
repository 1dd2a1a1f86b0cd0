"""The contract suite catches what adapters get wrong: each mutant of the real one fails the test that is for it."""

from __future__ import annotations

import pytest

from tests.adapters.budget_mutants import BUDGET
from tests.adapters.data_mutants import DATA
from tests.adapters.haystack.contract_mutants import GROUPS, OWN, PULLED
from tests.adapters.haystack.test_contract import TestAgent as Agent
from tests.adapters.haystack.test_contract import TestPipeline as Plain
from tests.adapters.message_mutants import MESSAGES
from tests.adapters.mutants import SHARED, Mutant, Patch
from tests.adapters.picture_mutants import PICTURES
from tests.adapters.push_mutants import PUSHED, STREAMED


MUTANTS = [*SHARED, *STREAMED, *PUSHED, *PICTURES, *DATA, *BUDGET, *MESSAGES, *OWN]


@pytest.mark.req("A-27")
@pytest.mark.parametrize(
    "mutant",
    [each for each in MUTANTS if each.name not in GROUPS | PULLED],
    ids=lambda mutant: mutant.name,
)
def test_a_mutant_is_caught(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant.is_caught(Agent if mutant.app == "agent" else Plain, monkeypatch)
