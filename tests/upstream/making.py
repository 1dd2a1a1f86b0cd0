"""Installs on all that a framework's tests make, as it is made."""

from __future__ import annotations

from abc import ABCMeta
from contextlib import suppress
from typing import Any, cast

from ce_engine import ContextEngine, RuntimeConfig, UnsupportedTargetError
from ce_integrations.install.adapter import Adapter


def install_on_all(
    adapter: Adapter[Any, Any],
    packages: tuple[str, ...],
    engine: ContextEngine,
    config: RuntimeConfig,
) -> None:
    """Install on what the adapter takes, and is made of a class of the packages, or of one of those.

    Whatever an adapter takes comes from abstract classes: those that tests define are among them.
    """

    def made(cls: type, *args: Any, **kwargs: Any) -> Any:
        it = type.__call__(cls, *args, **kwargs)
        is_theirs = any(base.__module__.startswith(packages) for base in cls.__mro__)
        if is_theirs and adapter.accepts(it):
            with suppress(UnsupportedTargetError):  # a tool that asks no model
                adapter.install_ce(it, engine=engine, config=config)
        return it

    cast("Any", ABCMeta).__call__ = made
