"""Where in a session something was redacted, and where tool results went out shortened: turn by turn, and no text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.reasons import reason_words
from ce_engine.audit.places.message_places import OF_RESULTS
from ce_engine.schema.report import RECALLED
from ce_engine.schema.rows import TurnRow


@dataclass(frozen=True, slots=True)
class Spots:
    """What happened in some turns.

    Attributes:
        title: what, and how often.
        turns: in which turns, from 1, and how often in each.
        kinds: of what kind, in words, and how often.
    """

    title: str
    turns: Sequence[tuple[int, int]]
    kinds: Sequence[tuple[str, int]]


def spots(turns: Sequence[TurnRow], say: Say = ENGLISH) -> Iterator[Spots]:
    """What was redacted, in the turn that recorded it; then the turns in which a tool's result did not go out whole."""
    by_turn, by_kind = _counted(turns, _redacted)
    if by_turn:
        title = say("{count} place redacted", "{count} places redacted", count=by_turn.total())
        yield Spots(title, sorted(by_turn.items()), by_kind.most_common())
    _, by_kind = _counted(turns, _shortened)
    by_turn = Counter(
        {n: count for n, row in enumerate(turns, 1) if (count := _shorter(row.report))}
    )
    if by_turn:
        title = say(
            "tool results shortened in {count} turn",
            "tool results shortened in {count} turns",
            count=len(by_turn),
        )
        kinds = [(reason_words(("degraded", code), say), n) for code, n in by_kind.most_common()]
        yield Spots(title, sorted(by_turn.items()), kinds)


def _counted(
    turns: Sequence[TurnRow], of: Callable[[Mapping[str, Any]], Iterator[tuple[str, int]]]
) -> tuple[Counter[int], Counter[str]]:
    by_turn, by_kind = Counter[int](), Counter[str]()
    for turn, row in enumerate(turns, start=1):
        for kind, count in of(row.report):
            by_turn[turn] += count
            by_kind[kind] += count
    return by_turn, by_kind


def _redacted(report: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The rules that hit, and how many places of a piece they were."""
    for redaction in report.get("redactions", ()):
        yield ", ".join(redaction.get("rules_applied", ())), redaction.get("fields_redacted", 1)


def _shorter(report: Mapping[str, Any]) -> int:
    """How many results a turn sent shorter: of those that stay as they went out, its decisions tell no more."""
    results = texts = 0
    for decision in report.get("prune_decisions", ()):
        if decision["action"] == "degraded" and not decision["block_id"].startswith(RECALLED):
            is_result = decision["reason"] in OF_RESULTS
            results += decision.get("count", 1) if is_result else 0
            texts += 0 if is_result else decision.get("count", 1)
    if not report.get("results_saved"):
        return results
    shorter: int = report.get("shortened", 0) - texts
    return max(results, shorter, 1)


def _shortened(report: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Why results are shorter, and of how many calls."""
    for decision in report.get("prune_decisions", ()):
        if decision["action"] == "degraded" and decision["reason"] in OF_RESULTS:
            yield decision["reason"], decision.get("count", 1)


__all__ = ["Spots", "spots"]
