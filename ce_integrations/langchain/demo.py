"""`ce demo` for LangChain: an agent of `create_agent`, and a retrieval chain, in one session."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from ce_integrations.demo.documents import Package
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.demo.running import DemoApp, FrameworkDemo


class LangChainDemo(FrameworkDemo):
    """Needs langchain 1.4 or later, which is more than the adapter does."""

    name = "langchain"
    requires = ("langchain>=1.4,<2", "langchain-core>=1.7,<2", "langchain-openai>=1.7,<2")
    extra = "demo"

    def make_app(
        self, packages: Mapping[str, Package], model: QuotingModel, session_id: str
    ) -> AbstractContextManager[DemoApp]:
        """Put the agent, the chain and their model together."""
        # Only who runs the demo pays for LangChain's imports.
        from ce_integrations.langchain import install_ce  # noqa: PLC0415
        from ce_integrations.langchain.demo_app import make_app, make_chat  # noqa: PLC0415

        chat, name, failures = make_chat(model)
        app = make_app(packages, chat, session_id)
        demo = DemoApp(
            targets=(app.agent, app.chain),
            install=install_ce,
            ask=app.ask,
            model=name,
            failures=failures,
        )
        return nullcontext(demo)


DEMO = LangChainDemo()
