"""The Semantic Kernel adapter: kernels, chat services, agents, chats and orchestrations, installed with one line."""

from __future__ import annotations

import typing

from ce_integrations.install.lazy_imports import lazily
from ce_integrations.semantic_kernel.installer import install_ce
from ce_integrations.semantic_kernel.summary_llm import SemanticKernelLlmAdapter


if typing.TYPE_CHECKING:
    from ce_integrations.semantic_kernel.evidence_tool import fetch_evidence_tool

__all__ = ["SemanticKernelLlmAdapter", "fetch_evidence_tool", "install_ce"]

__getattr__ = lazily(__name__, {"fetch_evidence_tool": "evidence_tool"})
