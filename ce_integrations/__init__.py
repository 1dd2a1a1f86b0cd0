"""Brings the engine into agent frameworks: what adapters share, and one package a framework."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from ce_integrations.calls.evidence_tool import fetch_evidence
    from ce_integrations.identity.session import CallInfo, ce_session
    from ce_integrations.identity.team_role import ce_role
    from ce_integrations.install.adapter import Adapter, Capabilities, Hooks, Installation, Turn
    from ce_integrations.install.registry import install_ce, load_adapters

__all__ = [
    "Adapter",
    "CallInfo",
    "Capabilities",
    "Hooks",
    "Installation",
    "Turn",
    "ce_role",
    "ce_session",
    "fetch_evidence",
    "install_ce",
    "load_adapters",
]

_HOMES = {
    "CallInfo": "identity.session",
    "ce_role": "identity.team_role",
    "ce_session": "identity.session",
    "fetch_evidence": "calls.evidence_tool",
    "install_ce": "install.registry",
    "load_adapters": "install.registry",
}


def __getattr__(name: str) -> object:
    """Load what is asked for, so that importing this package costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'install.adapter')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
