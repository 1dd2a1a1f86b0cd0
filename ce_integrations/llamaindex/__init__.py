"""The LlamaIndex adapter: agents, workflows, engines and models, installed with one line."""

from __future__ import annotations

from ce_integrations.llamaindex.installer import install_ce
from ce_integrations.llamaindex.llm import LlamaIndexLlmAdapter


__all__ = ["LlamaIndexLlmAdapter", "install_ce"]
