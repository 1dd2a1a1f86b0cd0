"""`fetch_evidence` as a tool of LlamaIndex's."""

from __future__ import annotations

from llama_index.core.tools import FunctionTool

from ce_integrations.calls.evidence_tool import DESCRIPTION, NAME, afetch_evidence, fetch_evidence


def fetch_evidence_tool() -> FunctionTool:
    """A tool by which an agent reads evidence of its own session: one for all of its users."""
    return FunctionTool.from_defaults(
        fetch_evidence, name=NAME, description=DESCRIPTION, async_fn=afetch_evidence
    )
