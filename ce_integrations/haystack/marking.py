"""What of an app is marked and wrapped: what is there, and what is made later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any
from weakref import WeakSet

from haystack import Pipeline
from haystack.core.component.component import ComponentMeta

from ce_integrations.base import Detach, Hooks
from ce_integrations.haystack.injection import asks, runs, streams
from ce_integrations.haystack.recorder import BATCHES, TOOLS, searches
from ce_integrations.haystack.roles import PLACE, classes, found, role_of, role_of_class
from ce_integrations.marks import Mark, mark_all
from ce_integrations.patches import ClassPatches, Make, all_definitions
from ce_integrations.turns import aside
from ce_integrations.wrappers import same_kind, within


_MAKERS: dict[str, Make] = {
    "generator": asks,
    "retriever": searches,
    "helper": within(aside),
    "runner": runs,
}
_METHODS = ("run", "run_async", "run_async_generator")

_patches = ClassPatches()
_installed: WeakSet[_Installed] = WeakSet()


class _Installed:
    """One installation, with the classes that are wrapped for it."""

    def __init__(self, hooks: Hooks[Any]) -> None:
        self.hooks = hooks
        self.undo = ExitStack()
        self._held: set[tuple[type, str]] = set()

    def hold(self, kinds: Iterable[tuple[type, str]]) -> None:
        """Wrap the methods of classes of such roles, where that is not done yet."""
        wanted = [each for each in _definitions(kinds) if each[:2] not in self._held]
        if wanted:
            self.undo.callback(_patches.hold(wanted, self))
            self._held.update((cls, name) for cls, name, _ in wanted)


def _definitions(kinds: Iterable[tuple[type, str]]) -> Iterator[tuple[type, str, Make]]:
    """The methods, each once, where their classes have them from."""
    seen: set[tuple[type, str]] = set()
    for kind, role in kinds:
        for cls in kind.__mro__ if role in _MAKERS else ():
            for name in _METHODS:
                if name in vars(cls) and (cls, name) not in seen:
                    seen.add((cls, name))
                    yield cls, name, _MAKERS[role]


def attach(target: object, hooks: Hooks[Any]) -> Detach:
    """Mark all that asks a model in a target, and wrap what is called; all or nothing.

    Raises:
        ConfigError: another installation governs one of them, and says something else.
    """
    subjects, made = found(target), _Installed(hooks)
    # What runs others says who governs the calls in it; a model alone cannot.
    agreed = role_of(target) == "generator"
    with made.undo as undo:
        known = classes()
        made.hold(
            [
                *((cls, role_of_class(cls)) for cls in known),
                *((type(s), role_of(s)) for s in subjects),
            ]
        )
        wanted = [*BATCHES, (Pipeline, "stream", streams), (ComponentMeta, "__call__", _making)]
        undo.callback(_patches.hold([*wanted, *all_definitions(TOOLS)], made))
        undo.callback(mark_all(subjects, Mark, PLACE, hooks, agreed=agreed))
        undo.callback(_installed.discard, made)
        _installed.add(made)
        made.undo = undo.pop_all()
    return made.undo.close


def _making(original: Callable[..., Any]) -> Callable[..., Any]:
    """Making a component: its class may be one that nobody knew when we were installed."""

    @same_kind(original)
    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        component = original(cls, *args, **kwargs)
        for installed in list(_installed):
            with installed.hooks.guard("component"):
                installed.hold([(cls, role_of(component))])
        return component

    return make
