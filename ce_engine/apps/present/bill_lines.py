"""What providers told of calls, in words: tokens, what they had cached, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from ce_engine.apps.present.amounts import PLACES, Amounts
from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.output import percent
from ce_engine.apps.present.turns import BROKEN
from ce_engine.audit.compare.costs import Bill, has_usage, prefix_as_told
from ce_engine.audit.compare.records import CallRecord
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.times import parse_time
from ce_engine.text.tokens.calibration import CALIBRATION_MIN_TOKENS
from ce_engine.text.tokens.prices import PriceTable


_NOTABLE = 1.1
"""A provider that counts so many times our tokens, or more, is said to."""


@dataclass(frozen=True, slots=True)
class UncachedTurn:
    """A turn of which the provider had nothing in its cache, as it told.

    Attributes:
        turn: its number.
        whose: who is the cause, in words.
        cause: how far it began like the call before, and what ended that, in words.
    """

    turn: int
    whose: str
    cause: str


_KEPT = timedelta(minutes=10)
"""Providers keep what nobody asks for about so long."""

WHOSE = {
    "system": "the app",
    "app": "the app",
    "tools": "the app",
    "rules": "a rule",
}
"""Whose doing it is that an input begins otherwise than the one before; else it is ours."""


def uncached_turns(
    calls: Sequence[CallRecord],
    rows: Sequence[TurnRow],
    turns: Sequence[int],
    prices: PriceTable,
    say: Say = ENGLISH,
) -> list[UncachedTurn]:
    """The turns of which nothing was cached, in their order.

    Args:
        calls: of the turns; others may follow.
        rows: all turns of the session.
        turns: their numbers in it, a call each.
        prices: say how long a beginning their models cache at least.
        say: the reader's language.
    """
    found, before = list[UncachedTurn](), dict[str, CallRecord]()
    for turn, call in zip(turns, calls, strict=False):
        row = rows[turn - 1]
        if has_usage(call) and call.cached == 0:
            price = prices.of(call.model, call.provider)
            least = price.cached_from if price is not None else 0
            found.append(UncachedTurn(turn, *_cause(call, before.get(row.lane), row, least, say)))
        before[row.lane] = call
    return found


def _cause(
    call: CallRecord, before: CallRecord | None, row: TurnRow, least: int, say: Say
) -> tuple[str, str]:
    """Whose doing it is, and why; `least` is how long a beginning the model caches at least, 0 where that is not known."""
    if call.prefix is None or before is None:
        return "", say("none before it to begin like")
    if (before.model, before.provider) != (call.model, call.provider):
        return say("the app"), say(
            "another model than the call before: {model}", model=before.model
        )
    if 0 < (call.prompt or 0) < least:
        return "", say("too short for its cache, which begins at {least}", least=least)
    by_provider = prefix_as_told(call)
    alike = say(
        "{prefix} tokens are the same as before, about {told} as the provider counts",
        prefix=call.prefix,
        told=by_provider,
    )
    if 0 < least <= by_provider:
        enough = say("; enough for its cache, which begins at {least}", least=least)
        return _forgotten(before, call, say), alike + enough
    cause = BROKEN.get(broken_by := row.report.get("prefix_broken_by", ""))
    end = say("; then {cause}", cause=say(cause)) if cause else ""
    if not least:  # nobody knows how many are enough
        return "", alike + end
    few = say("; too few for its cache, which begins at {least}", least=least)
    return say(WHOSE.get(broken_by, "ours")) if cause else "", alike + end + few


def _forgotten(before: CallRecord, call: CallRecord, say: Say) -> str:
    """Why a provider had not what it might have had: a cache forgets what nobody asks for in a while."""
    at, earlier = parse_time(call.at), parse_time(before.at)
    if at is None or earlier is None or at - earlier < _KEPT:
        return say("the provider")
    minutes = round((at - earlier).total_seconds() / 60)
    return say("the pause of {minutes} min", minutes=minutes)


def bill_words(bill: Bill, amounts: Amounts, say: Say = ENGLISH) -> str:
    """What the calls cost by what their providers told, beside our own count of the same inputs."""
    text = say(
        "{amount}: {inputs} for {tokens}, {answers} for answers of {completion} tokens, in {calls}; "
        "by our own count {sent} went out in them",
        amount=amounts.text(bill.amount, say),
        inputs=amounts.bare(sum(bill.inputs.values())),
        tokens=_of_cached(bill.prompt, bill.cached, say, bill.untold),
        answers=amounts.bare(bill.answers),
        completion=bill.completion,
        calls=say("{count} call", "{count} calls", count=len(bill.inputs)),
        sent=bill.sent,
    )
    return text + _counted_more(bill.prompt, bill.sent, say)


def usage_of(
    call: CallRecord, cost: float, answer: float, amounts: Amounts, say: Say = ENGLISH
) -> str:
    """What the provider told of one call and what that costs, beside our own count; `""` where it told nothing.

    Args:
        call: with its tokens.
        cost: of its input.
        answer: what its answer cost.
        amounts: writes both, and their sum.
        say: the reader's language.
    """
    if call.prompt is None:
        return ""
    text = say(
        "{amount}: {inputs} for {tokens}, {answer} for an answer of {completion} tokens; by our own count {sent} went out",
        amount=amounts.text(cost + answer, say),
        inputs=amounts.bare(cost),
        tokens=_of_cached(call.prompt, call.cached, say),
        answer=amounts.bare(answer),
        completion=call.completion,
        sent=call.sent,
    )
    return text + _counted_more(call.prompt, call.sent, say)


def estimate_words(call: CallRecord, say: Say = ENGLISH) -> str:
    """Why the tokens of an input that never went out are an estimate: how near our count was where a provider counted."""
    text = say(
        "Tokens are our own count: of what never went out that is an estimate, a provider may count more or fewer."
    )
    if call.prompt is None:
        return text
    return text + say(
        " For the input as it was the provider told {prompt}, where we count {sent}.",
        prompt=call.prompt,
        sent=call.sent,
    )


def _counted_more(prompt: int, sent: int, say: Say) -> str:
    """That a window may be full before the budget is, where a provider counts notably more than we do."""
    if sent < CALIBRATION_MIN_TOKENS or prompt < _NOTABLE * sent:
        return ""
    return say(": the provider counts {share} more", share=percent(prompt - sent, sent))


def _of_cached(prompt: int, cached: int | None, say: Say, untold: int = 0) -> str:
    tokens = say("{count} token of input", "{count} tokens of input", count=prompt)
    if cached is None:
        return tokens + say(
            " (nobody told of a cache: what begins alike counts as cached, where it is long enough)"
        )
    share = percent(cached, prompt, PLACES)
    if untold:
        return tokens + say(
            " ({cached} of them cached: {share}; of {count} call nobody told: what begins alike counts as cached, too)",
            " ({cached} of them cached: {share}; of {count} calls nobody told: what begins alike counts as cached, too)",
            cached=cached,
            share=share,
            count=untold,
        )
    return tokens + say(" ({cached} of them cached: {share})", cached=cached, share=share)


__all__ = ["UncachedTurn", "bill_words", "estimate_words", "uncached_turns", "usage_of"]
