"""Turns with their reports, as lines of figures and as one turn in full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from ce_engine.apps.present.output import (
    moment,
    number,
    percent,
    print_columns,
    print_under,
    printable,
    short_id,
)
from ce_engine.apps.present.report_lines import decision_words, own_sent, report_lines
from ce_engine.apps.present.vocabulary import estimator_words
from ce_engine.schema.report import Report
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.stored_report import damaged_fields
from ce_engine.turns.report.over_budget import names


@dataclass(slots=True)
class NumberedTurn:
    """A turn with its number, from 1, and its report, if one is stored."""

    turn: int
    row: TurnRow
    report: Report | None
    cost: tuple[str, str, str] = ("-", "-", "-")  # as sent, without us, and the effect

    def as_json(self) -> dict[str, Any]:
        """The turn's row, with its number and the whole report or null."""
        plain = asdict(self.row)
        plain["report"] = self.report.model_dump(mode="json") if self.report else None
        return {"turn": self.turn, **plain}

    @property
    def status(self) -> str:
        times = f" x{self.row.attempt}" if self.row.attempt > 1 else ""
        return f"{self.row.status.value}{times}"


HEADS = (
    "turn",
    "sent",
    "drop",
    "short",
    "rest",
    "inj",
    "tokens/budget",
    "same",
    "cost",
    "without",
    "effect",
    "status",
)
COUNTS = HEADS[1:6]
BROKEN = {
    "cut": "the cut moved",
    "rules": "a rule was added, changed or deleted",
    "brought_in": "what is brought in changed",
    "system": "the app's own system message changed",
    "app": "the app's own list changed",
    "tools": "the tools' schemas changed",
    "pruned": "the pruner left something else out",
    "left_out": "what had been sent was not sent again",
}
"""Why no more of it is the same."""
FITS = "everything fits"
INDENT = 12


def figures(item: NumberedTurn) -> tuple[str, ...]:
    """The figures of one turn, as in `HEADS`; a dash for nothing."""
    report = item.report
    if report is None:
        return (str(item.turn), *["-"] * (len(HEADS) - 2), item.status)
    dropped = max(0, report.dropped) + report.orphans_removed
    counts = (dropped, report.shortened, report.restored, report.inserted)
    return (
        str(item.turn),
        f"{own_sent(report)}/{report.messages_in}",
        *(number(count) if count else "-" for count in counts),
        f"{number(report.token_used)}/{number(report.token_budget)}",
        _same(report),
        *item.cost,
        item.status,
    )


def _same(report: Report) -> str:
    unchanged = report.prefix_tokens_unchanged
    if unchanged is None:
        return "first"
    return percent(unchanged, report.token_used)


def why(item: NumberedTurn) -> str:
    """Why it went out as it did, in one line."""
    if item.report is None:
        return without_report(item.row)
    reasons = ["helper call"] if item.report.purpose != "chat" else []
    reasons += report_lines(item.report)
    return "; ".join(reasons) or FITS


def without_report(row: TurnRow) -> str:
    """Why a turn has no report to tell of."""
    if fields := damaged_fields(row):
        return f"the report is damaged: what stands in {', '.join(fields)} is none; see: ce verify"
    return "no report is stored"


def print_over_budget(screen: Console, numbered_turns: Sequence[NumberedTurn]) -> None:
    """The calls that went out over their budget, with the causes, if there are any."""
    by_cause: dict[str, list[str]] = {}
    for item in numbered_turns:
        if item.report is not None and item.report.over_budget:
            cause = names(item.report.over_budget_causes)
            by_cause.setdefault(cause, []).append(number(item.turn))
    if not by_cause:
        return
    count = sum(map(len, by_cause.values()))
    causes = (
        f"{cause} ({'turn' if len(turns) == 1 else 'turns'} {', '.join(turns)})"
        for cause, turns in by_cause.items()
    )
    calls = "1 call" if count == 1 else f"{number(count)} calls"
    print_under(screen, 0, f"{calls} over the budget: {'; '.join(causes)}", style="bold")


def print_turn(screen: Console, item: NumberedTurn, costs: Iterable[tuple[str, str]]) -> None:
    """One turn with its figures and what it cost."""
    screen.print(Text(printable(f"turn {item.turn}  {item.row.turn_id}"), style="bold"))
    for name, value in [*_facts(item), *(costs if item.report is not None else ())]:
        print_under(screen, INDENT, value, before=name)
    if item.report is None:
        print_under(screen, 0, without_report(item.row))


def print_ids(screen: Console, item: NumberedTurn) -> None:
    """What the turn belongs to and led to, by the ids that other commands take."""
    row = item.row
    names = {"request": row.request_id, "lane": row.lane, "framework": row.framework}
    names |= {"within turn": row.parent_turn_id or "", "answers": row.tip_message_id or ""}
    names |= {"answer": row.answer_message_id or "", "usage": row.model_usage_id or ""}
    names |= {"evidence": " ".join(item.report.injected_evidence_ids if item.report else ())}
    screen.print(Text("\nIds", style="bold"))
    for name, value in names.items():
        if value:
            print_under(screen, INDENT, value, before=name)


def print_decisions(screen: Console, report: Report) -> None:
    """Every decision of a turn."""
    rows = [
        (
            short_id(decision.block_id),
            decision.action,
            decision_words(decision),
            number(decision.token_estimate),
        )
        for decision in report.prune_decisions
    ]
    screen.print(Text(f"\nDecisions ({len(rows)})", style="bold"))
    print_columns(screen, ("block", "action", "why", "tokens"), rows, numbers={"tokens"})


def _facts(item: NumberedTurn) -> Iterator[tuple[str, str]]:
    """What there is to tell of one turn beside its decisions."""
    row, report = item.row, item.report
    times = f"{moment(row.opened_at)} to {moment(row.closed_at) or '...'} UTC"
    yield "status", f"{item.status} · {times}"
    for past in row.attempts:
        yield "attempt", f"{past.get('status', '')} · {moment(str(past.get('opened_at', '')))}"
    if report is None:
        return
    heads = dict(zip(HEADS, figures(item), strict=True))
    counts = [f"{name} {heads[name]}" for name in COUNTS]
    yield "messages", " · ".join([counts[0], f"kept {number(report.kept)}", *counts[1:]])
    free = (report.token_budget or 0) - report.token_used
    room = f" · {number(free)} free" if free > 0 else ""
    listed = f"the app's own list has {number(report.tokens_before)}"
    yield "tokens", f"{heads['tokens/budget']}{room} · {listed}"
    if report.prefix_tokens_unchanged is not None:
        same = f"{number(report.prefix_tokens_unchanged)} tokens ({heads['same']}) like the call before"
        broken = BROKEN.get(report.prefix_broken_by)
        yield "prefix", f"{same}; then {broken}" if broken else same
    payload = report.payload_tokens.items()
    yield "of these", " · ".join(f"{kind.replace('_', ' ')} {number(n)}" for kind, n in payload)
    yield "counted by", estimator_words(report.estimator)
    yield "why", why(item)
