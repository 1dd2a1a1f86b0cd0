"""Haystack keeps the contract of adapters, in an agent and in a pipeline."""

from __future__ import annotations

import pytest

from ce_integrations.testing.adapter_contract import AdapterContract
from tests.adapters.haystack.contract_apps import AgentApps, PipelineApps


@pytest.mark.req("A-23", "A-24", "A-27")
class TestAgent(AgentApps, AdapterContract):
    pass


@pytest.mark.req("A-23", "A-24", "A-27")
class TestPipeline(PipelineApps, AdapterContract):
    pass
