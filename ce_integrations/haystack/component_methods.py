"""The methods of components that are wrapped: components have no common class, and some are made later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import WeakSet

from haystack.core.component.component import ComponentMeta

from ce_integrations.calls.helper_calls import aside
from ce_integrations.haystack.component_kinds import classes, kind_of, kind_of_class
from ce_integrations.haystack.context_injection import asks, runs
from ce_integrations.haystack.recorder import searches
from ce_integrations.install.class_adapter import Entry, SharedMark
from ce_integrations.wrapping.function_kinds import same_kind, within
from ce_integrations.wrapping.patches import Make


_MAKERS: dict[str, Make] = {
    "generator": asks,
    "retriever": searches,
    "helper": within(aside),
    "runner": runs,
}
_METHODS = ("run", "run_async", "run_async_generator")

installed: WeakSet[SharedMark] = WeakSet()
"""The marks of installations, for components that are made later."""


def definitions(subjects: Iterable[Any]) -> Iterator[tuple[type, str, Make]]:
    """The methods of all classes of components that are known by now, and of these objects' classes."""
    for cls in classes():
        yield from _definitions(cls, kind_of_class(cls))
    for subject in subjects:
        yield from _definitions(type(subject), kind_of(subject))


def _definitions(cls: type, kind: str) -> Iterator[tuple[type, str, Make]]:
    """The methods where a class has them from."""
    for base in cls.__mro__ if kind in _MAKERS else ():
        yield from ((base, name, _MAKERS[kind]) for name in _METHODS if name in vars(base))


def _making(original: Callable[..., Any]) -> Callable[..., Any]:
    """Making a component: its class may be one that nobody knew when we were installed."""

    @same_kind(original)
    def make(cls: type, /, *args: Any, **kwargs: Any) -> Any:
        component = original(cls, *args, **kwargs)
        for mark in list(installed):
            with mark.hooks.guard("component"):
                mark.patches.extend(_definitions(cls, kind_of(component)), mark)
        return component

    return make


MAKERS: tuple[Entry, ...] = ((ComponentMeta, _making, "__call__"),)
