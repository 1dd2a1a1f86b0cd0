"""What `ce verify` says of what owners set, and of what of a store cannot be read at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ce_engine.apps.present.output import number
from ce_engine.schema.settings import SettingsVerification
from ce_engine.stores.base import SEALED_BY, BaseStore


if TYPE_CHECKING:
    from ce_engine.ports.store import Store
    from ce_engine.schema.events import Verification

_WHAT = {
    "tampered": "not what was set",
    "unverified": "not verified in whole, though nothing that was verified is wrong",
    "intact": "intact",
}


async def unreadable(
    store: Store,
    account: str | None,
    user: str | None,
    verified: Sequence[Verification | SettingsVerification],
) -> list[str]:
    """What of an account, of a user of it or of all is in no list, but for what was said of it already."""
    if not isinstance(store, BaseStore):
        return []
    faults = tuple(wrong for check in verified for wrong in check.wrong)
    return [entry for entry in await store.damaged(account, user) if not entry.endswith(faults)]


async def index_faults(store: Store) -> tuple[str, ...]:
    """What is wrong with all that is read of a store, however right each row is."""
    return tuple(await store.index_faults()) if isinstance(store, BaseStore) else ()


def lines(checks: Sequence[SettingsVerification]) -> Iterator[str]:
    """In words, without content."""
    for check in checks:
        yield f"{_owner_words(check)}: {_WHAT[check.status]} ({number(check.settings)} settings)"
        yield from (f"  wrong: {wrong}" for wrong in check.wrong)
        yield from (f"  not verified: {problem}" for problem in check.unverified)


def _owner_words(check: SettingsVerification) -> str:
    if (check.account_id, check.user_id) == (SEALED_BY.account_id, SEALED_BY.user_id):
        return "that the store is sealed"
    parts = {"user": check.user_id, "account": check.account_id, "project": check.project_id}
    words = [f"{name} {text}" for name, text in parts.items() if text]
    return f"settings of {', '.join(words) or 'the unnamed user'}"


def as_json(checks: Sequence[SettingsVerification]) -> list[dict[str, Any]]:
    """An object for each owner in a project."""
    return [{**asdict(check), "status": check.status} for check in checks]
