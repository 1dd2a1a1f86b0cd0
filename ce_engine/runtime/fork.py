"""What holds locks or threads is renewed in a forked child: the threads that held them are not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary


_renewals: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""The method of each object that lives: a callback of its own would stay for as long as the process."""


def renew_after_fork(renew: Callable[[], None]) -> None:
    """Call a bound method in every forked child, for as long as its object lives."""
    _renewals[renew.__self__] = renew.__name__  # type: ignore[attr-defined]  # it is a bound method


def _in_child() -> None:
    for owner, renew in list(_renewals.items()):
        getattr(owner, renew)()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
