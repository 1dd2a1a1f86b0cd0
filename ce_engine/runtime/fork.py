"""What holds locks or threads is renewed in a forked child: the threads that held them are not there."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable


def renew_after_fork(renew: Callable[[], None]) -> None:
    """Call a bound method in every forked child, for as long as its object lives."""
    reference = weakref.WeakMethod(renew)

    def in_child() -> None:
        method = reference()
        if method is not None:
            method()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_child)
