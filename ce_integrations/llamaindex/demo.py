"""`ce demo` for LlamaIndex: a FunctionAgent, and a chat engine over documents, in one session."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from ce_integrations.demo.documents import Package
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.demo.running import DemoApp, FrameworkDemo


class LlamaIndexDemo(FrameworkDemo):
    """Needs llama-index-core 0.14, and its client for an endpoint."""

    name = "llamaindex"
    requires = ("llama-index-core>=0.14.10,<0.15", "llama-index-llms-openai>=0.6.10,<0.9")
    extra = "demo-llamaindex"

    def make_app(
        self, packages: Mapping[str, Package], model: QuotingModel, session_id: str
    ) -> AbstractContextManager[DemoApp]:
        """Put the agent, the chat engine and their model together."""
        # Only who runs the demo pays for LlamaIndex's imports.
        from ce_integrations.llamaindex.demo_app import running  # noqa: PLC0415

        return running(packages, model, session_id)


DEMO = LlamaIndexDemo()
