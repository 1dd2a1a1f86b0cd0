"""What adapters get wrong about pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ce_integrations.install.adapter import Adapter
from tests.adapters.mutants import Mutant, Patch


HISTORY = "test_small_pictures_do_not_cost_the_history"
RECORD = "test_a_picture_leaves_its_size_in_the_record"


def _altered(patch: Patch, adapter: Adapter[Any, Any], **fields: Any) -> None:
    """Each picture of a message is mapped with other fields."""
    to_schema = type(adapter).to_schema

    def changed(self: Any, native: Any) -> Any:
        host = to_schema(self, native)
        host.attachments = tuple(replace(each, **fields) for each in host.attachments)
        return host

    patch.setattr(type(adapter), "to_schema", changed)


def forgets_how_large_pictures_are(patch: Patch, adapter: Adapter[Any, Any]) -> None:
    """Each counts as one of unknown size."""
    _altered(patch, adapter, width=None, height=None)


def takes_all_pictures_for_one(patch: Patch, adapter: Adapter[Any, Any]) -> None:
    """Nothing tells them apart."""
    _altered(patch, adapter, digest="picture")


def forgets_pictures(patch: Patch, adapter: Adapter[Any, Any]) -> None:
    """They are neither counted nor recorded."""
    to_schema = type(adapter).to_schema

    def without(self: Any, native: Any) -> Any:
        host = to_schema(self, native)
        host.attachments = ()
        return host

    patch.setattr(type(adapter), "to_schema", without)


PICTURES = [
    Mutant(forgets_how_large_pictures_are, "agent", HISTORY, ""),
    Mutant(takes_all_pictures_for_one, "agent", RECORD, ""),
    Mutant(forgets_pictures, "agent", HISTORY, ""),
]
