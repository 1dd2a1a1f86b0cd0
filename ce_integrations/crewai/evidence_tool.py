"""`fetch_evidence` as a tool of CrewAI's."""

from __future__ import annotations

from typing import Any

from crewai.tools import BaseTool

from ce_integrations.calls.evidence_tool import DESCRIPTION, NAME, fetch_evidence


class _FetchEvidence(BaseTool):
    name: str = NAME
    description: str = DESCRIPTION

    def _run(self, evidence_id: str, lines: str = "", find: str = "") -> str:
        return fetch_evidence(evidence_id, lines, find)


def _never(_args: Any = None, _result: Any = None) -> bool:
    """A crew's cache would give one user's evidence to the next one who asks the same."""
    return False


def fetch_evidence_tool() -> BaseTool:
    """A tool by which an agent reads evidence of its own session: one for all of its users."""
    return _FetchEvidence(cache_function=_never)
