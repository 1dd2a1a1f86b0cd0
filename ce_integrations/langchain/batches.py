"""Batches of an app: their items run one after the other or at once, and none is another one's history."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from langchain_core.runnables import (
    RouterRunnable,
    Runnable,
    RunnableBinding,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.retry import RunnableRetry

from ce_engine.runtime.context_variables import unset
from ce_integrations.wrapping.function_kinds import run_within, same_kind
from ce_integrations.wrapping.patches import Make


_WAYS = [f"{a}batch{done}" for a in ("", "a") for done in ("", "_as_completed")]
_KINDS = (
    Runnable,
    RouterRunnable,
    RunnableBinding,
    DynamicRunnable,
    RunnableRetry,
    RunnableSequence,
    RunnableWithFallbacks,
)

_batch: ContextVar[str] = ContextVar("ce_langchain_batch", default="")


def batch_around() -> str:
    """Names the outermost batch that runs around us; empty where none does."""
    return _batch.get()


def _batching(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        around = partial(_inside, _batch.get() or secrets.token_hex(8))
        return run_within(around, original, (self, *args), kwargs)

    return call


@contextmanager
def _inside(batch: str) -> Iterator[None]:
    token = _batch.set(batch)
    try:
        yield
    finally:
        unset(_batch, token)


def entries() -> Iterator[tuple[type, str, Make]]:
    """The methods by which an app asks several things at once, to be wrapped."""
    for cls in {base for kind in _KINDS for base in kind.__mro__}:
        for name in _WAYS:
            if name in vars(cls):
                yield cls, name, _batching
