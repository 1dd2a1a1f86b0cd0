"""`fetch_evidence` as a function of Semantic Kernel's."""

from __future__ import annotations

from semantic_kernel.functions import KernelPlugin, kernel_function

from ce_integrations.calls.evidence_tool import DESCRIPTION, NAME, afetch_evidence


PLUGIN = "evidence"


def fetch_evidence_tool() -> KernelPlugin:
    """A plugin by which an agent reads evidence of its own session: one for all of its users."""

    @kernel_function(name=NAME, description=DESCRIPTION)
    async def fetch(evidence_id: str, lines: str = "", find: str = "") -> str:
        return await afetch_evidence(evidence_id, lines, find)

    return KernelPlugin(PLUGIN, functions=[fetch])
