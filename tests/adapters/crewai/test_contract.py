"""CrewAI keeps the contract of adapters, in an agent that is spoken with and in a crew."""

from __future__ import annotations

import pytest

from ce_integrations.testing.adapter_contract import AdapterContract
from tests.adapters.crewai.contract_apps import AgentApps, PlainApps


@pytest.mark.needs("talks")
@pytest.mark.req("A-23", "A-24", "A-27")
class TestAgent(AgentApps, AdapterContract):
    pass


@pytest.mark.scenario(2)
@pytest.mark.req("A-23", "A-24", "A-27")
class TestModel(PlainApps, AdapterContract):
    pass
