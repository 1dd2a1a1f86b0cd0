"""A comparison as one HTML page that needs nothing else: no script, no network; stored text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

from ce_engine.apps.present.compare_lines import (
    cost_text,
    lines,
    milliseconds,
    money,
    notes,
    shown,
    subject,
)
from ce_engine.apps.present.output import moment, number, percent, printable
from ce_engine.audit.compare.figures import Comparison, Figures, Spread


STYLE = Path(__file__).with_name("compare_page.css")
MOST_GROUPS = 24
"""Groups that a page shows, those with the most tokens; a reader takes no more in."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Whatever stood in it after all would load nothing and run nothing."""
_UNITS = ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k"))

Row = tuple[str, Figures]


def page(comparison: Comparison) -> str:
    """The page's HTML; nothing in it is loaded from anywhere, and nothing runs."""
    rows = _largest(comparison)
    by = _safe(subject(comparison.by))
    total = comparison.total
    span = f", {moment(comparison.first_at)} to {moment(comparison.last_at)} UTC"
    what = f"{number(total.calls)} calls of {number(total.sessions)} sessions"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        f"<title>Model calls by {by}</title>",
        f"<style>{STYLE.read_text(encoding='utf-8')}</style></head><body>",
        f"<h1>Model calls by {by}</h1>",
        f'<p class="soft">{what}{span if comparison.first_at else ""}</p>',
        f'<div class="tiles">{"".join(_tiles(comparison))}</div>',
        f'<div class="panels">{"".join(_panels(comparison, rows))}</div>',
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _largest(comparison: Comparison) -> list[Row]:
    rows = list(comparison.groups.items())
    if len(rows) <= MOST_GROUPS:
        return rows
    names = sorted(comparison.groups, key=lambda name: -comparison.groups[name].tokens_sent)
    chosen = set(names[:MOST_GROUPS])
    return [row for row in rows if row[0] in chosen]


def _safe(text: str) -> str:
    return escape(printable(text))


def _name(name: str) -> str:
    return f"<bdi>{_safe(shown(name))}</bdi>"


def short(tokens: int) -> str:
    """A number of tokens to three digits: 3.37M, 1.30M, 259k, 812."""
    for unit, letter in _UNITS:
        if abs(tokens) >= unit:
            digits = "#.3g" if abs(tokens) < 999.5 * unit else ".0f"
            return f"{tokens / unit:{digits}}".rstrip(".") + letter
    return str(tokens)


def _tiles(comparison: Comparison) -> Iterator[str]:
    total = comparison.total
    saved = total.tokens_saved
    word = "fewer" if saved >= 0 else "more"
    yield _tile(
        percent(abs(saved), total.tokens_before),
        f"{word} tokens: {short(total.tokens_sent)} sent, {short(total.tokens_before)} without us",
    )
    yield _tile(
        percent(total.cached_prefix, total.tokens_sent), "of what was sent is a cached prefix"
    )
    if comparison.prices and total.cost:
        missing = f"; {number(total.cost.unpriced)} calls have none" if total.cost.unpriced else ""
        amount = money(total.cost.amount, comparison.prices.currency)
        yield _tile(amount, f"cost, by the price table{missing}")
    if total.latency_ms:
        yield _tile(milliseconds(total.latency_ms.p50), "half of the answers took no longer")
    troubles = total.failed + total.tool_errors + total.over_budget + total.degradations
    what = "failed calls, tool errors, calls over budget, degradations"
    yield _tile(number(troubles), f"went wrong: {what}")


def _tile(value: str, what: str) -> str:
    return (
        f'<div class="card tile"><b>{_safe(value)}</b><span class="soft">{_safe(what)}</span></div>'
    )


def _panels(comparison: Comparison, rows: list[Row]) -> Iterator[str]:
    if rows:
        yield _tokens(rows)
        yield _sent(rows)
    if comparison.prices and any(figures.cost for _, figures in rows):
        yield _costs(rows, comparison.prices.currency)
    if any(figures.latency_ms or figures.first_token_ms for _, figures in rows):
        yield _times(rows)
    yield _table(comparison, rows)


def _panel(title: str, what: str, key: str, bars: Iterator[str]) -> str:
    keys = f'<div class="key">{key}</div>' if key else ""
    return (
        f'<section class="card"><h2>{title}</h2><p class="soft">{what}</p>{keys}'
        f"{''.join(bars)}</section>"
    )


def _key(*entries: tuple[str, str]) -> str:
    return "".join(f'<span><i class="{kind}"></i>{text}</span>' for kind, text in entries)


def _bar(name: str, value: str, parts: list[tuple[str, float]]) -> str:
    """A row with a bar; the parts are classes with their shares of the whole width, from 0 to 1."""
    spans = "".join(
        f'<i class="{kind}" style="width:{100 * share:.3f}%"></i>'
        for kind, share in parts
        if share > 0
    )
    return f'<div class="row"><div class="name">{_name(name)}<span>{_safe(value)}</span></div><div class="bar">{spans}</div></div>'


def _tokens(rows: list[Row]) -> str:
    most = max(max(f.tokens_before, f.tokens_sent) for _, f in rows) or 1

    def bars() -> Iterator[str]:
        for name, f in rows:
            saved = percent(abs(f.tokens_saved), f.tokens_before)
            word = "saved" if f.tokens_saved >= 0 else "more than without us"
            value = f"{short(f.tokens_sent)} of {short(f.tokens_before)} · {saved} {word}"
            rest = max(0, f.tokens_saved)
            yield _bar(name, value, [("new", f.tokens_sent / most), ("track", rest / most)])

    key = _key(
        ("new", "sent to the model"), ("track", "left out: what the app alone would have sent")
    )
    return _panel("Tokens of all calls", "Shorter blue is cheaper.", key, bars())


def _sent(rows: list[Row]) -> str:
    most = max(f.tokens_sent / f.calls for _, f in rows) or 1

    def bars() -> Iterator[str]:
        for name, f in rows:
            share = percent(f.cached_prefix, f.tokens_sent)
            value = f"{short(f.tokens_sent // f.calls)} tokens · {share} cached prefix"
            fresh, whole = f.tokens_sent - f.cached_prefix, f.calls * most
            parts = [("cached", f.cached_prefix / whole), ("new", fresh / whole)]
            yield _bar(name, value, parts)

    key = _key(("cached", "same beginning as the call before: cacheable"), ("new", "new"))
    what = "More green is cheaper: providers bill a cached prefix at a fraction."
    return _panel("Sent with one call, on average", what, key, bars())


def _costs(rows: list[Row], currency: str) -> str:
    most = max((f.cost.amount for _, f in rows if f.cost), default=0) or 1

    def bars() -> Iterator[str]:
        for name, f in rows:
            paid = f.calls - f.from_cache
            priced = paid - (f.cost.unpriced if f.cost else 0)
            value = cost_text(f.cost, paid, currency)
            if f.cost and priced:
                value += f" · {money(1000 * f.cost.amount / priced, currency)} for 1,000 calls"
            else:
                value = "no price of its models"
            yield _bar(name, value, [("new", f.cost.amount / most if f.cost else 0)])

    return _panel("Cost", "By the price table, the cached prefix apart.", "", bars())


def _times(rows: list[Row]) -> str:
    spreads = [s for _, f in rows for s in (f.latency_ms, f.first_token_ms) if s]
    most = max(spread.p95 for spread in spreads) or 1

    def bars() -> Iterator[str]:
        for name, f in rows:
            told: list[tuple[str, Spread | None]] = [
                ("", f.latency_ms),
                ("first", f.first_token_ms),
            ]
            ranges = "".join(_range(kind, spread, most) for kind, spread in told if spread)
            value = " · first token ".join(_p50_p95(s) for _, s in told if s) or "not told"
            yield f'<div class="row"><div class="name">{_name(name)}<span>{value}</span></div>{ranges}</div>'

    streams = any(f.first_token_ms for _, f in rows)
    first = [("cached", "first token of a stream")] if streams else []
    key = _key(("new", "whole answer"), *first)
    what = "From the dot (half are as fast) to the ring (95 of 100 are); left is faster."
    return _panel("How long answers took", what, key, bars())


def _range(kind: str, spread: Spread, most: int) -> str:
    low, high = 98 * spread.p50 / most + 1, 98 * spread.p95 / most + 1
    return (
        f'<div class="range {kind}"><i style="left:{low:.2f}%;width:{high - low:.2f}%"></i>'
        f'<b style="left:{low:.2f}%"></b><b style="left:{high:.2f}%"></b></div>'
    )


def _p50_p95(spread: Spread) -> str:
    return f"{milliseconds(spread.p50)} / {milliseconds(spread.p95)}"


def _table(comparison: Comparison, rows: list[Row]) -> str:
    columns = [*rows, ("all", comparison.total)] if len(rows) > 1 else rows
    heads = "".join(f"<th>{_name(name)}</th>" for name, _ in columns)
    body = "".join(
        f"<tr><th>{_safe(line.title)}<small>{_safe(line.meaning)}</small></th>"
        f"{''.join(_cell(line.text, line.bad, figures) for _, figures in columns)}</tr>"
        for line in lines(comparison)
    )
    told = list(notes(comparison))
    if hidden := len(comparison.groups) - len(rows):
        told.append(f"{number(hidden)} groups with fewer tokens are in --json and --csv only")
    items = "".join(f"<li>{_safe(note)}</li>" for note in told)
    items = f'<ul class="soft">{items}</ul>' if items else ""
    return (
        '<section class="card wide"><h2>All figures</h2><div class="scroll"><table>'
        f"<thead><tr><th></th>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
        f"{items}</section>"
    )


def _cell(text: Callable[[Figures], str], bad: Callable[[Figures], bool], figures: Figures) -> str:
    kind = ' class="bad"' if bad(figures) else ""
    return f"<td{kind}>{_safe(text(figures))}</td>"
