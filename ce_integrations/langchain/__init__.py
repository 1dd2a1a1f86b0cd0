"""The LangChain adapter: models, chains and agents, installed with one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ce_engine import MissingDependencyError
from ce_integrations.langchain.installer import install_ce
from ce_integrations.langchain.llm import LangChainLlmAdapter


if TYPE_CHECKING:
    from ce_integrations.langchain.middleware import CEMiddleware

__all__ = ["CEMiddleware", "LangChainLlmAdapter", "install_ce"]


def __getattr__(name: str) -> object:
    """Load the middleware when it is asked for: it needs `langchain`, which nothing else does."""
    if name != "CEMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from ce_integrations.langchain.middleware import CEMiddleware  # noqa: PLC0415 - as said
    except ModuleNotFoundError as missing:
        raise MissingDependencyError(
            f"CEMiddleware needs create_agent, of langchain 1.0 or later; found no {missing.name}. "
            "Run: pip install 'langchain>=1,<2'"
        ) from missing
    return CEMiddleware
