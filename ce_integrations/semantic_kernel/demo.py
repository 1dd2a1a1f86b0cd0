"""`ce demo` for Semantic Kernel: an agent with a function, and one that reads documents, in one session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ce_integrations.demo.documents import Package
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.demo.running import DemoApp, FrameworkDemo


class SemanticKernelDemo(FrameworkDemo):
    """Needs Semantic Kernel, which brings a client of OpenAI's."""

    name = "semantic_kernel"
    requires = ("semantic-kernel>=1.45,<2",)
    extra = "demo-semantic-kernel"

    @contextmanager
    def make_app(
        self,
        packages: Mapping[str, Package],
        model: QuotingModel,
        session_id: str,
    ) -> Iterator[DemoApp]:
        """Put the agents and their service together, and run them in a loop of their own."""
        # Only who runs the demo pays for Semantic Kernel's imports.
        from ce_integrations.semantic_kernel import install_ce  # noqa: PLC0415
        from ce_integrations.semantic_kernel.demo_app import (  # noqa: PLC0415
            make_agents,
            make_service,
        )

        service, name, failures, close = make_service(model)
        agents, ask = make_agents(packages, service, session_id)
        with asyncio.Runner() as runner:
            try:
                yield DemoApp(
                    targets=tuple(agents.values()),
                    install=install_ce,
                    ask=lambda turn: runner.run(ask(turn.surface, turn.text)),
                    model=name,
                    failures=failures,
                )
            finally:
                runner.run(close())


DEMO = SemanticKernelDemo()
