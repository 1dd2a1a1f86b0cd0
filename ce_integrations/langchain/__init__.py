"""The LangChain adapter: models, chains and agents, installed with one line."""

from __future__ import annotations

from ce_integrations.langchain.installer import install_ce


__all__ = ["install_ce"]
