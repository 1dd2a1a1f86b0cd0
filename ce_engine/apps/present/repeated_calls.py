"""Tool calls that were made again, in words: a line for each, and what a result's page says of the other times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ce_engine.apps.present.html_text import line
from ce_engine.apps.present.language import Say
from ce_engine.apps.present.links import arguments
from ce_engine.audit.places.whereabouts import Whereabouts, evidence_whereabouts, stretches_of
from ce_engine.audit.repeated_calls import (
    FAILED,
    FIRST,
    OTHER,
    SAME,
    UNKNOWN,
    CallResult,
    RepeatedCall,
    repeated_calls,
)
from ce_engine.audit.stale_results import stale_turns
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.rows import TurnRow


MOST_LINES, MOST_TIMES = 50, 20
"""Calls that have a line, and times of one that are named."""

CALL_CHARS = 120
"""Characters of a call on its line."""

OUTCOMES = {
    FIRST: "the first result",
    SAME: "the same",
    OTHER: "something else",
    FAILED: "failed",
    UNKNOWN: "its result is not there",
}
"""What came of a call."""


@dataclass(frozen=True, slots=True)
class CallLine:
    """A call that was made again: its words, and of each time the turn, the evidence and what came of it.

    Attributes:
        more: times that are not named.
        stale: stretches of turns in which an older result stood before the model, though a newer one says something else.
    """

    call: str
    times: Sequence[tuple[int | None, str | None, str]]
    more: int
    stale: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class CallLines:
    """The calls of a session that were made again, those first that brought something else; `count` is of all."""

    lines: Sequence[CallLine]
    count: int
    has_other: bool

    @property
    def more(self) -> int:
        return self.count - len(self.lines)

    @classmethod
    def of(cls, document: SessionDocument, turns: Sequence[TurnRow], say: Say) -> CallLines:
        calls = sorted(repeated_calls(document, turns), key=lambda call: not call.has_other)
        calls_told = calls[:MOST_LINES]
        ids = {each.evidence_id or "" for call in calls_told for each in call.results}
        places = evidence_whereabouts(ids, document, turns) if ids else {}
        lines = [_line(call, places, say) for call in calls_told]
        return cls(lines, len(calls), any(call.has_other for call in calls))


def _line(call: RepeatedCall, places: Mapping[str, Whereabouts], say: Say) -> CallLine:
    times = [
        (each.turn, each.evidence_id, say(OUTCOMES[each.outcome]))
        for each in call.results[:MOST_TIMES]
    ]
    if call.results[0].outcome == FIRST:  # which needs no words
        times[0] = (*times[0][:2], "")
    words = line(f"{call.tool}({arguments(dict(call.args))})", CALL_CHARS)
    stale = stretches_of(stale_turns(call, places))
    return CallLine(words, times, len(call.results) - len(times), stale)


def other_times(
    evidence_ids: Sequence[str], document: SessionDocument, turns: Sequence[TurnRow], say: Say
) -> list[tuple[str | None, str]]:
    """What is said of each other time that the call of a result was made, with the evidence that it brought.

    Args:
        evidence_ids: what the result is stored as.
        document: of the session.
        turns: all of it, oldest first.
        say: the language.
    """
    told = list[tuple[str | None, str]]()
    for call in repeated_calls(document, turns, evidence_ids):
        own = [n for n, each in enumerate(call.results) if each.evidence_id in evidence_ids]
        if not own:
            continue
        before, result = call.results[: own[0]][-MOST_TIMES:], call.results[own[0]]
        after = call.results[own[0] + 1 :][:MOST_TIMES]
        told += [(each.evidence_id, _words(each, result, say, is_before=True)) for each in before]
        told += [(each.evidence_id, _words(each, result, say, is_before=False)) for each in after]
    return told


def _words(other: CallResult, result: CallResult, say: Say, *, is_before: bool) -> str:
    """Of another time: when it was, and what came of it, beside the result that is looked at."""
    values = {"turn": other.turn, "result": _beside(other, result, say)}
    if is_before and other.turn is None:
        return say("asked before: {result}", **values)
    if is_before:
        return say("asked before in turn {turn}: {result}", **values)
    if other.turn is None:
        return say("asked again: {result}", **values)
    return say("asked again in turn {turn}: {result}", **values)


def _beside(other: CallResult, result: CallResult, say: Say) -> str:
    if other.outcome == FAILED:
        return say("it failed")
    if other.says is None:
        return say("its result is not there")
    if result.outcome == UNKNOWN:
        return say("a result")
    return say("the same result") if other.says == result.says else say("another result")


__all__ = ["MOST_LINES", "MOST_TIMES", "CallLine", "CallLines", "other_times"]
