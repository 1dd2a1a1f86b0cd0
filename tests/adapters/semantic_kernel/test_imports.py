"""What importing and installing loads: no framework, and never what wants protobuf."""

from __future__ import annotations

import subprocess
import sys

import pytest


WITHOUT = """
import sys, warnings
warnings.simplefilter("ignore")
for name in ("google", "google.protobuf"):
    sys.modules[name] = None  # as where protobuf is not installed
"""
APP = """
import asyncio
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from openai import AsyncOpenAI
from ce_engine import MemoryStore, create_context_engine
from ce_integrations import ce_session
from ce_integrations.semantic_kernel import install_ce
from ce_integrations.testing.wire import Wire

async def main():
    engine = create_context_engine(MemoryStore())
    with Wire("A line.") as wire:
        client = AsyncOpenAI(base_url=wire.base_url, api_key="no key")
        service = OpenAIChatCompletion(ai_model_id="gpt-4", async_client=client)
        agent = ChatCompletionAgent(name="ann", service=service)
        with install_ce(agent, engine=engine) as installed, ce_session("s"):
            print(await agent.get_response("A lane?"))
            assert installed.faults == ()
        assert installed.last_report("s") is not None
    engine.sync.close()

asyncio.run(main())
try:
    import semantic_kernel.agents.orchestration.sequential
except ImportError:
    print("no orchestrations")
"""


def ran(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split("\n")[:-1]


def test_the_import_loads_no_framework_at_all() -> None:
    code = "import ce_integrations.semantic_kernel, sys; print('semantic_kernel' in sys.modules)"
    assert ran(code) == ["False"]


@pytest.mark.scenario(13)
@pytest.mark.req("A-23")
def test_an_agent_is_governed_without_protobuf() -> None:
    assert ran(WITHOUT + APP) == ["A line.", "no orchestrations"]
