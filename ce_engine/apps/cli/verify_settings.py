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
    known = tuple(wrong for verification in verified for wrong in verification.wrong)
    return [each for each in await store.damaged(account, user) if not each.endswith(known)]


def lines(found: Sequence[SettingsVerification]) -> Iterator[str]:
    """In words, without content."""
    for each in found:
        yield f"{_whose(each)}: {_WHAT[each.status]} ({number(each.settings)} settings)"
        yield from (f"  wrong: {wrong}" for wrong in each.wrong)
        yield from (f"  not verified: {what}" for what in each.unverified)


def _whose(found: SettingsVerification) -> str:
    if (found.account_id, found.user_id) == (SEALED_BY.account_id, SEALED_BY.user_id):
        return "that the store is sealed"
    parts = {"user": found.user_id, "account": found.account_id, "project": found.project_id}
    named = [f"{name} {text}" for name, text in parts.items() if text]
    return f"settings of {', '.join(named) or 'the unnamed user'}"


def as_json(found: Sequence[SettingsVerification]) -> list[dict[str, Any]]:
    """An object for each owner in a project."""
    return [{**asdict(each), "status": each.status} for each in found]
