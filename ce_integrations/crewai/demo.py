"""`ce demo` for CrewAI: an agent with a tool, and a flow that reads documents, in one session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ce_integrations.demo.documents import Package
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.demo.running import DemoApp, FrameworkDemo


class CrewAIDemo(FrameworkDemo):
    """Needs a release whose agents are handed a conversation with its roles."""

    name = "crewai"
    requires = ("crewai>=1.15,<2",)
    extra = "demo-crewai"

    @contextmanager
    def make_app(
        self,
        packages: Mapping[str, Package],
        model: QuotingModel,
        session_id: str,  # noqa: ARG002 - CrewAI has no id of a session: it is said at installation
    ) -> Iterator[DemoApp]:
        """Put the agent, the flow and their model together."""
        # Only who runs the demo pays for CrewAI's imports.
        from ce_integrations.crewai.demo_app import App, make_llm, silent  # noqa: PLC0415
        from ce_integrations.crewai.installer import install_ce  # noqa: PLC0415

        llm, name, failures = make_llm(model)
        app = App(packages, llm)
        with silent():
            yield DemoApp(
                targets=(app.agent, app.flow),
                install=install_ce,
                ask=app.ask,
                model=name,
                failures=failures,
            )


DEMO = CrewAIDemo()
