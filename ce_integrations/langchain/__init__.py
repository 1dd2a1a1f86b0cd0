"""The LangChain adapter: models, chains and agents, installed with one line."""

from __future__ import annotations

import typing

from ce_integrations.langchain.embedder import LangChainEmbedder
from ce_integrations.langchain.installer import install_ce
from ce_integrations.langchain.summary_llm import LangChainLlmAdapter


if typing.TYPE_CHECKING:
    from ce_integrations.langchain.evidence_tool import fetch_evidence_tool
    from ce_integrations.langchain.middleware import CEMiddleware

__all__ = [
    "CEMiddleware",
    "LangChainEmbedder",
    "LangChainLlmAdapter",
    "fetch_evidence_tool",
    "install_ce",
]


# ruff: noqa: PLC0415 - what needs `langchain` is imported when it is asked for
def __getattr__(name: str) -> object:
    """Load the middleware, which alone needs more than `langchain-core`, and the tool."""
    if name == "fetch_evidence_tool":
        from ce_integrations.langchain.evidence_tool import fetch_evidence_tool

        return fetch_evidence_tool
    if name != "CEMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from ce_integrations.langchain.middleware import CEMiddleware
    except ModuleNotFoundError as missing:
        from ce_engine import MissingDependencyError

        raise MissingDependencyError(
            f"CEMiddleware needs create_agent, of langchain 1.0 or later; found no {missing.name}. "
            "Run: pip install 'langchain>=1,<2'"
        ) from missing
    return CEMiddleware
