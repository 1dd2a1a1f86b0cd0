"""Semantic Kernel keeps the contract of adapters, as an agent with threads and as a service with a history."""

from __future__ import annotations

import pytest

from ce_integrations.testing.adapter_contract import AdapterContract
from tests.adapters.semantic_kernel.contract_apps import AgentApps, ServiceApps


@pytest.mark.req("A-23", "A-24", "A-27")
class TestAgent(AgentApps, AdapterContract):
    pass


@pytest.mark.req("A-23", "A-24", "A-27")
class TestService(ServiceApps, AdapterContract):
    pass
