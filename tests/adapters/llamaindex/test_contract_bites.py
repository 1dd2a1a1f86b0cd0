"""The contract suite catches what adapters get wrong: each mutant of the real one fails the test that is for it."""

from __future__ import annotations

import pytest

from tests.adapters.budget_mutants import BUDGET
from tests.adapters.data_mutants import DATA
from tests.adapters.llamaindex.contract_mutants import OWN
from tests.adapters.llamaindex.test_contract import TestAgent as Agent
from tests.adapters.llamaindex.test_contract import TestChatEngine as Plain
from tests.adapters.message_mutants import MESSAGES
from tests.adapters.mutants import SHARED, Mutant, Patch
from tests.adapters.picture_mutants import PICTURES
from tests.adapters.push_mutants import STREAMED


@pytest.mark.req("A-27")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "mutant",
    [*SHARED, *STREAMED, *PICTURES, *DATA, *BUDGET, *MESSAGES, *OWN],
    ids=lambda mutant: mutant.name,
)
def test_a_mutant_is_caught(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant.is_caught(Agent if mutant.app == "agent" else Plain, monkeypatch)
