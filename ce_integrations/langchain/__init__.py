"""The LangChain adapter: models, chains and agents, installed with one line."""

from __future__ import annotations

from ce_integrations.langchain.installer import install_ce
from ce_integrations.langchain.llm import LangChainLlmAdapter


__all__ = ["LangChainLlmAdapter", "install_ce"]
