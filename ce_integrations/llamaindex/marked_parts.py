"""What of an app is marked: what is there, and what is made later of the model that `Settings` has."""

from __future__ import annotations

import weakref
from itertools import islice
from typing import Any

from llama_index.core.settings import Settings
from workflows import Workflow

from ce_integrations.install.class_adapter import Entry, SharedMark
from ce_integrations.llamaindex.spans import ROOTS, kind_of, mark_of
from ce_integrations.wrapping.walk import walk


PACKAGES = ("llama_index", "workflows")

NEAR = 300
"""Objects of an engine among which its model is looked for, nearest first; its nodes come after."""

_foreign: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Engines that have other models than the one of `Settings`."""


def find_parts(target: object) -> list[Any]:
    """What of a target is marked: models, and what an app calls to have them called."""
    parts: dict[int, Any] = {id(part): part for part in walk(target, PACKAGES, _steps)}
    return [part for part in parts.values() if kind_of(part) == "model" or kind_of(part) in ROOTS]


def _steps(subject: object) -> list[object]:
    """A workflow's steps stand in its class, and may close over a model."""
    if not isinstance(subject, Workflow):
        return []
    return list(subject._get_steps().values())  # noqa: SLF001 - all that tells them


def owner_of(instance: object) -> SharedMark | None:
    """Whose a root of calls is: its mark's, else that of `Settings`, where it has the model of that."""
    own = mark_of(instance)
    if own is not None or (of_all := mark_of(Settings)) is None:
        return own
    if kind_of(instance) not in ROOTS or _foreign.get(id(instance)) is instance:
        return None
    with of_all.hooks.guard("settings"):
        if any(mark_of(part) is of_all for part in islice(walk(instance, PACKAGES), NEAR)):
            of_all.put_on(instance)
            return of_all
        _foreign[id(instance)] = instance
    return None


def _watched(original: property) -> property:
    """`Settings.llm`, whose models are marked as they are set and given out."""

    def get(settings: Any) -> Any:
        model = original.__get__(settings)
        _mark(settings, model)
        return model

    def put(settings: Any, model: Any) -> None:
        original.__set__(settings, model)
        _mark(settings, vars(settings).get("_llm"))

    return property(get, put, original.fdel, original.__doc__)


def _mark(settings: Any, model: object) -> None:
    mark = mark_of(settings)
    if mark is None or mark_of(model) is not None:
        return
    with mark.hooks.guard("settings"):
        for part in find_parts(model):
            if mark_of(part) is None:
                mark.put_on(part)


MAKERS: tuple[Entry, ...] = ((type(Settings), _watched, "llm"),)
