"""The configuration of a turn, as it was archived, and with another budget or placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ce_engine.apps.present.timeline import RESERVE
from ce_engine.schema.rows import TurnRow, archive_of


if TYPE_CHECKING:
    from ce_engine.config import RuntimeConfig


def settings_of(turns: Sequence[TurnRow], at: int) -> dict[str, Any]:
    """What a turn's configuration had set: the first turn that had it keeps it."""
    digest = archive_of(turns[at].report).get("config")
    for row in turns:
        archive = archive_of(row.report)
        if archive.get("config") == digest and isinstance(archive.get("settings"), Mapping):
            return dict(archive["settings"])
    return {}


def window_of(turns: Sequence[TurnRow], at: int) -> int | None:
    """The whole window of a turn, its reply's reserve included; `None` where no budget was known."""
    budget = turns[at].report.get("token_budget")
    return budget + _reserve(settings_of(turns, at)) if budget else None


def what_if_config(
    turns: Sequence[TurnRow],
    at: int,
    window: int | None,
    placement: str,
    reply: int | None = None,
) -> RuntimeConfig:
    """The turn's own configuration with another window or placement, and so many tokens of it for the `reply`.

    Raises:
        ValueError: they make no configuration.
    """
    from ce_engine.config import RuntimeConfig  # noqa: PLC0415 - slow to import

    settings = settings_of(turns, at)
    if window is not None:
        stored_budget = settings.get("budget") or {}
        budget = {**stored_budget, "max_input_tokens": window}
        if _keeps_by_itself(stored_budget):
            del budget["reserved_reply_tokens"]
        elif _reserve(settings) * 2 > window:
            budget["reserved_reply_tokens"] = window // 4
        settings["budget"] = budget
    if reply is not None:
        settings["budget"] = {**(settings.get("budget") or {}), "reserved_reply_tokens": reply}
    if placement:
        settings["placement"] = placement
    return RuntimeConfig(**settings)


def _keeps_by_itself(budget: Mapping[str, Any]) -> bool:
    """Whether nobody said the reserve that a budget has: it is what its window has by itself, as another one would."""
    from ce_engine.config import BudgetConfig  # noqa: PLC0415 - slow to import

    unsaid = {name: value for name, value in budget.items() if name != "reserved_reply_tokens"}
    return unsaid != budget and BudgetConfig(**unsaid) == BudgetConfig(**budget)


def _reserve(settings: Mapping[str, Any]) -> int:
    from ce_engine.config import BudgetConfig  # noqa: PLC0415 - slow to import

    budget = settings.get("budget")
    return BudgetConfig(**budget).reserved_reply_tokens if budget else RESERVE
