"""Caches whose keys are somebody's words: a deletion empties them all (A-30)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, cast
from weakref import WeakSet


Function = TypeVar("Function", bound=Callable[..., Any])

_caches: WeakSet[Any] = WeakSet()


def text_cache(maxsize: int) -> Callable[[Function], Function]:
    """As `functools.lru_cache`, for a function of texts; `forget_texts` empties it."""

    def decorate(function: Function) -> Function:
        cached = lru_cache(maxsize)(function)
        _caches.add(cached)
        return cast("Function", cached)

    return decorate


def forget_texts() -> None:
    """Empty the caches of texts of this process; whose words are in them they do not know."""
    for cache in list(_caches):
        cache.cache_clear()
