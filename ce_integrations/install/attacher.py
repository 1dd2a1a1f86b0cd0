"""What wires a framework's objects to hooks: the part of an adapter that an installation needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from ce_integrations.calls.hooks import Hooks
from ce_integrations.mapping.message_adapter import MessageAdapter


Target = TypeVar("Target")
Native = TypeVar("Native")

Detach = Callable[[], None]
"""Undoes exactly what `attach` did."""


class Attacher(MessageAdapter[Native], ABC, Generic[Target, Native]):
    """Attaches hooks to a target, and says whether they are still there."""

    @abstractmethod
    def attach(self, target: Target, hooks: Hooks[Native]) -> Detach:
        """Wire the framework to the hooks; all or nothing."""

    def is_attached(self, target: Target) -> bool:  # noqa: ARG002 - for those who can tell
        """Whether what `attach` did is still there: an app may have put other things in its place."""
        return True
