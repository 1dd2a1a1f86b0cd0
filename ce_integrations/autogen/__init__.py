"""The AutoGen adapter: agents, teams, model clients and core runtimes, installed with one line."""

from __future__ import annotations

import typing

from ce_integrations.autogen.installer import install_ce
from ce_integrations.autogen.summary_llm import AutoGenLlmAdapter
from ce_integrations.install.lazy_imports import lazily


if typing.TYPE_CHECKING:
    from ce_integrations.autogen.evidence_tool import fetch_evidence_tool

__all__ = ["AutoGenLlmAdapter", "fetch_evidence_tool", "install_ce"]

__getattr__ = lazily(__name__, {"fetch_evidence_tool": "evidence_tool"})
