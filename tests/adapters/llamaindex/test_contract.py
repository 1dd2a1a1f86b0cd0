"""LlamaIndex keeps the contract of adapters, in an agent and in a chat engine."""

from __future__ import annotations

import pytest

from ce_integrations.testing.adapter_contract import AdapterContract
from tests.adapters.llamaindex.contract_apps import AgentApps, ChatApps


@pytest.mark.req("A-23", "A-24", "A-27")
class TestAgent(AgentApps, AdapterContract):
    pass


# Its streams are read on a thread of its own, where errors stay that the app was told, too.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.req("A-23", "A-24", "A-27")
class TestChatEngine(ChatApps, AdapterContract):
    pass
