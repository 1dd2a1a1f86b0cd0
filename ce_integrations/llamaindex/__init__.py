"""The LlamaIndex adapter: agents, workflows, engines and models, installed with one line."""

from __future__ import annotations

import typing

from ce_integrations.install.lazy_imports import lazily
from ce_integrations.llamaindex.embedder import LlamaIndexEmbedder
from ce_integrations.llamaindex.installer import install_ce
from ce_integrations.llamaindex.summary_llm import LlamaIndexLlmAdapter


if typing.TYPE_CHECKING:
    from ce_integrations.llamaindex.evidence_tool import fetch_evidence_tool

__all__ = ["LlamaIndexEmbedder", "LlamaIndexLlmAdapter", "fetch_evidence_tool", "install_ce"]

__getattr__ = lazily(__name__, {"fetch_evidence_tool": "evidence_tool"})
