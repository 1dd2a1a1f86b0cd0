"""Turns as a table in the terminal: a line of figures each, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ce_engine.apps.present.amounts import cached_share
from ce_engine.apps.present.budget_bar import budget_bar, glyphs_of, legend
from ce_engine.apps.present.cost_lines import SessionCosts, saved
from ce_engine.apps.present.output import (
    clipped,
    has_width,
    lined_up,
    number,
    print_under,
    printable,
)
from ce_engine.apps.present.turns import FITS, HEADS, NumberedTurn, figures, why
from ce_engine.apps.present.vocabulary import estimator_words
from ce_engine.audit.compare.figures import Figures


BAR = "used"
PLACE = HEADS.index("tokens/budget") + 1
"""Where the bar stands among the figures."""
BAR_CELLS = (6, 24)
"""How wide a bar is, at least and at most."""

RARE = frozenset({"short", "rest", "inj"})
"""Columns that are left out where there is nothing in them."""
GIVE_WAY = ("rest", "short", "inj", "without", "cost", "drop", BAR, "same", "effect")
"""Columns that are left out where there is no room, in this order."""

GROWS = {"sent": 7, "cost": 7, "without": 7, "effect": 6, "status": len("committed")}
"""How wide columns are at least where more turns will follow, which may be longer."""

WIDE = 190
"""From this width on, the reasons stand beside the figures; else below them."""
INDENT = 5
NAME = 10

LEGEND = (
    "turn: a model call with its retries · sent: messages of the app, sent/given · drop, short(ened): messages of the app's own list · rest(ored): stored messages · inj(ected): texts put in · "
    "same: how much of it begins like the call before · cost: of the input; without: what it would be without us"
)


class TurnTable:
    """A table that more turns can follow under the same head.

    Args:
        screen: where to; reasons are shortened to one line where it is a terminal, or has a width.
        full: do not shorten them.
        grows: more will follow, of whatever kind.
    """

    def __init__(self, screen: Console, *, full: bool = False, grows: bool = False) -> None:
        self._screen, self._full, self._grows = screen, full, grows
        self._one_line = not has_width(screen)
        self._beside = self._one_line or screen.width >= WIDE
        self._gap = "  " if self._beside else " "
        self._glyphs = glyphs_of(screen)
        self._columns: list[str] = []
        self._widths: list[int] = []
        self._bar = 0
        self.is_shortened = False
        """Whether a reason was."""

    def print(self, turns: Sequence[NumberedTurn]) -> None:
        """Print turns; with the first ones the head."""
        if not turns:
            return
        rows = [[*figures(item)] for item in turns]
        is_first = not self._columns
        if is_first:
            self._lay_out(rows)
        cells = [
            [*row[:PLACE], budget_bar(item.report, self._bar, self._glyphs).plain, *row[PLACE:]]
            if self._bar
            else row
            for row, item in zip(rows, turns, strict=True)
        ]
        head, *lines = self._lines(cells)
        if is_first:
            title = f"{head:<{self._indent}}why" if self._beside else head
            self._screen.print(Text(title, style="bold"), soft_wrap=True)
        for item, line in zip(turns, lines, strict=True):
            self._print(item, line)

    def _lay_out(self, rows: Sequence[Sequence[str]]) -> None:
        """Choose the columns, and how wide the bar is."""
        columns = zip(HEADS, zip(*rows, strict=True), strict=True)
        there = [h for h, cells in columns if self._grows or h not in RARE or {*cells} != {"-"}]
        there.insert(there.index("tokens/budget") + 1, BAR)
        room, (least, most) = self._screen.width, BAR_CELLS
        if self._one_line:
            room = 10**6
        least_cells = GROWS if self._grows else {}
        widths = {
            column[0]: max(least_cells.get(column[0], 0), *map(cell_len, column))
            for column in zip(HEADS, *rows, strict=True)
        }
        candidates = iter(GIVE_WAY)

        def left() -> int:
            """What the others leave for the bar."""
            return room - sum(widths.get(h, 0) + len(self._gap) for h in there) + len(self._gap)

        while left() < (least if BAR in there else 0) and (column := next(candidates, None)):
            there = [head for head in there if head != column]
        self._bar = min(most, left()) if BAR in there else 0
        self._columns = there
        self._widths = [widths.get(head, self._bar) for head in there]

    def _lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """The head and the rows, whose columns stand under those before."""
        names = list(HEADS)
        if self._bar:
            names.insert(PLACE, BAR)
        places = [names.index(head) for head in self._columns]
        heads = self._columns
        cells = [[row[place] for place in places] for row in rows]
        widths = [max(map(cell_len, column)) for column in zip(heads, *cells, strict=True)]
        self._widths = [max(pair) for pair in zip(widths, self._widths, strict=True)]
        right = frozenset(self._columns) - {BAR, "status"}
        return lined_up(heads, cells, numbers=right, gap=self._gap, least=self._widths)

    @property
    def _indent(self) -> int:
        """Where the reasons begin."""
        if not self._beside:
            return INDENT
        return sum(self._widths) + len(self._gap) * len(self._widths)

    def _print(self, item: NumberedTurn, line: str) -> None:
        screen, reason, text = self._screen, why(item), self._styled(item, line)
        room = max(1, screen.width - self._indent)
        if self._one_line:
            pad = " " * (self._indent - cell_len(line))
            screen.print(text.append(pad + printable(reason)), soft_wrap=True)
            return
        if not self._full:
            short = clipped(reason, room)
            self.is_shortened |= short != printable(reason)
            reason = short
        if self._beside:
            print_under(screen, self._indent, reason, before=text)
            return
        screen.print(text, soft_wrap=True)
        if reason != FITS:
            print_under(screen, INDENT, reason, style="dim")

    def _styled(self, item: NumberedTurn, line: str) -> Text:
        text = Text(line)
        if BAR not in self._columns:
            return text
        place = self._columns.index(BAR)
        begin = sum(self._widths[:place]) + place * len(self._gap)
        bar = budget_bar(item.report, self._bar, self._glyphs)
        for span in bar.spans:
            text.stylize(span.style, begin + span.start, begin + span.end)
        return text

    def legend(self) -> str:
        """What the columns are, and the characters of the bars."""
        bar = f" · {BAR}: of the budget, {legend(self._glyphs)}" if self._bar else ""
        missing = [head for head in HEADS if head not in (*self._columns, *RARE)]
        more = f" · a wider terminal has {', '.join(missing)}, too" if missing else ""
        return f"{LEGEND}{bar}{more}"


def print_sums(
    screen: Console,
    turns: Sequence[NumberedTurn],
    spent: SessionCosts | None,
    *,
    of: int,
) -> None:
    """The turns together: tokens, what was saved, what may be cached; then what it cost.

    Args:
        screen: where to.
        turns: those that were shown.
        spent: what they cost; `None` where the session is gone.
        of: how many the session has.
    """
    reports = [item.report for item in turns if item.report is not None]
    count = "1 turn" if len(turns) == 1 else f"{number(len(turns))} turns"
    parts = [count if of == len(turns) else f"{number(len(turns))} of {number(of)} turns"]
    parts += [f"{len(turns) - len(reports)} without a report"] if len(reports) < len(turns) else []
    over = sum(report.over_budget for report in reports)
    parts += [f"{number(over)} over the budget"] if over else []
    estimators = {estimator_words(report.estimator) for report in reports if report.estimator}
    parts += [f"counted by {', '.join(sorted(estimators))}"] if estimators else []
    lines = [("sum", " · ".join(parts))]
    if spent is not None:
        lines += [*_tokens(spent.figures), *spent.lines()]
    screen.print()
    for name, text in lines:
        style = "bold" if name in ("sum", "tokens") else ""
        print_under(screen, NAME, text, before=Text(name, style=style), style=style)


def _tokens(sums: Figures) -> Iterator[tuple[str, str]]:
    """What went out, what would have gone out without us, and what may be cached."""
    own = f" of {sums.own} calls of our own, too," if sums.own else ""
    without = f"{number(sums.tokens_without)} without us"
    effect = saved(sums.tokens_sent, sums.tokens_without)
    yield "tokens", f"{number(sums.tokens_sent)} sent,{own} {without} · {effect}"
    same = f"{number(sums.cached_prefix)} tokens begin like the call before ({cached_share(sums)})"
    yield "cached", f"{same}{_may_be(sums)}"


def _may_be(sums: Figures) -> str:
    """Whether a provider may cache what begins alike: short prefixes are not cached."""
    if sums.cacheable >= sums.cached_prefix:
        return ", and may be"
    if not sums.cacheable:
        return ": too few tokens at a time to be cached"
    return f": {number(sums.cacheable)} of them may be cached, the others are too few at a time"
