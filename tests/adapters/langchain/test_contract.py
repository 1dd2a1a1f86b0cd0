"""LangChain keeps the contract of adapters, in an agent and in a chain."""

from __future__ import annotations

import pytest

from ce_integrations.testing.adapter_contract import AdapterContract
from tests.adapters.langchain.contract_apps import AgentApps, ChainApps


@pytest.mark.req("A-23", "A-24", "A-27")
class TestAgent(AgentApps, AdapterContract):
    pass


@pytest.mark.req("A-23", "A-24", "A-27")
class TestChain(ChainApps, AdapterContract):
    pass
