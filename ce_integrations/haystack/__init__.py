"""The Haystack adapter: pipelines, agents and chat generators, installed with one line."""

from __future__ import annotations

import typing

from ce_integrations.haystack.installer import install_ce
from ce_integrations.haystack.summary_llm import HaystackLlmAdapter
from ce_integrations.install.lazy_imports import lazily


if typing.TYPE_CHECKING:
    from ce_integrations.haystack.evidence_tool import fetch_evidence_tool

__all__ = ["HaystackLlmAdapter", "fetch_evidence_tool", "install_ce"]

__getattr__ = lazily(__name__, {"fetch_evidence_tool": "evidence_tool"})
