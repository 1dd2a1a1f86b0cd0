"""The CrewAI adapter: crews, agents, flows and models, installed with one line."""

from __future__ import annotations

import typing

from ce_integrations.crewai.installer import install_ce
from ce_integrations.crewai.summary_llm import CrewAILlmAdapter
from ce_integrations.install.lazy_imports import lazily


if typing.TYPE_CHECKING:
    from ce_integrations.crewai.evidence_tool import fetch_evidence_tool

__all__ = ["CrewAILlmAdapter", "fetch_evidence_tool", "install_ce"]

__getattr__ = lazily(__name__, {"fetch_evidence_tool": "evidence_tool"})
