"""What calls cost beside what they would have cost without us, in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ce_engine.apps.present.amounts import PLACES, Amounts, effect, model_names
from ce_engine.apps.present.bill_lines import bill_words, usage_of
from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.output import change, number, percent
from ce_engine.audit.compare.costs import (
    Bill,
    Costs,
    as_told,
    bill_of,
    costs,
    has_usage,
    is_free,
    unpriced_models,
)
from ce_engine.audit.compare.figures import Figures, figures
from ce_engine.audit.compare.records import OWN, CallRecord
from ce_engine.sessions.spending import WORDS
from ce_engine.text.tokens.prices import PriceTable, UnitPrices


NAMED = 3
"""Turns that a cause names, those that lost the most."""


@dataclass(frozen=True, slots=True)
class DearerTurn:
    """A turn that became dearer than without us.

    Attributes:
        turn: its number.
        more: by how much, with the unit.
        share: the same as a share of what it would have cost.
        cause: why, in words.
        loss: the amount, to sort by.
    """

    turn: int
    more: str
    share: str
    cause: str
    loss: float


@dataclass(frozen=True, slots=True)
class CostCells:
    """What the input of a turn cost, as a table has it.

    Attributes:
        sent: by our own count.
        effect: how much that is more or less than without us.
        is_dearer: whether it became dearer.
        billed: by what its provider told.
        prompt: tokens of it, as the provider told; `None` where it did not.
        cached: tokens that the provider told to have had in its cache; `None` where it did not.
    """

    sent: str
    effect: str
    is_dearer: bool
    billed: str
    prompt: int | None
    cached: int | None


@dataclass(frozen=True)
class SessionCosts:
    """A session's calls with what they cost; the first are those of its turns, whose numbers are `turns`."""

    calls: Sequence[CallRecord]
    costs: Costs
    turns: Sequence[int]

    @classmethod
    def of(
        cls, calls: Sequence[CallRecord], prices: PriceTable, turns: Sequence[int]
    ) -> SessionCosts:
        return cls(calls, costs(calls, prices), turns)

    @cached_property
    def figures(self) -> Figures:
        """The sums, as a comparison has them."""
        return figures(self.calls, self.costs.prices)

    @cached_property
    def bill(self) -> Bill:
        """What the calls cost by what their providers told."""
        return bill_of(self.calls, self.costs.prices)

    @cached_property
    def amounts(self) -> Amounts:
        """Writes amounts of single calls."""
        return Amounts.of(self.costs.prices, (cost.sent for cost in self.costs.calls))

    @cached_property
    def sums(self) -> Amounts:
        """Writes amounts of all calls together."""
        return Amounts.of(self.costs.prices, [self.figures.beside.inputs])

    def source(self, say: Say = ENGLISH) -> str:
        """What amounts are in, and the models of which no price is known."""
        table, text = self.costs.prices, self.amounts.source(say)
        if not isinstance(table, UnitPrices):
            return text
        models = model_names(unpriced_models(self.calls, table.base), say)
        return text + say("; ") + say("no price is known of: {models}", models=models)

    def amount(self, value: float) -> str:
        """An amount of the session's money, without its unit."""
        return self.amounts.bare(value)

    def cells(self, place: int) -> tuple[str, str, str]:
        """A turn's cost, what it would have been, and how much that changed."""
        cost = self.costs.calls[place]
        if cost.untouched is None:
            return self.amount(cost.sent), "-", "-"
        return (
            self.amount(cost.sent),
            self.amount(cost.untouched),
            change(cost.sent, cost.untouched),
        )

    def billed(self, place: int) -> str:
        """What the input of a call cost by what its provider told; a dash where it told nothing."""
        cost = self.bill.inputs.get(place)
        return "-" if cost is None else self.amount(cost)

    def cells_of(self, turns: Collection[int]) -> dict[int, CostCells]:
        """What some turns cost, by their numbers."""
        return {turn: self._cells_of(self._places[turn]) for turn in turns}

    def _cells_of(self, place: int) -> CostCells:
        sent, _, effect_of = self.cells(place)
        is_told, call = place in self.bill.inputs, self.calls[place]
        prompt, cached = (call.prompt, call.cached) if is_told else (None, None)
        is_dearer = self.costs.calls[place].is_dearer
        return CostCells(sent, effect_of, is_dearer, self.billed(place), prompt, cached)

    def sent_of(self, turn: int) -> float:
        """What the input of a turn cost."""
        return self.costs.calls[self._places[turn]].sent

    def prompt_of(self, turn: int) -> int:
        """The tokens of a turn's input as its provider told; -1 where it did not."""
        place = self._places[turn]
        return (self.calls[place].prompt or 0) if place in self.bill.inputs else -1

    def billed_of(self, turn: int) -> float:
        """What the input of a turn cost by what its provider told; -1 where it told nothing."""
        return self.bill.inputs.get(self._places[turn], -1.0)

    def more_of(self, turn: int) -> float:
        """How much dearer the input of a turn was than without us; below 0 what it saved."""
        return self.costs.calls[self._places[turn]].more

    @cached_property
    def _places(self) -> dict[int, int]:
        """Where the call of each turn stands, by the turn's number."""
        return {turn: place for place, turn in enumerate(self.turns)}

    def dearer_turns(self, say: Say = ENGLISH) -> list[DearerTurn]:
        """All turns that became dearer, in their order."""
        rows = zip(self.turns, self.calls, self.costs.calls, strict=False)  # our own stand last
        return [
            DearerTurn(
                turn,
                self.amounts.text(cost.more, say),
                change(cost.sent, cost.untouched or 0.0, PLACES),
                cause_words(cost.cause, say),
                cost.more,
            )
            for turn, _, cost in rows
            if cost.is_dearer
        ]

    def headline(self, say: Say = ENGLISH) -> str:
        """What to know first: that it became dearer, and why; `""` where it did not."""
        if not self.is_dearer:
            return ""
        sums = self.figures.beside
        return say(
            "DEARER than without us: {now} for {before} ({change}): {causes}",
            now=self.sums.bare(sums.inputs),
            before=self.sums.bare(sums.without),
            change=effect(sums),
            causes=self.causes(say),
        ) + self.cache_assumption(say)

    def cache_assumption(self, say: Say = ENGLISH) -> str:
        """What a cached token is taken to cost, on which it depends what is dearer; `""` where no price has one."""
        table = self.costs.prices
        prices = {table.of(call.model, call.provider) for call in self.calls if not is_free(call)}
        shares = sorted(
            {
                round(100 * price.cached / price.input)
                for price in prices
                if price is not None and price.input and price.cached is not None
            }
        )
        if not shares:
            return ""
        share = "–".join(dict.fromkeys(f"{percentage}" for percentage in (shares[0], shares[-1])))
        return say(" [if a cached token costs {share} % of a new one]", share=share)

    def _uncached(self, say: Say) -> str:
        """What is taken of caches, and the sums of the compared calls as they were, were nothing cached."""
        table = self.costs.prices
        bare = [replace(call, prefix=0, untouched_prefix=0, cached=None) for call in self.calls]
        sums = figures(bare, table).beside
        is_told = any(call.cached is not None for call in self.calls)
        return say(
            "that without us a provider had cached as much of what begins alike as it told to have, and all of it where it told nothing{share}; were nothing cached: {now} for inputs, {before} without us"
            if is_told
            else "that a provider caches what begins like the call before{share}; were nothing cached: {now} for inputs, {before} without us",
            share=self.cache_assumption(say),
            now=self.sums.bare(sums.inputs),
            before=self.sums.bare(sums.without),
        )

    @property
    def is_dearer(self) -> bool:
        """Whether all of it together became dearer than without us."""
        return self.costs.is_dearer

    def causes(self, say: Say = ENGLISH) -> str:
        """What was lost, cause by cause, with the turns that lost the most."""
        return say("; ").join(
            cause_words(cause, say)
            + self._turns(cause, say)
            + say(" ({text})", text=f"+{self.amount(amount)}")
            for cause, amount in self.costs.losses.items()
        )

    def _turns(self, cause: str, say: Say) -> str:
        rows = zip(self.turns, self.calls, self.costs.calls, strict=False)  # our own stand last
        turns = sorted(
            (-cost.more, turn) for turn, _, cost in rows if cost.cause == cause and cost.is_dearer
        )
        if not turns:
            return ""
        numbers = sorted(turn for _, turn in turns[:NAMED])
        more = (
            say(" and {count} more turn", " and {count} more turns", count=len(turns) - NAMED)
            if len(turns) > NAMED
            else ""
        )
        text = ", ".join(map(number, numbers))
        return say(" at turn {turns}", " at turns {turns}", count=len(turns), turns=text) + more

    def lines(self, say: Say = ENGLISH) -> Iterator[tuple[str, str]]:
        """The sums, what they are in, and what they leave out, as named lines."""
        totals, app_calls = self.costs, [c for c in self.calls if c.agent != OWN]
        if self.bill.inputs:
            yield say("as told"), bill_words(self.bill, self.sums, say)
        if totals.apart < len(app_calls):
            yield say("cost"), self._sums(len(self.calls) - len(app_calls), say)
            yield say("prices"), self.source(say)
        if totals.apart:
            cost = self.sums.bare(totals.sent - totals.compared)
            yield (
                say("apart"),
                say(
                    "{calls} with nothing to stand beside: the app leaves their history to us, or an older "
                    "release recorded them; their inputs, {cost}, count alike with us and without",
                    calls=_calls(totals.apart, say),
                    cost=cost,
                ),
            )
        if totals.by_talk:
            yield (
                say("by hand"),
                say(
                    "{calls} by hand, where we keep the talk: beside them stands the cost of sending all of it each "
                    "time, with the rules that the app stored and the evidence that it recorded for each question",
                    calls=_calls(totals.by_talk, say),
                ),
            )
        if not self.is_dearer and totals.losses:
            yield say("dearer"), self.causes(say)
        if totals.losses:
            yield say("assumed"), self._uncached(say)

    def _sums(self, own: int, say: Say) -> str:
        totals = self.costs
        now, before = self.figures.beside.inputs, self.figures.beside.without
        included = say(", {calls} of our own included", calls=_calls(own, say))
        return say(
            "{now} for inputs{own}, {before} without us · {effect} · answers {answers}",
            now=self.sums.bare(now),
            own=included if totals.own else "",
            before=self.sums.bare(before),
            effect=saved(now, before, self.sums.bare, say),
            answers=self._answers(say),
        )

    def _answers(self, say: Say) -> str:
        count = self.costs.estimated
        remark = say(" ({calls} estimated)", calls=_calls(count, say)) if count else ""
        return f"{'~' if remark else ''}{self.sums.bare(self.costs.answers)}{remark}"


def saved(
    now: float,
    before: float,
    amount: Callable[[float], str] = "{:,.0f}".format,
    say: Say = ENGLISH,
) -> str:
    """How much less `now` is than `before`, or how much more."""
    if now <= before:
        share = percent(before - now, before, PLACES)
        return say("saved {less} ({share})", less=amount(before - now), share=share)
    return say(
        "{more} more ({change})", more=amount(now - before), change=change(now, before, PLACES)
    )


def cause_words(cause: str, say: Say = ENGLISH) -> str:
    """What made a call dearer, in words."""
    return say(WORDS.get(cause, cause))


def _calls(count: int, say: Say) -> str:
    return say("{count} call", "{count} calls", count=count)


def turn_lines(spent: SessionCosts, place: int, say: Say = ENGLISH) -> Iterator[tuple[str, str]]:
    """What one turn cost, and what it is made of, as named lines."""
    call, cost, prices = spent.calls[place], spent.costs.calls[place], spent.costs.prices
    price = prices.of(call.model, call.provider)
    least = price.cached_from if price is not None else 0
    sent_text = spent.amounts.text(cost.sent, say)
    if cost.untouched is not None:
        more = change(cost.sent, cost.untouched, PLACES)
        sent_text = say("{sent} ({more} beside without us)", sent=sent_text, more=more)
    usage = _usage(spent, place, say)
    if usage:
        yield say("as told"), usage
    yield say("input cost"), f"{sent_text}{say(': ')}{_sent_words(call, least, say)}"
    if cost.untouched is None:
        yield say("without us"), say("nobody can say: the app leaves its history to us")
    else:
        content_words = say("all of the talk, ") if call.beside == "talk" else ""
        if call.put_in:
            content_words = say(
                "all of the talk, and {count} tokens of rules and evidence that the app put in, ",
                count=call.put_in,
            )
        composition = _made_of(call, call.untouched or 0, call.untouched_prefix, least, say)
        without = spent.amounts.text(cost.untouched, say)
        yield say("without us"), f"{without}{say(': ')}{content_words}{composition}"
        if cost.is_dearer:
            yield (
                say("dearer"),
                say(
                    "by {more}: {cause}",
                    more=spent.amounts.text(cost.more, say),
                    cause=cause_words(cost.cause, say),
                )
                + spent.cache_assumption(say),
            )
    if not usage:
        yield from _answer(spent, place, say)
    yield say("prices"), spent.source(say)


def _usage(spent: SessionCosts, place: int, say: Say) -> str:
    """What the provider told of a call, priced; `""` where it told nothing."""
    cost, answer = spent.bill.inputs.get(place), spent.costs.calls[place].answer
    if cost is None:
        return ""
    return usage_of(spent.calls[place], cost, answer, spent.amounts, say)


def _answer(spent: SessionCosts, place: int, say: Say) -> Iterator[tuple[str, str]]:
    """What the answer of a call cost."""
    call, cost = spent.calls[place], spent.costs.calls[place]
    if call.completion:
        qualifier = say("about ") if call.estimated else ""
        more = say(" (estimated: nobody told)") if qualifier else ""
        tokens = say("{count} token", "{count} tokens", count=call.completion)
        yield (
            say("answer"),
            f"{qualifier}{spent.amounts.text(cost.answer, say)}{say(': ')}{tokens}{more}",
        )


def _sent_words(call: CallRecord, least: int, say: Say) -> str:
    """What an input is made of, and by whom it is known what of it was cached."""
    is_told = call.cached is not None and has_usage(call)
    was_cached = is_told and bool(call.cached)  # whatever we think of what is enough
    text = _made_of(call, call.sent, call.prefix, 0 if was_cached else least, say)
    return text + (say("; cached as its provider told") if is_told else "")


def _made_of(call: CallRecord, tokens: int, prefix: int | None, least: int, say: Say) -> str:
    """Tokens, how many of them are as before, and whether the call's provider counts fewer than the `least` it caches."""
    if prefix is None:
        return say("{tokens} tokens, with none before it to begin like", tokens=tokens)
    by_provider = as_told(call, prefix)
    few = ""
    if 0 < by_provider < least:
        few = say(", too few to be cached (from {least} on)", least=least)
        if prefix >= least:
            few = say(", about {told} as the provider counts", told=by_provider) + few
    return say(
        "{tokens} tokens, of which {prefix} are the same as before{few}",
        tokens=tokens,
        prefix=prefix,
        few=few,
    )


__all__ = ["DearerTurn", "SessionCosts", "cause_words", "saved", "turn_lines"]
