"""The figures of a comparison as lines of text: for the terminal, for CSV, and for the page."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ce_engine.apps.present.amounts import (
    Amounts,
    cacheable_tokens,
    cached_tokens,
    effect,
    model_names,
    saved_amount,
    saved_tokens,
)
from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.output import number, percent
from ce_engine.apps.present.report_lines import code_words
from ce_engine.audit.compare.figures import Comparison, Cost, Figures, Spread
from ce_engine.audit.compare.records import TAG


NONE = "(none)"
"""Stands for the name of the calls that have none."""


@dataclass(frozen=True, slots=True)
class Line:
    """A figure with its title, how it is printed, and what it means; `bad` ones are better 0."""

    title: str
    text: Callable[[Figures], str]
    meaning: str
    bad: Callable[[Figures], bool] = lambda _: False


def label(name: str, say: Say = ENGLISH) -> str:
    """A group's name, or what stands for none."""
    return name or say(NONE)


def subject(by: str) -> str:
    """What the names of the groups are."""
    return f"tag {by.removeprefix(TAG)}" if by.startswith(TAG) else by


def milliseconds(value: int) -> str:
    """A time; in seconds from one on."""
    return f"{value} ms" if value < 1000 else f"{value / 1000:.1f} s"


def money(amount: float, currency: str) -> str:
    """An amount with as many places as it takes to see it."""
    places = 2 if amount >= 1 or not amount else 4
    return f"{amount:,.{places}f} {currency}"


def cost_text(cost: Cost | None, calls: int, currency: str, say: Say = ENGLISH) -> str:
    """What a group cost; a dash where no call has a price, and a word where some have none."""
    if cost is None or (calls and cost.unpriced == calls):
        return "-"
    amount = money(cost.amount, currency)
    if not cost.unpriced:
        return amount
    return say("{amount} + {count} unpriced", amount=amount, count=cost.unpriced)


def _spread(spread: Spread | None) -> str:
    return f"{milliseconds(spread.p50)} / {milliseconds(spread.p95)}" if spread else "-"


def _of(part: int, whole: int) -> str:
    return f"{number(part)} ({percent(part, whole)})" if whole else number(part)


def amounts_of(comparison: Comparison) -> Amounts:
    """Writes what the groups cost, all with as many places as the dearest needs."""
    groups = [comparison.total, *comparison.groups.values()]
    return Amounts.of(comparison.table, (group.beside.inputs for group in groups))


def lines(comparison: Comparison, say: Say = ENGLISH) -> Iterator[Line]:
    """The lines of a comparison, in order."""
    total = comparison.total
    yield from sums(total, amounts_of(comparison), say)
    yield Line(
        say("failed"),
        lambda f: _of(f.failed, f.calls) if f.failed else "0",
        say("calls that ended with an error"),
        lambda f: bool(f.failed),
    )
    if total.unfinished:
        meaning = say("calls that were left or cancelled before their end")
        yield Line(say("unfinished"), lambda f: number(f.unfinished), meaning)
    yield from _as_told(total, say)
    meaning = say("as the provider told")
    yield Line(say("tokens answered"), lambda f: number(f.completion_tokens), meaning)
    yield from _times(comparison, say)
    yield from _quality(say)


def _as_told(total: Figures, say: Say) -> Iterator[Line]:
    """What providers told of inputs."""
    if total.usage_told:
        meaning = say(
            "tokens of the inputs as their provider counts, and those of a call on average"
        )
        yield Line(say("input, as told"), lambda f: _input_as_told(f, say), meaning)
    if total.provider_cached is not None:
        meaning = say("tokens that the provider had in its cache, as it told")
        yield Line(say("cached, as told"), lambda f: _cached_as_told(f, say), meaning)


def _input_as_told(figures: Figures, say: Say) -> str:
    if not figures.usage_told:
        return say("not told")
    each = round(figures.prompt_tokens / figures.usage_told)
    return say("{tokens} · {each} a call", tokens=number(figures.prompt_tokens), each=number(each))


def _cached_as_told(figures: Figures, say: Say) -> str:
    if figures.provider_cached is None:
        return say("not told")
    return _of(figures.provider_cached, figures.prompt_tokens)


def sums(total: Figures, amounts: Amounts, say: Say = ENGLISH) -> Iterator[Line]:
    """The lines that every page and command has, each with the same meaning: calls, tokens, what they cost."""
    meaning = say("model calls; retries stay in their call")
    yield Line(say("calls"), lambda f: number(f.calls), meaning)
    if total.own:
        meaning = say("of these, made by the engine itself, such as summaries")
        yield Line(say("our own"), lambda f: number(f.own), meaning)
    yield Line(say("sessions"), lambda f: number(f.sessions), say("sessions that they are of"))
    meaning = say("input that went out, by our count")
    yield Line(say("tokens sent"), lambda f: number(f.tokens_sent), meaning)
    meaning = say("what the app's own input would be")
    yield Line(say("tokens without us"), lambda f: number(f.tokens_without), meaning)
    meaning = say("the difference; below 0, more was brought in than left out")
    yield Line(say("tokens saved"), saved_tokens, meaning)
    meaning = say("leading tokens equal to the call before")
    yield Line(say("begins alike"), cached_tokens, meaning)
    meaning = say("those of them in prefixes as long as a provider caches")
    yield Line(say("cacheable"), cacheable_tokens, meaning)
    yield from _costs(total, amounts, say)


def _costs(total: Figures, amounts: Amounts, say: Say) -> Iterator[Line]:
    unit = amounts.unit(say)
    yield Line(
        say("cost of inputs, {unit}", unit=unit),
        lambda f: amounts.bare(f.beside.inputs),
        say("as sent, and our own calls; cached as told, else what begins alike"),
    )
    yield Line(
        say("without us, {unit}", unit=unit),
        lambda f: amounts.bare(f.beside.without) if f.beside.calls else "-",
        say("what the app would have paid for the same calls, as much of it cached"),
    )
    yield Line(
        say("cost saved, {unit}", unit=unit),
        lambda f: saved_amount(f.beside, amounts),
        say("the difference; below 0, it became dearer"),
        lambda f: f.beside.is_dearer,
    )
    yield Line(
        say("effect on cost, in units") if amounts.prices.is_units else say("effect on cost"),
        lambda f: effect(f.beside),
        say("the same beside what it would have cost"),
        lambda f: f.beside.is_dearer,
    )
    meaning = say("single calls whose input cost over 1 % more than without us")
    yield Line(say("dearer calls"), lambda f: _of(f.beside.dearer, f.beside.calls), meaning)
    meaning = say("what came back; it costs the same without us")
    yield Line(
        say("cost of answers, {unit}", unit=unit), lambda f: amounts.bare(f.beside.answers), meaning
    )
    if total.beside.apart:
        meaning = say(
            "inputs of calls with nothing to stand beside: they count alike with us and without"
        )
        yield Line(
            say("not comparable, {unit}", unit=unit),
            lambda f: amounts.bare(f.beside.apart_sent) if f.beside.apart else "-",
            meaning,
        )


def _times(comparison: Comparison, say: Say) -> Iterator[Line]:
    if comparison.prices:
        currency = comparison.prices.currency
        yield Line(
            say("billed"),
            lambda f: cost_text(f.cost, f.calls - f.from_cache, currency, say),
            say("inputs and answers by the price table, by the tokens that the provider told"),
        )
    meaning = say("of whole answers")
    yield Line(say("latency p50 / p95"), lambda f: _spread(f.latency_ms), meaning)
    meaning = say("of streams")
    yield Line(say("first token p50 / p95"), lambda f: _spread(f.first_token_ms), meaning)
    meaning = say("calls with messages left out or shortened")
    yield Line(say("pruned"), lambda f: _of(f.pruned, f.calls), meaning)


def _quality(say: Say) -> Iterator[Line]:
    yield Line(
        say("over budget, our count"),
        lambda f: number(f.over_budget),
        say("calls in which what must stay was more than the budget"),
        lambda f: bool(f.over_budget),
    )
    meaning = say("tools and retrievals that ran")
    yield Line(say("tool calls"), lambda f: number(f.tool_calls), meaning)
    yield Line(
        say("tool errors"),
        lambda f: _of(f.tool_errors, f.tool_calls) if f.tool_errors else "0",
        say("those that did not succeed"),
        lambda f: bool(f.tool_errors),
    )
    meaning = say("pieces that answers rest on or were given")
    yield Line(say("evidence used"), lambda f: number(f.evidence_used), meaning)
    meaning = say("pieces with something redacted")
    yield Line(say("redactions"), lambda f: number(f.redactions), meaning)
    yield Line(
        say("degradations"),
        lambda f: number(f.degradations),
        say("times that we did less than asked"),
        lambda f: bool(f.degradations),
    )


def notes(comparison: Comparison, say: Say = ENGLISH) -> Iterator[str]:
    """What a reader must know so as not to be misled."""
    total = comparison.total
    missing = total.calls - total.from_cache - total.usage_told - total.failed_untold
    if missing > 0:
        yield say(
            "of {count} calls no provider told the tokens: our own count stands for it",
            count=missing,
        )
    if total.failed_untold:
        yield say(
            "{count} call failed, and no provider told its tokens: it counts as costing nothing",
            "{count} calls failed, and no provider told their tokens: they count as costing nothing",
            count=total.failed_untold,
        )
    if total.from_cache:
        yield say(
            "{count} calls were answered from the app's own cache: nothing was sent",
            count=total.from_cache,
        )
    if total.calls:
        yield say("Costs are in {money}", money=amounts_of(comparison).source(say))
    if comparison.unpriced and comparison.table.is_units:
        models = model_names(comparison.unpriced, say)
        yield say("no price is known of: {models}", models=models)
    if total.beside.apart:
        yield say(
            "{count} call stands beside nothing, since the app leaves its history to us: {tokens} tokens count alike with us and without",
            "{count} calls stand beside nothing, since the app leaves their history to us: {tokens} tokens count alike with us and without",
            tokens=total.tokens_apart,
            count=total.beside.apart,
        )
    yield from _billed_notes(comparison, say)
    for code, times in total.degradation_codes.items():
        meaning = code_words(code, say)
        suffix = say(": ") + meaning if meaning != code else ""
        yield say("{code} {count} time", "{code} {count} times", code=code, count=times) + suffix


def _billed_notes(comparison: Comparison, say: Say) -> Iterator[str]:
    """Of which calls it is not known what was billed, and of which it is taken."""
    total = comparison.total
    if total.cost and total.cost.unpriced:
        models = model_names(total.cost.unpriced_models, say)
        yield say("{count} calls have no price: {models}", count=total.cost.unpriced, models=models)
    if comparison.prices and total.cached_untold:
        yield say(
            "of {count} calls that begin like the one before no provider told what it had cached: the cost takes it that this was, "
            "where it is as long as their model caches",
            count=total.cached_untold,
        )


COLUMNS = (
    "calls",
    "sessions",
    "failed",
    "unfinished",
    "retries",
    "from_cache",
    "tokens_sent",
    "tokens_before",
    "tokens_saved",
    "cached_prefix",
    "cacheable",
    "prompt_tokens",
    "completion_tokens",
    "provider_cached",
    "usage_told",
    "pruned",
    "left_out",
    "shortened",
    "over_budget",
    "tool_calls",
    "tool_errors",
    "evidence_used",
    "redactions",
    "degradations",
)
_SPREADS = ("latency_ms", "first_token_ms")


def csv_text(comparison: Comparison) -> str:
    """A row a group, with plain numbers under the names that `--json` has."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    spreads = [f"{name}_{part}" for name in _SPREADS for part in ("p50", "p95", "n")]
    costs = ["cost", "cost_unpriced", "currency", "compared_sent", "compared_untouched", "unit"]
    writer.writerow([comparison.by, *COLUMNS, *spreads, *costs])
    for name, figures in comparison.groups.items():
        row: list[object] = [_harmless(name), *(getattr(figures, column) for column in COLUMNS)]
        for spread in (figures.latency_ms, figures.first_token_ms):
            row += [spread.p50, spread.p95, spread.n] if spread else ["", "", 0]
        cost, prices = figures.cost, comparison.prices
        row += [cost.amount, cost.unpriced, prices.currency] if cost and prices else ["", "", ""]
        row += [figures.beside.sent, figures.beside.untouched, comparison.unit]
        writer.writerow(row)
    return out.getvalue()


def _harmless(name: str) -> str:
    """A stored name as a cell that no spreadsheet takes for a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name
