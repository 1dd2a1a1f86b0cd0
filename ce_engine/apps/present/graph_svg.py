"""A small graph as one SVG: columns from left to right, every node a link."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from rich.cells import cell_len, set_cell_size

from ce_engine.apps.present.evidence_graph import Graph, Node
from ce_engine.apps.present.html_text import plain
from ce_engine.apps.present.language import ENGLISH, Say


WIDE, HIGH = 250, 62
ACROSS, DOWN = 84, 16
CELLS, BOLD_CELLS = 34, 30
"""Letters on a line of a node; Chinese ones are two. What is wider all the same is cut off inside the frame."""

TITLES = {
    "message": "message",
    "evidence": "evidence",
    "tool_call": "tool call",
    "model_call": "model call",
    "document": "source",
}

Address = Callable[[Node], str]
"""Gives the address of a node; `""` of one that leads nowhere."""


def drawing(graph: Graph, address: Address, say: Say = ENGLISH) -> str:
    """The picture; links are plain ones, so that it works by keyboard and without a script."""
    columns = graph.columns()
    tallest = max((len(column) for column in columns), default=0)
    high = tallest * (HIGH + DOWN) + DOWN
    wide = len(columns) * (WIDE + ACROSS) - ACROSS + 4
    places: dict[str, tuple[int, int]] = {}
    for at, column in enumerate(_ordered(graph)):
        top = (high - len(column) * (HIGH + DOWN) + DOWN) // 2
        for row, key in enumerate(column):
            places[key] = (2 + at * (WIDE + ACROSS), top + row * (HIGH + DOWN))
    edges = "".join(_edge(places[e.start], places[e.end], firm=e.is_firm) for e in graph.edges)
    nodes = "".join(_node(graph.nodes[key], at, address, say) for key, at in places.items())
    label = say("Where it is from, on the left, and where it went, on the right")
    return (
        f'<svg class="graph columns-{len(columns)}" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" role="group" '
        f'aria-label="{plain(label)}" font-family="system-ui, sans-serif" font-size="12">'
        f"{_ARROW}{edges}{nodes}</svg>"
    )


_ARROW = (
    '<defs><marker id="graph-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path class="arrow" d="M0 0L8 4L0 8z" fill="#78716c"/></marker>'
    f'<clipPath id="graph-inside"><rect width="{WIDE - 16}" height="{HIGH}"/></clipPath></defs>'
)


def _ordered(graph: Graph) -> list[list[str]]:
    """The columns, each in the order of what it is linked with on its right, so that few edges cross."""
    columns = [[key for key, _ in column] for column in graph.columns()]
    for at in range(len(columns) - 2, -1, -1):
        below = {key: row for row, key in enumerate(columns[at + 1])}
        ends: dict[str, list[int]] = {}
        for edge in graph.edges:
            if edge.end in below:
                ends.setdefault(edge.start, []).append(below[edge.end])
        columns[at].sort(key=lambda key: _middle(ends.get(key, [])))
    return columns


def _middle(rows: list[int]) -> float:
    return sum(rows) / len(rows) if rows else 1e9


def _edge(start: tuple[int, int], end: tuple[int, int], *, firm: bool) -> str:
    x, y = start[0] + WIDE, start[1] + HIGH // 2
    to_x, to_y = end[0] - 2, end[1] + HIGH // 2
    middle = (x + to_x) // 2
    dashes = "" if firm else ' stroke-dasharray="5 4"'
    kind = "firm" if firm else "loose"
    return (
        f'<path class="edge {kind}" d="M{x} {y}C{middle} {y} {middle} {to_y} {to_x} {to_y}" fill="none" '
        f'stroke="#78716c"{dashes} marker-end="url(#graph-arrow)"/>'
    )


def _node(node: Node, at: tuple[int, int], address: Address, say: Say) -> str:
    x, y = at
    turn = f" · {say('turn')} {node.turn}" if node.turn else ""
    head = f"{say(TITLES[node.kind])}{turn}"
    asked_class = " asked" if node.is_asked else ""
    texts = "".join(
        f'<text class="{kind}" y="{18 + 17 * row}" fill="currentColor"{more}>{plain(_fit(text, cells))}</text>'
        for row, (kind, text, cells, more) in enumerate(
            (
                ("head", head, CELLS, ' fill-opacity=".7"'),
                ("title", node.title, BOLD_CELLS, ' font-weight="600"'),
                ("says", node.text, CELLS, ""),
            )
        )
    )
    inside = f'<g transform="translate({x + 10} {y})" clip-path="url(#graph-inside)">{texts}</g>'
    title = plain(f"{head}: {node.title} {node.text}")
    box = (
        f'<g class="node {node.kind}{asked_class}"><title>{title}</title><rect x="{x}" y="{y}" width="{WIDE}" '
        f'height="{HIGH}" rx="8" fill="#a8a29e" fill-opacity=".12" stroke="#78716c"/>{inside}</g>'
    )
    link = address(node)
    return f'<a href="{escape(link)}">{box}</a>' if link else box


def _fit(text: str, cells: int) -> str:
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + "…"
