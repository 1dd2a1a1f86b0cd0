"""What installations get wrong, done to the real ones: the contract suite must catch each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ce_integrations.install import installation
from ce_integrations.install.adapter import Adapter
from ce_integrations.install.class_adapter import ClassAdapter
from ce_integrations.install.installation import Wiring
from ce_integrations.wrapping.patches import ClassPatches


Patch = pytest.MonkeyPatch

FORGOTTEN: list[Callable[[], None]] = []
"""What a mutant did not do, to be done after its test."""


def installs_twice(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What is there is not found: who installs again wires the target again."""

    def anew(*args: Any) -> Wiring[Any, Any]:
        wiring = Wiring(*args)
        FORGOTTEN.append(wiring.detach)
        return wiring

    patch.setattr(installation, "_wired", anew)


def the_first_takes_all(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Who goes first takes it away from the others."""
    patch.setattr(Wiring, "release", Wiring.detach)


def the_last_takes_none(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Everybody has gone, and what they installed stays."""
    patch.setattr(Wiring, "release", lambda _: None)


def wraps_for_each_kind_of_adapter(patch: Patch, _: Adapter[Any, Any]) -> None:
    """An adapter that is derived from another one wraps what is wrapped."""

    def init_subclass(cls: Any) -> None:
        cls.patches = ClassPatches()

    patch.setattr(ClassAdapter, "__init_subclass__", classmethod(init_subclass))
