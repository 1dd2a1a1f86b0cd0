"""`fetch_evidence` as a tool of LangChain's."""

from __future__ import annotations

from langchain_core.tools import BaseTool, StructuredTool

from ce_integrations.calls.evidence_tool import DESCRIPTION, NAME, afetch_evidence, fetch_evidence


def fetch_evidence_tool() -> BaseTool:
    """A tool by which an agent reads evidence of its own session: one for all of its users."""
    return StructuredTool.from_function(
        fetch_evidence, afetch_evidence, name=NAME, description=DESCRIPTION
    )
