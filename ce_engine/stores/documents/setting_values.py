"""Values of settings as they are kept in a page of their owner's: sealed where something seals (19 B.9)."""

from __future__ import annotations

from typing import Any

from ce_engine.stores import sealing
from ce_engine.stores.codec import from_json, to_json


Owner = tuple[str, str]
"""Account and user."""


def open_value(data: Any, owner: Owner) -> Any:
    """A setting's value of what is kept of it."""
    if not sealing.is_sealed(data):
        return data
    with sealing.of_session((*owner, "")):
        return from_json(sealing.unseal_text("settings", data))


def seal_value(value: Any, owner: Owner) -> Any:
    """What is kept of a setting's value."""
    if value is None or sealing.active().cipher is None:
        return value
    with sealing.of_session((*owner, "")):
        return sealing.seal_text("settings", to_json(value))


def is_current(data: Any, key_id: str) -> bool:
    """Whether a value is sealed, and under this key."""
    return sealing.is_sealed(data) and sealing.key_id_of(data) == key_id
