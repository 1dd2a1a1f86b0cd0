"""The Haystack adapter: pipelines, agents and chat generators, installed with one line."""

from __future__ import annotations

from ce_integrations.haystack.installer import install_ce


__all__ = ["install_ce"]
