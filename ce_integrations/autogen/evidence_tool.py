"""`fetch_evidence` as a tool of AutoGen's."""

from __future__ import annotations

from autogen_core.tools import FunctionTool

from ce_integrations.calls.evidence_tool import DESCRIPTION, NAME, afetch_evidence


def fetch_evidence_tool() -> FunctionTool:
    """A tool by which an agent reads evidence of its own session: one for all of its users."""
    return FunctionTool(afetch_evidence, DESCRIPTION, name=NAME)
