"""`ce demo` for Haystack: an Agent, and a pipeline over documents, in one session."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from ce_integrations.demo.documents import Package
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.demo.running import DemoApp, FrameworkDemo


class HaystackDemo(FrameworkDemo):
    """Needs haystack-ai 3.4, which brings its client for an endpoint."""

    name = "haystack"
    requires = ("haystack-ai>=3.4,<4",)
    extra = "demo-haystack"

    def make_app(
        self, packages: Mapping[str, Package], model: QuotingModel, session_id: str
    ) -> AbstractContextManager[DemoApp]:
        """Put the agent, the pipeline and their model together."""
        # Only who runs the demo pays for Haystack's imports.
        from ce_integrations.haystack.demo_app import running  # noqa: PLC0415

        return running(packages, model, session_id)


DEMO = HaystackDemo()
