"""AutoGen keeps the contract of adapters, as an agent and as a core runtime."""

from __future__ import annotations

import pytest

from ce_integrations.testing.adapter_contract import AdapterContract
from tests.adapters.autogen.contract_apps import AgentApps, CoreApps


@pytest.mark.req("A-23", "A-24", "A-27")
class TestAgent(AgentApps, AdapterContract):
    pass


@pytest.mark.req("A-23", "A-24", "A-27")
class TestCore(CoreApps, AdapterContract):
    pass
