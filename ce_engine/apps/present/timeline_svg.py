"""A timeline as one SVG: a path a layer, however many turns there are.

A turn is one unit wide, so that the `viewBox` zooms; colours are attributes, which a style sheet may overrule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

from ce_engine.apps.present.html_text import line, plain
from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.timeline import BAD, LAYERS, MARKS, NO_LANE, TITLES, Timeline


COLOURS = {
    "system": "#64748b",
    "tools": "#94a3b8",
    "rules": "#be185d",
    "settings": "#7c3aed",
    "retrieved": "#d97706",
    "immediate": "#2563eb",
    "reserve": "#d6d3d1",
}
BARS = 240
"""Height of the bars, in pixels, as all heights here."""
MARK = 8
LIST = 64
TRACK = 14
GAP = 22
"""Between the bars and what is below them; their titles stand in it."""
MOST_TRACKS = 12
"""Lanes that have a track of their own; those that begin later share the last one."""
GUTTER = 76
GRID = 4
ROUND = (10, 15, 20, 25, 30, 40, 50, 60, 80, 100)
"""Steps of a scale that are read at once, in tenths of a power of ten."""
_UNITS = ((1_000_000, "M"), (1_000, "k"))


def height(chart: Timeline) -> int:
    """Pixels that the picture of a timeline is high."""
    return MARK + BARS + GAP + LIST + GAP + TRACK * max(1, len(_tracks(chart)))


def drawing(
    timeline: Timeline,
    say: Say = ENGLISH,
    name: str = "timeline",
    address: Callable[[int], str] | None = None,
) -> str:
    """The picture as SVG, which stretches to its place's width.

    Args:
        timeline: what is drawn.
        say: the language of the words in it.
        name: begins its ids, of which a page may have each once.
        address: of each turn, by its number, `""` for none: where no script opens it. With it every turn tells
            its figures where a pointer rests on it.
    """
    turns, high = max(1, len(timeline)), height(timeline)
    role = "img" if address is None else "group"  # of links, which an image has none
    alt = say("Tokens of each turn, by layer, against the budget")
    head = (
        f'<svg class="timeline-svg" viewBox="0 0 {turns} {high}" width="100%" height="{high}" '
        f'preserveAspectRatio="none" role="{role}" aria-label="{plain(alt)}">'
    )
    parts = [
        head,
        f"<defs>{_hatch(name)}{_gaps(name)}</defs>",
        *_bars(timeline, name),
        *_list(timeline),
        *_lanes(timeline),
        *(_turns(timeline, address, high, say) if address is not None else ()),
        f'<rect class="here" width="1" y="0" height="{high}" fill="#000" fill-opacity="0"/>',
        "</svg>",
    ]
    return "".join(parts)


def _turns(chart: Timeline, address: Callable[[int], str], high: int, say: Say) -> Iterator[str]:
    """A place to point at for each turn."""
    for place, turn in enumerate(chart.turns):
        label = plain(figures(chart, place, say))
        box = (
            f'<rect x="{place}" width="1" height="{high}" fill="#fff" fill-opacity="0">'
            f"<title>{label}</title></rect>"
        )
        link = address(turn)
        yield f'<a href="{escape(link)}" aria-label="{label}">{box}</a>' if link else box


def figures(chart: Timeline, place: int, say: Say = ENGLISH) -> str:
    """One turn in a line."""
    budget = f" / {chart.budget[place]:,}" if chart.budget[place] else ""
    parts = [f"{chart.turns[place]}", chart.lanes[chart.lane[place]]]
    parts.append(f"{chart.used[place]:,}{budget} {say('tokens')}")
    parts += [
        f"{say(TITLES[name])} {column[place]:,}"
        for name, column in chart.layers.items()
        if column[place]
    ]
    parts += [say(MARKS[mark]) for mark in chart.marks.get(place, ())]
    return " · ".join(filter(None, parts))


GAPS_UP_TO = 300
"""Turns in view between which a gap is seen; between more it would only make all of it paler."""


def gutter(timeline: Timeline, say: Say = ENGLISH) -> str:
    """What stands beside the picture: the scale, and the names of what is drawn."""
    high, most = height(timeline), scale(timeline)
    texts = [
        _label(MARK + BARS - BARS * step // GRID, short(most * step // GRID))
        for step in range(1, GRID + 1)
    ]
    top = MARK + BARS + GAP
    texts.append(_label(top, short(max(timeline.app_messages, default=0))))
    names = _tracks(timeline)
    top += LIST + GAP
    for place, lane in enumerate(names):
        texts.append(_label(top + place * TRACK + TRACK / 2, line(lane or say("(main line)"), 11)))
    return (
        f'<svg class="gutter" width="{GUTTER}" height="{high}" aria-hidden="true" '
        f'font-family="system-ui, sans-serif" font-size="11">{"".join(texts)}</svg>'
    )


def _label(y: float, text: str) -> str:
    return (
        f'<text x="{GUTTER - 6}" y="{y:g}" text-anchor="end" dominant-baseline="middle" '
        f'fill="currentColor">{plain(text)}</text>'
    )


def scale(chart: Timeline) -> int:
    """The tokens at the top of the bars: a round number."""
    step, unit = max(chart.most, GRID) / GRID, 1
    while unit * 10 < step:
        unit *= 10
    tenths = (unit * n for n in ROUND if not unit * n % 10)
    return GRID * next(tenth // 10 for tenth in tenths if tenth >= 10 * step)


def short(value: int) -> str:
    """A number in few characters: 812, 1.5k, 120k, 3.4M."""
    for unit, letter in _UNITS:
        if value >= unit:
            return f"{value / unit:.3g}{letter}"
    return str(value)


def _bars(chart: Timeline, name: str) -> Iterator[str]:
    most, floor, wide = scale(chart), MARK + BARS, max(1, len(chart))
    for step in range(1, GRID + 1):
        y = floor - BARS * step // GRID
        yield f'<path class="grid" d="M0 {y}h{wide}" stroke="#a8a29e" stroke-opacity=".35" {_THIN}/>'
    tops = [b + r if b else 0 for b, r in zip(chart.budget, chart.reserve, strict=True)]
    if any(tops):
        shape = _area(tops, most, BARS, floor, chart.budget)
        yield f'<path class="reserve" d="{shape}" fill="{COLOURS["reserve"]}" fill-opacity=".55"/>'
    for layer, heights in reversed(_stacked(chart)):
        shape = _area(heights, most, BARS, floor)
        yield f'<path class="{layer}" d="{shape}" fill="{COLOURS[layer]}"/>'
    if any(chart.prefix):
        shape = _area(chart.prefix, most, BARS, floor)
        yield f'<path class="prefix" d="{shape}" fill="url(#{name}-cached)"/>'
    hidden = "" if len(chart) <= GAPS_UP_TO else _HIDDEN
    box = f'width="{wide}" y="{MARK}" height="{BARS}"'
    yield f'<rect class="gaps" {box} fill="url(#{name}-gaps)"{hidden}/>'
    yield from _lines(chart, most, floor)
    yield from _marks(chart)


def _stacked(chart: Timeline) -> list[tuple[str, list[int]]]:
    """The layers that there are, each with the tokens of all up to it."""
    layers, sums = list[tuple[str, list[int]]](), [0] * len(chart)
    for layer in LAYERS:
        sums = [a + b for a, b in zip(sums, chart.layers[layer], strict=True)]
        if any(chart.layers[layer]):
            layers.append((layer, sums))
    return layers


def _lines(chart: Timeline, most: int, floor: int) -> Iterator[str]:
    """The budget, and where the cut moved."""
    if any(chart.budget):
        steps = _steps(chart.budget, most, BARS, floor)
        yield f'<path class="budget" d="{steps}" fill="none" stroke="currentColor" stroke-width="1.5" {_THIN}/>'
    if chart.moved:
        lines = "".join(f"M{place} {MARK}v{BARS}" for place in chart.moved)
        yield f'<path class="cut" d="{lines}" stroke="#b91c1c" stroke-dasharray="3 3" {_THIN}/>'


def _marks(chart: Timeline) -> Iterator[str]:
    """Above the bars, what deserves a look."""
    for is_bad, kind, colour in ((False, "warn", "#b45309"), (True, "bad", "#b91c1c")):
        places = [p for p, marks in chart.marks.items() if bool(BAD.intersection(marks)) is is_bad]
        if places:
            shapes = "".join(f"M{p} 0h1v{MARK - 2}h-1z" for p in places)
            yield f'<path class="mark-{kind}" d="{shapes}" fill="{colour}"/>'


_HIDDEN = ' visibility="hidden"'
_THIN = 'vector-effect="non-scaling-stroke"'


def _list(chart: Timeline) -> Iterator[str]:
    """The app's own list in messages, and how far the cut reaches into it."""
    most, floor = max([*chart.app_messages, 1]), MARK + BARS + GAP + LIST
    shape = _area(chart.app_messages, most, LIST, floor)
    yield f'<path class="given" d="{shape}" fill="#2563eb" fill-opacity=".35"/>'
    if any(chart.left_out):
        shape = _area(chart.left_out, most, LIST, floor)
        yield f'<path class="left-out" d="{shape}" fill="#a8a29e" fill-opacity=".75"/>'
        steps = _steps(chart.left_out, most, LIST, floor)
        yield f'<path class="cut" d="{steps}" fill="none" stroke="#b91c1c" {_THIN}/>'


def _tracks(chart: Timeline) -> list[str]:
    """The lanes that have a track."""
    if len(chart.lanes) <= MOST_TRACKS:
        return chart.lanes
    return [*chart.lanes[: MOST_TRACKS - 1], "…"]


def _lanes(chart: Timeline) -> Iterator[str]:
    top, last = MARK + BARS + GAP + LIST + GAP, len(_tracks(chart)) - 1
    shapes: dict[int, list[str]] = {}
    begun, end = 0, len(chart)
    while begun < end:  # neighbours of one lane are one piece
        lane, at = chart.lane[begun], begun
        while at < end and chart.lane[at] == lane:
            at += 1
        track = min(lane, last)
        y = top + track * TRACK + 2
        shapes.setdefault(track, []).append(f"M{begun} {y}h{at - begun}v{TRACK - 4}h-{at - begun}z")
        begun = at
    for track, pieces in sorted(shapes.items()):
        kind = "odd" if track % 2 else "even"
        yield f'<path class="lane lane-{kind}" d="{"".join(pieces)}" fill="#0f766e"/>'


def _area(
    values: Sequence[int], most: int, high: int, floor: int, base: Sequence[int] | None = None
) -> str:
    """A shape of steps, one unit wide each, over the floor; or with `base` over these values."""
    parts, last, run = [f"M0 {floor}"], -1, 0
    for value in values:
        y = _y(value, most, high, floor)
        if y == last:
            run += 1
            continue
        parts.append(f"h{run}" if run else "")
        parts.append(f"V{y}")
        last, run = y, 1
    parts.append(f"h{run}")
    if base is None:
        return "".join([*parts, f"V{floor}z"])
    back = (f"V{_y(value, most, high, floor)}h-1" for value in reversed(base))
    return "".join([*parts, *back, "z"])


def _steps(values: Sequence[int], most: int, high: int, floor: int) -> str:
    """A line of steps; where there is no value, there is no line."""
    parts, pen, last, run = list[str](), False, -1, 0
    for place, value in enumerate(values):
        y = _y(value, most, high, floor)
        if value and pen and y == last:
            run += 1
            continue
        parts.append(f"h{run}" if run else "")
        run = 1 if value else 0
        if value:
            parts.append(f"V{y}" if pen else f"M{place} {y}")
        pen, last = bool(value), y
    parts.append(f"h{run}" if run else "")
    return "".join(parts)


def _y(value: int, most: int, high: int, floor: int) -> int:
    return floor - min(high, round(value * high / most))


def _hatch(name: str) -> str:
    """Lines across what may be cached: they stay lines however wide a turn is."""
    return (
        f'<pattern id="{escape(name)}-cached" width="1" height="5" patternUnits="userSpaceOnUse">'
        '<rect class="prefix-lines" width="1" height="2" fill="#fff" fill-opacity=".55"/></pattern>'
    )


def _gaps(name: str) -> str:
    return (
        f'<pattern id="{escape(name)}-gaps" width="1" height="10" patternUnits="userSpaceOnUse">'
        '<rect class="gap" x=".86" width=".14" height="10" fill="#fff" fill-opacity=".5"/></pattern>'
    )


__all__ = [
    "COLOURS",
    "NO_LANE",
    "drawing",
    "gutter",
    "height",
    "scale",
    "short",
]
