"""The turns of a session as a picture: what each sent of its budget, and what it all cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from ce_engine.apps.present.cost_lines import SessionCosts
from ce_engine.apps.present.output import clipped, moment, number
from ce_engine.apps.present.shapes import Drawing, Line, Rectangle, Words, check, write
from ce_engine.apps.present.turns import NumberedTurn
from ce_engine.schema.report import Report


WIDTH, HEIGHT = 1000, 560
LEFT, RIGHT = 80, 980
TOKENS, COSTS = (90, 340), (400, 510)
"""Where each panel begins and ends, from above."""
COLUMNS = 450
"""How many columns there is room for; where there are more turns, one stands for several."""
TITLE_CELLS = 90
SOFT, RULE = "#57606a", "#d0d7de"
BUDGET, CUT, WITHOUT, WITH = "#cf222e", "#8250df", "#8c959f", "#0969da"

LAYERS = {
    "instructions and tools": ("#4e79a7", ("system", "tools", "response_format", "priming")),
    "rules and settings": ("#b07aa1", ("rules", "memory")),
    "brought in": ("#f28e2b", ("knowledge", "summary", "state")),
    "talk": ("#59a14f", ("conversation", "agents")),
    "tool results": ("#76b7b2", ("tool_results",)),
    "question": ("#edc948", ("task",)),
    "other": ("#9c9c9c", ()),
}
"""What an input is made of, from below, with the kinds of payload that are in each."""


class Scale(NamedTuple):
    """A panel's values as heights."""

    top: float
    bottom: float
    most: float

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * value / (self.most or 1)


def draw(
    path: Path, session: str, turns: Sequence[NumberedTurn], spent: SessionCosts | None
) -> None:
    """Draw the turns that have a report into a file.

    Raises:
        ConfigError: it cannot be written.
    """
    write(path, drawing_of(session, turns, spent))


def drawing_of(session: str, turns: Sequence[NumberedTurn], spent: SessionCosts | None) -> Drawing:
    """The picture: a column a turn, or for the fullest of several; below it what it cost so far."""
    pairs = [(item, item.report) for item in turns if item.report is not None]
    per_column = max(1, math.ceil(len(pairs) / COLUMNS))
    columns = [
        max(pairs[place : place + per_column], key=lambda pair: pair[1].token_used)
        for place in range(0, len(pairs), per_column)
    ]
    drawing = Drawing(WIDTH, HEIGHT, f"session {session}: tokens and cost of {len(turns)} turns")
    drawing.add(Words(LEFT, 28, clipped(f"session {session}", TITLE_CELLS), size=16))
    drawing.add(Words(LEFT, 48, _subtitle(turns, per_column), colour=SOFT))
    drawing.add(*_legend(), *_tokens(columns))
    if spent is not None:
        drawing.add(*_costs(turns, spent))
    return drawing


def _subtitle(turns: Sequence[NumberedTurn], per_column: int) -> str:
    if not turns:
        return "no turns"
    span = f"{moment(turns[0].row.opened_at)} to {moment(turns[-1].row.opened_at)} UTC"
    more = f" · a column is the fullest of {per_column}" if per_column > 1 else ""
    return f"turns {turns[0].turn} to {turns[-1].turn} · {span}{more}"


def _legend() -> Iterator[Rectangle | Words | Line]:
    x = float(LEFT)
    entries = [(name, colour) for name, (colour, _) in LAYERS.items() if name != "other"]
    entries += [("like the call before", "#000000"), ("budget", BUDGET), ("the cut moved", CUT)]
    for name, colour in entries:
        yield Rectangle(x, 62, 10, 10, colour, 0.3 if colour == "#000000" else 1.0)
        yield Words(x + 14, 71, name, size=11)
        x += 26 + 6.2 * len(name)


def layers_of(report: Report) -> dict[str, int]:
    """The tokens of an input by layer; what has no kind is `other`."""
    kinds = report.payload_tokens
    layers = {name: sum(kinds.get(kind, 0) for kind in of) for name, (_, of) in LAYERS.items()}
    layers["other"] = max(0, report.token_used - sum(layers.values()))
    return layers


def _tokens(columns: Sequence[tuple[NumberedTurn, Report]]) -> Iterator[Rectangle | Words | Line]:
    top, bottom = TOKENS
    most = max((max(r.token_used, r.token_budget or 0) for _, r in columns), default=0)
    scale = Scale(top, bottom, most)
    yield from _axis(scale, "tokens")
    step = (RIGHT - LEFT) / max(1, len(columns))
    wide = max(0.5, step * 0.86) if step > 3 else step
    budget: list[tuple[float, float]] = []
    for place, (item, report) in enumerate(columns):
        x = LEFT + place * step
        yield from _column(scale, x, wide, report)
        if report.prefix_broken_by == "cut":
            yield Line([(x, top), (x, bottom)], CUT, 1.0, 0.6)
        if report.token_budget:
            y = scale.y(report.token_budget)
            budget += [(x, y), (x + step, y)]
        yield Rectangle(x, top, step, bottom - top, "#000000", 0.0, _note(item, report))
    if budget:
        yield Line(budget, BUDGET, 1.5)
    yield from _numbers(columns, step)


def _column(scale: Scale, x: float, wide: float, report: Report) -> Iterator[Rectangle]:
    below = 0
    for name, tokens in layers_of(report).items():
        if tokens:
            y = scale.y(below + tokens)
            yield Rectangle(x, y, wide, scale.y(below) - y, LAYERS[name][0])
            below += tokens
    if same := report.prefix_tokens_unchanged:
        y = scale.y(min(same, below))
        yield Rectangle(x, y, wide, scale.bottom - y, "#000000", 0.3)


def _note(item: NumberedTurn, report: Report) -> str:
    of = f" of {number(report.token_budget)}" if report.token_budget else ""
    same = number(report.prefix_tokens_unchanged or 0)
    parts = ", ".join(f"{name} {number(n)}" for name, n in layers_of(report).items() if n)
    return f"turn {item.turn}: {number(report.token_used)}{of} tokens ({parts}); {same} like the call before"


def _numbers(columns: Sequence[tuple[NumberedTurn, Report]], step: float) -> Iterator[Words]:
    """The numbers of some turns, with room between."""
    every = max(1, math.ceil(len(columns) / 12))
    for place in range(0, len(columns), every):
        x = LEFT + (place + 0.5) * step
        yield Words(x, TOKENS[1] + 16, str(columns[place][0].turn), 11, "middle", SOFT)
    yield Words((LEFT + RIGHT) / 2, TOKENS[1] + 34, "turn", 11, "middle", SOFT)


def _costs(
    turns: Sequence[NumberedTurn], spent: SessionCosts
) -> Iterator[Rectangle | Words | Line]:
    """What the inputs cost so far, with us and without, of the turns of which both can be said."""
    pairs = [
        (cost.sent, cost.untouched)
        for _, cost in zip(turns, spent.costs.calls, strict=False)
        if cost.untouched is not None
    ]
    if not pairs:
        return
    sums = [list(accumulate(column)) for column in zip(*pairs, strict=True)]
    scale = Scale(*COSTS, max(map(max, sums)))
    yield from _axis(scale, "cost", spent)
    step = (RIGHT - LEFT) / max(1, len(pairs))
    every = max(1, len(pairs) // COLUMNS)
    places = sorted({*range(0, len(pairs), every), len(pairs) - 1})
    for values, colour in zip(sums, (WITH, WITHOUT), strict=True):
        points = [(LEFT + (place + 0.5) * step, scale.y(values[place])) for place in places]
        yield Line([(LEFT, scale.bottom), *points], colour, 2.0)
    with_us, without = (spent.amount(values[-1]) for values in sums)
    title = f"cost of inputs so far, in {spent.costs.prices.currency}:"
    yield Words(LEFT, COSTS[1] + 34, title, colour=SOFT)
    yield Words(LEFT + 340, COSTS[1] + 34, f"with us {with_us}", colour=WITH)
    yield Words(LEFT + 540, COSTS[1] + 34, f"without us {without}", colour=SOFT)


def _axis(scale: Scale, name: str, spent: SessionCosts | None = None) -> Iterator[Line | Words]:
    for share in (0, 0.5, 1):
        y, value = scale.y(scale.most * share), scale.most * share
        yield Line([(LEFT, y), (RIGHT, y)], RULE)
        text = number(round(value)) if spent is None else spent.amount(value)
        yield Words(LEFT - 8, y + 4, text, 11, "end", SOFT)
    yield Words(LEFT - 8, scale.top - 8, name, 11, "end", SOFT)


__all__ = ["check", "draw", "drawing_of"]
