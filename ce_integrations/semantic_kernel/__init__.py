"""The Semantic Kernel adapter: kernels, chat services, agents, chats and orchestrations, installed with one line."""

from __future__ import annotations

from ce_integrations.semantic_kernel.installer import install_ce


__all__ = ["install_ce"]
