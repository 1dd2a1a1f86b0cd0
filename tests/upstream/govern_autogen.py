"""Installs on all that AutoGen's tests make, as it is made: agents, teams, model clients and runtimes."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable
from typing import Any

from ce_engine import ContextEngine, RuntimeConfig
from ce_integrations.autogen.installer import ADAPTER, PACKAGES


def govern(engine: ContextEngine, config: RuntimeConfig, _: Callable[[str], None]) -> None:
    """Install on what the adapter takes. All of it comes from abstract classes."""

    def made(cls: type, *args: Any, **kwargs: Any) -> Any:
        it = type.__call__(cls, *args, **kwargs)
        is_theirs = any(base.__module__.startswith(PACKAGES) for base in cls.__mro__)
        if is_theirs and ADAPTER.accepts(it):
            ADAPTER.install_ce(it, engine=engine, config=config)
        return it

    ABCMeta.__call__ = made  # type: ignore[method-assign]  # of classes that tests define, too
