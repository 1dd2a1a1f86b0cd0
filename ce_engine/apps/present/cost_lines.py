"""What calls cost beside what they would have cost without us, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.output import change, number, percent
from ce_engine.audit.compare.costs import Costs, costs
from ce_engine.audit.compare.records import OWN, CallRecord
from ce_engine.sessions.spending import WORDS
from ce_engine.text.tokens.prices import LISTED, RELATIVE, PriceTable


SLIGHT = 0.01
"""A share by which nothing has become dearer."""

NAMED = 3
"""Turns that a cause names, those that lost the most."""


@dataclass(frozen=True, slots=True)
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

    def amount(self, value: float) -> str:
        """An amount of the session's money, with as many places as its calls need."""
        if self.costs.prices is RELATIVE:
            return f"{value:,.0f}"
        largest = max((cost.sent for cost in self.costs.each), default=0.0)
        return f"{value:,.{2 if largest >= 1 else 4 if largest >= 0.01 else 6}f}"

    def cells(self, place: int) -> tuple[str, str, str]:
        """A turn's cost, what it would have been, and how much that changed."""
        cost = self.costs.each[place]
        if cost.untouched is None:
            return self.amount(cost.sent), "-", "-"
        return (
            self.amount(cost.sent),
            self.amount(cost.untouched),
            change(cost.sent, cost.untouched),
        )

    def headline(self, say: Say = ENGLISH) -> str:
        """What to know first: that it became dearer, and why; `""` where it did not."""
        found = self.costs
        if not self.is_dearer:
            return ""
        now = found.compared + found.own
        return say(
            "DEARER than without us: {now} for {before} ({change}): {causes}",
            now=self.amount(now),
            before=self.amount(found.untouched),
            change=change(now, found.untouched),
            causes=self.causes(say),
        )

    @property
    def is_dearer(self) -> bool:
        """Whether it is so much dearer that a percentage shows it."""
        return self.costs.more > SLIGHT * self.costs.untouched

    def causes(self, say: Say = ENGLISH) -> str:
        """What was lost, cause by cause, with the turns that lost the most."""
        return "; ".join(
            f"{cause_words(cause, say)}{self._turns(cause, say)} (+{self.amount(lost)})"
            for cause, lost in self.costs.lost.items()
        )

    def _turns(self, cause: str, say: Say) -> str:
        theirs = zip(self.turns, self.calls, self.costs.each, strict=False)  # our own stand last
        turns = sorted(
            (-cost.more, turn)
            for turn, call, cost in theirs
            if call.cause == cause and cost.more > 0
        )
        if not turns:
            return ""
        named = sorted(turn for _, turn in turns[:NAMED])
        more = say(" and {more} more", more=len(turns) - NAMED) if len(turns) > NAMED else ""
        told = ", ".join(map(number, named))
        return say(" at turn {turns}", " at turns {turns}", count=len(turns), turns=told) + more

    def lines(self, say: Say = ENGLISH) -> Iterator[tuple[str, str]]:
        """The sums, what they are in, and what they leave out, as named lines."""
        found, theirs = self.costs, [c for c in self.calls if c.agent != OWN]
        if found.apart < len(theirs):
            yield say("cost"), self._sums(len(self.calls) - len(theirs), say)
            yield "", say("in {money}", money=self._money(say))
        if found.apart:
            cost = self.amount(found.sent - found.compared)
            yield (
                say("apart"),
                say(
                    "{calls} with nothing to stand beside: the app leaves their history to us, or an older "
                    "release recorded them; their inputs cost {cost}",
                    calls=_calls(found.apart, say),
                    cost=cost,
                ),
            )
        if found.by_talk:
            yield (
                say("by hand"),
                say(
                    "{calls} by hand, where we keep the talk: beside them stands the cost of sending all "
                    "of it each time",
                    calls=_calls(found.by_talk, say),
                ),
            )
        if not self.is_dearer and found.lost:
            yield say("dearer"), self.causes(say)

    def _sums(self, own: int, say: Say) -> str:
        found = self.costs
        now, before = found.compared + found.own, found.untouched
        included = say(", {calls} of our own included", calls=_calls(own, say))
        return say(
            "{now} for inputs{own}, {before} without us · {effect} · answers {answers}",
            now=self.amount(now),
            own=included if found.own else "",
            before=self.amount(before),
            effect=saved(now, before, self.amount, say),
            answers=self._answers(say),
        )

    def _answers(self, say: Say) -> str:
        count = self.costs.estimated
        told = say(" ({calls} estimated)", calls=_calls(count, say)) if count else ""
        return f"{'~' if told else ''}{self.amount(self.costs.answers)}{told}"

    def _money(self, say: Say) -> str:
        prices = self.costs.prices
        if prices is RELATIVE:
            return say("input tokens at full price, a cached one a tenth (--prices FILE for money)")
        listed = say(" at list prices (--prices FILE for yours)") if prices is LISTED else ""
        return f"{prices.currency}{listed}"


def saved(
    now: float,
    before: float,
    amount: Callable[[float], str] = "{:,.0f}".format,
    say: Say = ENGLISH,
) -> str:
    """How much less `now` is than `before`, or how much more."""
    if now <= before:
        share = percent(before - now, before)
        return say("saved {less} ({share})", less=amount(before - now), share=share)
    return say("{more} more ({change})", more=amount(now - before), change=change(now, before))


def cause_words(cause: str, say: Say = ENGLISH) -> str:
    """What made a call dearer, in words."""
    return say(WORDS.get(cause, cause))


def _calls(count: int, say: Say) -> str:
    return say("{count} call", "{count} calls", count=count)


def turn_lines(spent: SessionCosts, place: int, say: Say = ENGLISH) -> Iterator[tuple[str, str]]:
    """What one turn cost, and what it is made of, as named lines."""
    call, cost, prices = spent.calls[place], spent.costs.each[place], spent.costs.prices
    price = prices.of(call.model, call.provider)
    least = price.cached_from if price is not None else 0
    sent, without, effect = spent.cells(place)
    money = say(prices.currency)
    yield say("cost"), f"{sent} {money}: {_made_of(call.sent, call.prefix, least, say)}"
    if cost.untouched is None:
        yield say("without us"), say("nobody can say: the app leaves its history to us")
    else:
        what = say("all of the talk, ") if call.beside == "talk" else ""
        made = _made_of(call.untouched or 0, call.untouched_prefix, least, say)
        yield say("without us"), f"{without} ({effect}): {what}{made}"
        if cost.more > 0:
            yield (
                say("dearer"),
                say(
                    "by {more}: {cause}",
                    more=spent.amount(cost.more),
                    cause=cause_words(call.cause, say),
                ),
            )
    if call.completion:
        told = say("about ") if call.estimated else ""
        more = say(" (estimated: nobody told)") if told else ""
        tokens = say("{count} token", "{count} tokens", count=call.completion)
        yield say("answer"), f"{told}{spent.amount(cost.answer)}: {tokens}{more}"


def _made_of(tokens: int, prefix: int | None, least: int, say: Say) -> str:
    if prefix is None:
        return say("{tokens} tokens, with none before it to begin like", tokens=tokens)
    few = say(", too few to be cached (from {least} on)", least=least) if 0 < prefix < least else ""
    return say(
        "{tokens} tokens, of which {prefix} are the same as before{few}",
        tokens=tokens,
        prefix=prefix,
        few=few,
    )


__all__ = ["SessionCosts", "cause_words", "saved", "turn_lines"]
