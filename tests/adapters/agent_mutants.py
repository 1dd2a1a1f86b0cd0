"""What adapters get wrong about who asks the model, and for what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ce_integrations.calls import hooks
from ce_integrations.identity.agent_messages import host_message
from ce_integrations.install.adapter import Adapter, Hooks
from ce_integrations.wrapping.patches import ClassPatches


Patch = pytest.MonkeyPatch
Mutate = Callable[[Patch, Adapter[Any, Any]], None]


def tells(**wrong: Any) -> Mutate:
    """What is told of a call is wrong."""

    def mutate(patch: Patch, _: Adapter[Any, Any]) -> None:
        if "purpose" in wrong:
            patch.setattr(hooks, "is_aside", lambda: False)
        begin = Hooks._begin

        def told(self: Any, natives: Any, info: Any) -> Any:
            for name, value in wrong.items():
                setattr(info, name, value)
            return begin(self, natives, info)

        patch.setattr(Hooks, "_begin", told)
        if "purpose" in wrong:
            patch.setattr("ce_integrations.calls.hooks.is_aside", lambda: False)

    mutate.__name__ = f"tells_wrong_{'_'.join(wrong)}"
    return mutate


def overlooks(*names: str) -> Mutate:
    """One of the ways to ask a model is not governed."""

    def mutate(patch: Patch, _: Adapter[Any, Any]) -> None:
        take_all = ClassPatches._take_all

        def without(self: Any, wanted: Any, held: Any) -> None:
            take_all(self, [each for each in wanted if each[1] not in names], held)

        patch.setattr(ClassPatches, "_take_all", without)

    mutate.__name__ = f"overlooks_{names[0]}"
    return mutate


def forgets_who_spoke(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What another agent said has no author and no id: it is taken for something new."""
    begin = Hooks._begin

    def nobody_s(*args: Any) -> Any:
        host = host_message(*args)
        host.message.author = host.host_id = None
        return host

    def told(self: Any, natives: Any, info: Any) -> Any:
        info.shared_history = False
        return begin(self, natives, info)

    patch.setattr("ce_integrations.calls.hooks.host_message", nobody_s)
    patch.setattr(Hooks, "_begin", told)


def forgets_retrievals(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What is found goes unnoticed."""
    patch.setattr(Hooks, "retrieval", lambda *_: None)


def forgets_where_pages_are_from(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Evidence says no origin."""
    retrieval = Hooks.retrieval

    def bare(self: Any, info: Any, hit: Any) -> None:
        documents = [replace(document, uri="") for document in hit.documents]
        retrieval(self, info, replace(hit, documents=documents))

    patch.setattr(Hooks, "retrieval", bare)


def records_retrievals_of_nobody(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What is found belongs to no run, so that no answer rests on it."""
    retrieval = Hooks.retrieval

    def lost(self: Any, info: Any, hit: Any) -> None:
        retrieval(self, replace(info, request_id="another"), hit)

    patch.setattr(Hooks, "retrieval", lost)
