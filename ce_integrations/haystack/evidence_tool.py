"""`fetch_evidence` as a tool of Haystack's."""

from __future__ import annotations

from haystack.tools.tool import Tool

from ce_integrations.calls.evidence_tool import DESCRIPTION, NAME, PARAMETERS, fetch_evidence


def fetch_evidence_tool() -> Tool:
    """A tool by which an agent reads evidence of its own session: one for all of its users."""
    return Tool(NAME, DESCRIPTION, dict(PARAMETERS), fetch_evidence)
