"""A turn's budget as a bar of characters: what begins like the call before, what is new, what stays free."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from ce_engine.schema.report import Report


class Glyphs(NamedTuple):
    """The characters of a bar, each one cell wide."""

    same: str
    new: str
    free: str
    over: str = "!"


BLOCKS = Glyphs("▒", "█", "·")
LETTERS = Glyphs("=", "#", ".")
"""For streams whose encoding has no blocks."""

STYLES = Glyphs("cyan", "blue", "dim", "bold red")


def glyphs_of(screen: Console) -> Glyphs:
    """Those that the screen's encoding has."""
    try:
        "".join(BLOCKS).encode(screen.encoding)
    except (UnicodeEncodeError, LookupError):
        return LETTERS
    return BLOCKS


def budget_bar(report: Report | None, cells: int, glyphs: Glyphs = BLOCKS) -> Text:
    """The bar, so many cells wide; blank where no budget is known. The end of one that is exceeded is marked."""
    budget = report.token_budget if report is not None else None
    if report is None or not budget:
        return Text("-" + " " * (cells - 1))
    is_over = report.token_used > budget
    used = min(cells, _cells(report.token_used, budget, cells))
    same = min(used, _cells(report.prefix_tokens_unchanged or 0, budget, cells))
    bar = Text(glyphs.same * same, style=STYLES.same)
    bar.append(glyphs.new * (used - same - is_over), style=STYLES.new)
    if is_over:
        bar = bar[: cells - 1].append(glyphs.over, style=STYLES.over)
    return bar.append(glyphs.free * (cells - used), style=STYLES.free)


def legend(glyphs: Glyphs) -> str:
    """What the characters stand for."""
    return (
        f"{glyphs.same} begins like the call before, {glyphs.new} new, {glyphs.free} free"
        f", {glyphs.over} over the budget"
    )


def _cells(tokens: int, budget: int, cells: int) -> int:
    """The nearest number of cells; what is there has one, and what is not full leaves one free."""
    if tokens <= 0:
        return 0
    most = cells if tokens >= budget else cells - 1
    return max(1, min(most, round(cells * tokens / budget)))
