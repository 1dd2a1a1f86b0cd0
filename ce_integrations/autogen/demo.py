"""`ce demo` for AutoGen: an agent with a tool, and one that reads documents, in one session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ce_integrations.demo.documents import Package
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.demo.running import DemoApp, FrameworkDemo


class AutoGenDemo(FrameworkDemo):
    """Needs agentchat and a client, which are the app's own and not the adapter's."""

    name = "autogen"
    requires = (
        "autogen-agentchat>=0.7.5,<0.8",
        "autogen-core>=0.7.5,<0.8",
        "autogen-ext[openai]>=0.7.5,<0.8",
    )
    extra = "demo-autogen"

    @contextmanager
    def make_app(
        self,
        packages: Mapping[str, Package],
        model: QuotingModel,
        session_id: str,  # noqa: ARG002 - AutoGen has no id of a session: it is said at installation
    ) -> Iterator[DemoApp]:
        """Put the agents and their model together, and run them in a loop of their own."""
        # Only who runs the demo pays for AutoGen's imports.
        from ce_integrations.autogen import install_ce  # noqa: PLC0415
        from ce_integrations.autogen.demo_app import make_agents, make_client  # noqa: PLC0415

        client, name, failures = make_client(model)
        agents = make_agents(packages, client)
        with asyncio.Runner() as runner:
            try:
                yield DemoApp(
                    targets=tuple(agents.values()),
                    install=install_ce,
                    ask=lambda turn: runner.run(_ask(agents[turn.surface], turn.text)),
                    model=name,
                    failures=failures,
                )
            finally:
                runner.run(client.close())


async def _ask(agent: object, text: str) -> str:
    result = await agent.run(task=text)  # type: ignore[attr-defined]  # AutoGen is not imported yet
    return str(result.messages[-1].to_text())


DEMO = AutoGenDemo()
