"""A comparison as one HTML page that needs nothing else: no script, no network; stored text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from ce_engine.apps.present.compare_lines import label, lines, notes, subject
from ce_engine.apps.present.compare_panels import (
    Bar,
    Panel,
    Range,
    Row,
    Tile,
    largest,
    panels,
    tiles,
)
from ce_engine.apps.present.output import moment, number, printable
from ce_engine.audit.compare.figures import Comparison, Figures


STYLE = Path(__file__).with_name("compare_page.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Whatever stood in it after all would load nothing and run nothing."""


def page(comparison: Comparison) -> str:
    """The page's HTML; nothing in it is loaded from anywhere, and nothing runs."""
    rows = largest(comparison)
    by = _safe(subject(comparison.by))
    total = comparison.total
    span = f", {moment(comparison.first_at)} to {moment(comparison.last_at)} UTC"
    counts = f"{number(total.calls)} calls of {number(total.sessions)} sessions"
    charts = "".join(map(_panel, panels(comparison, rows)))
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        f"<title>Model calls by {by}</title>",
        f"<style>{STYLE.read_text(encoding='utf-8')}</style></head><body>",
        f"<h1>Model calls by {by}</h1>",
        f'<p class="soft">{counts}{span if comparison.first_at else ""}</p>',
        f'<div class="tiles">{"".join(map(_tile, tiles(comparison)))}</div>',
        f'<div class="panels">{charts}{_table(comparison, rows)}</div>',
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _safe(text: str) -> str:
    return escape(printable(text))


def _name(name: str) -> str:
    return f"<bdi>{_safe(label(name))}</bdi>"


def _tile(tile: Tile) -> str:
    value, caption = _safe(tile.value), _safe(tile.caption)
    return f'<div class="card tile"><b>{value}</b><span class="soft">{caption}</span></div>'


def _panel(panel: Panel) -> str:
    entries = "".join(
        f'<span><i class="{kind}"></i>{_safe(text)}</span>' for kind, text in panel.key
    )
    key = f'<div class="key">{entries}</div>' if entries else ""
    return (
        f'<section class="card"><h2>{_safe(panel.title)}</h2><p class="soft">{_safe(panel.caption)}</p>'
        f"{key}{''.join(map(_bar, panel.bars))}</section>"
    )


def _bar(bar: Bar) -> str:
    """A group's row with what is drawn under it."""
    spans = "".join(
        f'<i class="{part.kind}" style="width:{100 * part.share:.3f}%"></i>'
        for part in bar.parts
        if part.share > 0
    )
    drawn = f'<div class="bar">{spans}</div>' if bar.parts else "".join(map(_range, bar.ranges))
    name = f"{_name(bar.name)}<span>{_safe(bar.value)}</span>"
    return f'<div class="row"><div class="name">{name}</div>{drawn}</div>'


def _range(span: Range) -> str:
    low, high = 98 * span.low + 1, 98 * span.high + 1
    kind = "first" if span.kind == "cached" else ""
    return (
        f'<div class="range {kind}"><i style="left:{low:.2f}%;width:{high - low:.2f}%"></i>'
        f'<b style="left:{low:.2f}%"></b><b style="left:{high:.2f}%"></b></div>'
    )


def _table(comparison: Comparison, rows: Sequence[Row]) -> str:
    columns = [*rows, ("all", comparison.total)] if len(rows) > 1 else [*rows]
    heads = "".join(f"<th>{_name(name)}</th>" for name, _ in columns)
    body = "".join(
        f"<tr><th>{_safe(line.title)}<small>{_safe(line.meaning)}</small></th>"
        f"{''.join(_cell(line.text, line.bad, figures) for _, figures in columns)}</tr>"
        for line in lines(comparison)
    )
    remarks = list(notes(comparison))
    if hidden := len(comparison.groups) - len(rows):
        remarks.append(f"{number(hidden)} groups with fewer tokens are in --json and --csv only")
    items = "".join(f"<li>{_safe(note)}</li>" for note in remarks)
    items = f'<ul class="soft">{items}</ul>' if items else ""
    return (
        '<section class="card wide"><h2>All figures</h2><div class="scroll"><table>'
        f"<thead><tr><th></th>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
        f"{items}</section>"
    )


def _cell(text: Callable[[Figures], str], bad: Callable[[Figures], bool], figures: Figures) -> str:
    kind = ' class="bad"' if bad(figures) else ""
    return f"<td{kind}>{_safe(text(figures))}</td>"
