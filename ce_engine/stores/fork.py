"""Locks and files are in order on both sides of a `fork`."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    def before_fork(self) -> None:
        """Come to rest and stay so: the child gets a copy of what is there now."""
        ...

    def after_fork(self, *, child: bool) -> None:
        """Go on; in the child there are no threads but the one that forked."""
        ...


_stores: WeakSet[Forkable] = WeakSet()
_resting: list[Forkable] = []


def survive_fork(store: Forkable) -> None:
    """Have `store` told of every fork for as long as it lives."""
    _stores.add(store)


def _before() -> None:
    _resting[:] = list(_stores)
    for store in _resting:
        store.before_fork()


def _after(*, child: bool) -> None:
    for store in reversed(_resting):
        store.after_fork(child=child)
    _resting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(child=False),
        after_in_child=lambda: _after(child=True),
    )
