"""A session's turns as columns of numbers: what a picture, a table and a page of it are drawn from."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ce_engine.audit.compare.costs import has_usage
from ce_engine.audit.compare.records import CallRecord
from ce_engine.audit.noted_sources import has_note
from ce_engine.schema.rows import TurnRow, archive_of


LAYERS = ("system", "tools", "rules", "settings", "retrieved", "immediate")
"""What an input is made of, in the order in which it is drawn, from below."""

TITLES = {
    "system": "system message",
    "tools": "tools' schemas",
    "rules": "rules",
    "settings": "settings",
    "retrieved": "retrieved",
    "immediate": "immediate",
    "reserve": "reply reserve",
}
"""The layers in words."""

MEANINGS = {
    "system": "the app's own instructions",
    "tools": "what tools there are, the response format, and the reply's priming",
    "rules": "rules and constraints of an owner",
    "settings": "what is remembered of the user and the project",
    "retrieved": "what was brought in for the question: earlier messages, documents",
    "immediate": "the conversation itself, tool results, tasks, a summary",
    "reserve": "kept free for the answer",
}

_LAYER_OF = {
    "system": "system",
    "tools": "tools",
    "response_format": "tools",
    "priming": "tools",
    "rules": "rules",
    "memory": "settings",
    "knowledge": "retrieved",
}
"""The layer of each kind of payload; all others are of the conversation."""

RESERVE = 1024
"""Tokens kept for the reply where nobody set another number."""

MARKS = {
    "failed": "failed",
    "over_budget": "over the budget",
    "over_as_told": "over the budget, as the provider counts",
    "violation": "the answer breaks a constraint",
    "tool_failed": "a tool failed",
    "degraded": "did less than asked",
    "conflict_note": "sources disagree: the model was told",
    "conflict": "sources disagree",
    "dearer": "this turn dearer than without us",
}
"""What deserves a look, the worst first."""

BAD = frozenset({"failed", "over_budget", "violation"})
"""Marks of what went wrong; the others are worth knowing."""

FAILED = "failed"
"""The mark that a status tells already."""
TOOL_FAILED, OVER_AS_TOLD, DEARER = "tool_failed", "over_as_told", "dearer"
"""What is not in a turn's row alone."""
NO_LANE = ""


@dataclass(slots=True)
class Timeline:
    """The turns of a session, a column a figure, each as long as there are turns.

    Attributes:
        turns: their numbers in the session, from 1.
        ids: their ids.
        lanes: names of the lanes, in the order in which they begin.
        lane: the lane of each, as a place in `lanes`.
        layers: tokens of each layer.
        used: tokens that went out; 0 where no report is stored.
        budget: tokens that the input may have; 0 where no budget is known.
        reserve: tokens kept for the reply, above the budget.
        prefix: leading tokens like the call before, which may be cached.
        without: tokens that would have gone out without us; 0 where nobody can say.
        app_messages: messages that the app gave.
        left_out: messages of them that did not go out.
        moved: places of the turns in which the cut moved.
        marks: what deserves a look, by place.
    """

    turns: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    lanes: list[str] = field(default_factory=list)
    lane: list[int] = field(default_factory=list)
    layers: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in LAYERS})
    used: list[int] = field(default_factory=list)
    budget: list[int] = field(default_factory=list)
    reserve: list[int] = field(default_factory=list)
    prefix: list[int] = field(default_factory=list)
    without: list[int] = field(default_factory=list)
    app_messages: list[int] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    marks: dict[int, list[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.turns)

    @property
    def most(self) -> int:
        """The tokens that the highest bar reaches: of what went out, or of a budget with its reserve."""
        windows = (b + r for b, r in zip(self.budget, self.reserve, strict=True))
        return max([*self.used, *windows], default=0)

    def columns(self) -> dict[str, Any]:
        """Plain data for a page that draws it."""
        return {
            "turns": self.turns,
            "lanes": self.lanes,
            "lane": self.lane,
            "layers": self.layers,
            "used": self.used,
            "budget": self.budget,
            "reserve": self.reserve,
            "prefix": self.prefix,
            "without": self.without,
            "given": self.app_messages,
            "left_out": self.left_out,
            "moved": self.moved,
            "marks": self.marks,
        }


def timeline(
    rows: Sequence[TurnRow],
    lane: str | None = None,
    more_marks: Mapping[str, Container[int]] = MappingProxyType({}),
) -> Timeline:
    """The timeline of a session's turns, read from what is stored, without looking at each report as a whole.

    Args:
        rows: all turns of the session, oldest first.
        lane: only the turns of this one; their numbers stay those of the session.
        more_marks: the numbers of the turns that have each of the marks that rows alone do not tell.
    """
    result, places, reserves = Timeline(), dict[str, int](), _Reserves()
    for number, row in enumerate(rows, start=1):
        reserve = reserves.of(row.report)
        place = places.setdefault(row.lane, len(places))
        if lane is None or row.lane == lane:
            _add(result, number, row, place, reserve)
            for mark, turns in more_marks.items():
                if number in turns:
                    result.marks.setdefault(len(result) - 1, []).append(mark)
    result.lanes = list(places)
    return result


def call_marks(
    calls: Sequence[CallRecord], rows: Sequence[TurnRow], numbers: Iterable[int]
) -> dict[str, frozenset[int]]:
    """The marks that are in what is recorded of calls: a tool that failed, an input over its budget as its provider counts.

    Args:
        calls: of the turns; others may follow.
        rows: all turns of the session.
        numbers: of the turns in it, a call each.
    """
    pairs = [*zip(numbers, calls, strict=False)]
    over = (n for n, call in pairs if _is_over_as_told(call, rows[n - 1].report))
    failed = (n for n, call in pairs if call.tool_errors)
    return {OVER_AS_TOLD: frozenset(over), TOOL_FAILED: frozenset(failed)}


def _is_over_as_told(call: CallRecord, report: Mapping[str, Any]) -> bool:
    """Whether the provider counts more than the budget, where by our own count it was kept."""
    budget = report.get("token_budget") or 0
    return bool(budget and has_usage(call) and (call.prompt or 0) > budget and not call.over_budget)


def _add(result: Timeline, number: int, row: TurnRow, lane: int, reserve: int) -> None:
    report, place = row.report, len(result.turns)
    result.turns.append(number)
    result.ids.append(row.turn_id)
    result.lane.append(lane)
    for name, tokens in layer_tokens(report).items():
        result.layers[name].append(tokens)
    budget = report.get("token_budget") or 0
    result.used.append(report.get("token_used", 0))
    result.budget.append(budget)
    result.reserve.append(reserve if budget else 0)
    result.prefix.append(report.get("prefix_tokens_unchanged") or 0)
    without = report.get("untouched") or {}
    result.without.append(without.get("tokens", 0))
    result.app_messages.append(report.get("messages_in", 0))
    result.left_out.append(max(0, report.get("dropped", 0)) + report.get("orphans_removed", 0))
    if report.get("prefix_broken_by") == "cut":
        result.moved.append(place)
    if marks := list(marks_of(row)):
        result.marks[place] = marks


def layer_tokens(report: Mapping[str, Any]) -> dict[str, int]:
    """The tokens of each layer of an input, which add up to what went out."""
    by_layer = dict.fromkeys(LAYERS, 0)
    payload = report.get("payload_tokens")
    if payload:
        for kind, tokens in payload.items():
            by_layer[_LAYER_OF.get(kind, "immediate")] += tokens
    else:  # an older release recorded it
        for name, layer in report.get("layers", {}).items():
            if name in by_layer:
                by_layer[name] += layer.get("tokens", 0)
        by_layer["tools"] += max(0, report.get("token_used", 0) - sum(by_layer.values()))
    return by_layer


def bar_of(report: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """A turn's layers as parts of a bar: name, begin and width, in hundredths of the budget or of what went out."""
    whole = max(report.get("token_budget") or 0, report.get("token_used", 0), 1)
    parts, begun = list[tuple[str, float, float]](), 0.0
    for name, tokens in layer_tokens(report).items():
        width = 100 * tokens / whole
        if width:
            parts.append((name, begun, width))
        begun += width
    return parts


def marks_of(row: TurnRow) -> Iterator[str]:
    """What of a turn deserves a look, the worst first, as far as its row alone tells.

    A code of an error is of the app's own call, whose status tells of it: that is nothing that we did less.
    """
    report = row.report
    if row.status.value == "failed":
        yield FAILED
    if report.get("over_budget"):
        yield "over_budget"
    if report.get("violations"):
        yield "violation"
    if report.get("degradations"):
        yield "degraded"
    if report.get("conflicts"):
        yield "conflict_note" if has_note(report) else "conflict"


class _Reserves:
    """What each turn kept for its reply: the first turn that had a configuration keeps it."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, report: Mapping[str, Any]) -> int:
        if not (archive := archive_of(report)):
            return 0
        digest = str(archive.get("config", ""))
        if isinstance(settings := archive.get("settings"), Mapping):
            self._known[digest] = _reserve(settings.get("budget"))
        return self._known.get(digest, RESERVE)


def _reserve(budget: object) -> int:
    """The reserve that a stored budget has, as the engine understands it."""
    if not isinstance(budget, Mapping):
        return RESERVE
    from ce_engine.config import BudgetConfig  # noqa: PLC0415 - brings the whole configuration

    with suppress(ValueError):  # another release's
        return BudgetConfig(**budget).reserved_reply_tokens
    return RESERVE
