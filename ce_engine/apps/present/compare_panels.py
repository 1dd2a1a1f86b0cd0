"""A comparison's charts as values: tiles, bars and ranges with their words; a page draws them its own way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ce_engine.apps.present.amounts import PLACES, Amounts, cached_share, cached_words, effect
from ce_engine.apps.present.compare_lines import (
    amounts_of,
    cost_text,
    label,
    milliseconds,
    money,
)
from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.output import number, percent
from ce_engine.apps.present.vocabulary import estimator_words
from ce_engine.audit.compare.figures import Comparison, Figures, Spread


MOST_GROUPS = 24
"""Groups that a page shows, those with the most tokens; a reader takes no more in."""
_UNITS = ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k"))

Row = tuple[str, Figures]


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a bar: its kind (`new`, `cached`, `track`, `more`), and its share of the whole width, from 0 to 1."""

    kind: str
    share: float


@dataclass(frozen=True, slots=True)
class Range:
    """From where half are as fast to where 95 of 100 are, as shares of the width; its kind."""

    kind: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Bar:
    """A group with a value, and what is drawn under them; `counted` by what, where groups differ in that."""

    name: str
    value: str
    parts: Sequence[Part] = ()
    counted: str = ""
    ranges: Sequence[Range] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart: `key` is of pairs of a kind and what it means."""

    title: str
    caption: str
    key: Sequence[tuple[str, str]]
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure that stands for itself, and what it is."""

    value: str
    caption: str


def largest(comparison: Comparison) -> list[Row]:
    """The groups that are shown, in their order."""
    rows = list(comparison.groups.items())
    if len(rows) <= MOST_GROUPS:
        return rows
    names = sorted(comparison.groups, key=lambda name: -comparison.groups[name].tokens_sent)
    top_names = set(names[:MOST_GROUPS])
    return [row for row in rows if row[0] in top_names]


def short(tokens: int) -> str:
    """A number of tokens to three digits: 3.37M, 1.30M, 259k, 812."""
    for unit, letter in _UNITS:
        if abs(tokens) >= unit:
            digits = "#.3g" if abs(tokens) < 999.5 * unit else ".0f"
            return f"{tokens / unit:{digits}}".rstrip(".") + letter
    return str(tokens)


def tiles(comparison: Comparison, say: Say = ENGLISH) -> Iterator[Tile]:
    """What to know of all calls together."""
    total = comparison.total
    if total.beside.calls:
        yield _saved_cost(total, amounts_of(comparison), say)
    saved = total.tokens_saved
    pair = {"sent": short(total.tokens_sent), "before": short(total.tokens_without)}
    yield Tile(
        percent(abs(saved), total.tokens_without, PLACES),
        say("fewer tokens: {sent} sent, {before} without us", **pair)
        if saved >= 0
        else say("more tokens: {sent} sent, {before} without us", **pair),
    )
    yield Tile(cached_share(total), cached_words(total, say))
    if comparison.prices and total.cost:
        caption = say("billed, answers included")
        if total.cost.unpriced:
            caption = say(
                "billed, answers included; {count} calls have no price", count=total.cost.unpriced
            )
        yield Tile(money(total.cost.amount, comparison.prices.currency), caption)
    if total.latency_ms:
        half = milliseconds(total.latency_ms.p50)
        yield Tile(half, say("half of the answers took no longer"))
    caption = say(
        "calls went wrong: failed, with a tool's error, over the budget or degraded; each counts once"
    )
    yield Tile(number(total.went_wrong), caption)


def _saved_cost(total: Figures, amounts: Amounts, say: Say) -> Tile:
    costs = total.beside
    pair = {
        "sent": amounts.bare(costs.inputs),
        "before": amounts.text(costs.without, say),
    }
    return Tile(
        percent(abs(costs.saved), costs.without, PLACES),
        say("cheaper inputs: {sent} for {before} without us", **pair)
        if costs.saved >= 0
        else say("dearer inputs: {sent} for {before} without us", **pair),
    )


def panels(comparison: Comparison, rows: Sequence[Row], say: Say = ENGLISH) -> Iterator[Panel]:
    """The charts of these groups, for which there is something to draw."""
    counted = _counted(rows, say)
    if any(f.beside.calls for _, f in rows):
        yield _add_counts(_costs(rows, amounts_of(comparison), say), counted)
    if rows:
        yield _add_counts(_tokens(rows, say), counted)
        yield _add_counts(_input_sizes(rows, say), counted)
    if comparison.prices and any(figures.cost for _, figures in rows):
        yield _billed(rows, comparison.prices.currency, say)
    if any(figures.latency_ms or figures.first_token_ms for _, figures in rows):
        yield _times(rows, say)


def _counted(rows: Sequence[Row], say: Say) -> dict[str, str]:
    """By what each group's tokens are counted, where that is not the same in all."""
    counters = {label(name, say): f.counters for name, f in rows}
    if len({counter for group_counters in counters.values() for counter in group_counters}) < 2:
        return {}
    return {
        name: say(
            "tokens counted by {names}",
            names=say(", ").join(estimator_words(counter, say) for counter in group_counters),
        )
        for name, group_counters in counters.items()
        if group_counters
    }


def _add_counts(panel: Panel, counted: Mapping[str, str]) -> Panel:
    bars = [replace(bar, counted=counted.get(bar.name, "")) for bar in panel.bars]
    return replace(panel, bars=bars)


def _costs(rows: Sequence[Row], amounts: Amounts, say: Say) -> Panel:
    """What inputs cost with us and without us."""
    pairs = [(name, f.beside) for name, f in rows]
    most = max(max(costs.inputs, costs.without) for _, costs in pairs) or 1

    def bars() -> Iterator[Bar]:
        for name, costs in pairs:
            if not costs.calls:
                yield Bar(label(name, say), say("nothing to stand beside"))
                continue
            value = say(
                "{sent} for {before} without us · {effect}",
                sent=amounts.bare(costs.inputs),
                before=amounts.text(costs.without, say),
                effect=effect(costs),
            )
            parts = [
                Part("new", min(costs.inputs, costs.without) / most),
                Part("more", max(0.0, -costs.saved) / most),
                Part("track", max(0.0, costs.saved) / most),
            ]
            yield Bar(label(name, say), value, parts)

    key = [
        ("new", say("paid for inputs, and for our own calls")),
        ("track", say("saved: what the app alone would have paid more")),
    ]
    if any(costs.saved < 0 for _, costs in pairs):
        key.append(("more", say("paid more than without us")))
    caption = say(
        "The whole bar is what the app would have paid without us. Amounts are in {unit}.",
        unit=amounts.unit(say),
    )
    return Panel(say("Cost of inputs"), caption, key, list(bars()))


def _tokens(rows: Sequence[Row], say: Say) -> Panel:
    most = max(max(f.tokens_without, f.tokens_sent) for _, f in rows) or 1

    def bars() -> Iterator[Bar]:
        for name, f in rows:
            values = {
                "sent": short(f.tokens_sent),
                "before": short(f.tokens_without),
                "share": percent(abs(f.tokens_saved), f.tokens_without, PLACES),
            }
            value = (
                say("{sent} of {before} · {share} saved", **values)
                if f.tokens_saved >= 0
                else say("{sent} of {before} · {share} more than without us", **values)
            )
            parts = [
                Part("new", min(f.tokens_sent, f.tokens_without) / most),
                Part("more", max(0, -f.tokens_saved) / most),
                Part("track", max(0, f.tokens_saved) / most),
            ]
            yield Bar(label(name, say), value, parts)

    key = [
        ("new", say("sent to the model")),
        ("track", say("left out: what the app alone would have sent")),
    ]
    title, caption = (
        say("Tokens of all calls"),
        say("The whole bar is what the app alone would have sent."),
    )
    return Panel(title, caption, key, list(bars()))


def _input_sizes(rows: Sequence[Row], say: Say) -> Panel:
    most = max(f.tokens_sent / f.calls for _, f in rows) or 1

    def bars() -> Iterator[Bar]:
        for name, f in rows:
            value = say(
                "{tokens} tokens · {share} begin alike",
                tokens=short(f.tokens_sent // f.calls),
                share=cached_share(f),
            )
            if f.usage_told:
                each = short(round(f.prompt_tokens / f.usage_told))
                value += say(" · {tokens} as told", tokens=each)
            fresh, whole = f.tokens_sent - f.cached_prefix, f.calls * most
            parts = [Part("cached", f.cached_prefix / whole), Part("new", fresh / whole)]
            yield Bar(label(name, say), value, parts)

    key = [
        ("cached", say("same beginning as the call before")),
        ("new", say("new")),
    ]
    caption = say(
        "More green is cheaper: providers bill a cached prefix at a fraction, if it is long enough."
    )
    return Panel(say("Sent with one call, on average"), caption, key, list(bars()))


def _billed(rows: Sequence[Row], currency: str, say: Say) -> Panel:
    most = max((f.cost.amount for _, f in rows if f.cost), default=0) or 1

    def bars() -> Iterator[Bar]:
        for name, f in rows:
            paid = f.calls - f.from_cache
            priced = paid - (f.cost.unpriced if f.cost else 0)
            value = say("no price of its models")
            if f.cost and priced:
                per_thousand = money(1000 * f.cost.amount / priced, currency)
                value = say(
                    "{cost} · {each} for 1,000 calls",
                    cost=cost_text(f.cost, paid, currency, say),
                    each=per_thousand,
                )
            yield Bar(label(name, say), value, [Part("new", f.cost.amount / most if f.cost else 0)])

    caption = say("Inputs and answers by the price table, by the tokens that the provider told.")
    return Panel(say("Billed"), caption, [], list(bars()))


def _times(rows: Sequence[Row], say: Say) -> Panel:
    spreads = [s for _, f in rows for s in (f.latency_ms, f.first_token_ms) if s]
    most = max(spread.p95 for spread in spreads) or 1

    def bars() -> Iterator[Bar]:
        for name, f in rows:
            pairs = (("new", f.latency_ms), ("cached", f.first_token_ms))
            kind_spreads = [(kind, spread) for kind, spread in pairs if spread]
            texts = [_p50_p95(spread, kind, say) for kind, spread in kind_spreads]
            ranges = [Range(kind, s.p50 / most, s.p95 / most) for kind, s in kind_spreads]
            yield Bar(label(name, say), " · ".join(texts) or say("not told"), ranges=ranges)

    key = [("new", say("whole answer"))]
    if any(f.first_token_ms for _, f in rows):
        key.append(("cached", say("first token of a stream")))
    caption = say("From the dot (half are as fast) to the ring (95 of 100 are); left is faster.")
    return Panel(say("How long answers took"), caption, key, list(bars()))


def _p50_p95(spread: Spread, kind: str, say: Say) -> str:
    times = f"{milliseconds(spread.p50)} / {milliseconds(spread.p95)}"
    return times if kind == "new" else say("first token {times}", times=times)
