"""The CrewAI adapter: crews, agents, flows and models, installed with one line."""

from __future__ import annotations

from ce_integrations.crewai.installer import install_ce


__all__ = ["install_ce"]
