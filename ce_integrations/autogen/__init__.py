"""The AutoGen adapter: agents, teams, model clients and core runtimes, installed with one line."""

from __future__ import annotations

from ce_integrations.autogen.installer import install_ce


__all__ = ["install_ce"]
