"""The contract suite catches what adapters get wrong: each mutant of the real one fails the test that is for it."""

from __future__ import annotations

import pytest

from ce_integrations.testing.adapter_contract import AdapterContract
from tests.adapters.autogen.contract_apps import PlainApps
from tests.adapters.autogen.contract_mutants import OWN
from tests.adapters.autogen.test_contract import TestAgent as Agent
from tests.adapters.budget_mutants import BUDGET
from tests.adapters.data_mutants import DATA
from tests.adapters.message_mutants import MESSAGES
from tests.adapters.mutants import SHARED, Mutant, Patch
from tests.adapters.picture_mutants import PICTURES
from tests.adapters.push_mutants import STREAMED


class Plain(PlainApps, AdapterContract):
    pass


@pytest.mark.req("A-27")
@pytest.mark.parametrize(
    "mutant",
    [*SHARED, *STREAMED, *PICTURES, *DATA, *BUDGET, *MESSAGES, *OWN],
    ids=lambda mutant: mutant.name,
)
def test_a_mutant_is_caught(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant.is_caught(Agent if mutant.app == "agent" else Plain, monkeypatch)
