"""Turns with their reports, as lines of figures and as one turn in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from ce_engine.cli.output import (
    lined_up,
    moment,
    number,
    percent,
    print_columns,
    print_under,
    printable,
    short_id,
)
from ce_engine.cli.reasons import decision_words, reasons
from ce_engine.over_budget import names
from ce_engine.schema.report import Report
from ce_engine.schema.rows import TurnRow


@dataclass(slots=True)
class Told:
    """A turn with its number, from 1, and its report, if one is stored."""

    turn: int
    row: TurnRow
    report: Report | None

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
    "kept",
    "drop",
    "short",
    "rest",
    "inj",
    "tokens/budget",
    "before",
    "same",
    "status",
)
COUNTS = HEADS[1:7]
LEGEND = (
    "turn: a model call with its retries · sent: messages sent/given · drop, short(ened), rest(ored): messages · inj(ected): texts put in · "
    "before: tokens of the app's own input · same: leading tokens equal to those of the call before"
)
WIDE = 110
"""From this width on, the reasons stand beside the figures; else below them."""
INDENT = 12


def _figures(item: Told) -> tuple[str, ...]:
    """The figures of one turn, as in `HEADS`; a dash for nothing."""
    report = item.report
    if report is None:
        return (str(item.turn), *["-"] * (len(HEADS) - 2), item.status)
    gone = report.dropped + report.orphans_removed
    counts = (report.kept, gone, report.shortened, report.restored, report.inserted)
    return (
        str(item.turn),
        f"{report.messages_sent}/{report.messages_in}",
        *(number(count) if count else "-" for count in counts),
        f"{number(report.token_used)}/{number(report.token_budget)}",
        number(report.tokens_before),
        _same(report),
        item.status,
    )


def _same(report: Report) -> str:
    unchanged = report.prefix_tokens_unchanged
    if unchanged is None:
        return "first"
    return f"{number(unchanged)} ({percent(unchanged, report.token_used)})"


def _why(item: Told) -> str:
    if item.report is None:
        return "no report is stored"
    said = ["helper call"] if item.report.purpose != "chat" else []
    said += reasons(item.report)
    return "; ".join(said) or "everything fits"


def print_over_budget(screen: Console, told: Sequence[Told]) -> None:
    """The calls that went out over their budget, with the causes, if there are any."""
    by_cause: dict[str, list[str]] = {}
    for item in told:
        if item.report is not None and item.report.over_budget:
            cause = names(item.report.over_budget_causes)
            by_cause.setdefault(cause, []).append(number(item.turn))
    if not by_cause:
        return
    count = sum(map(len, by_cause.values()))
    each = (
        f"{cause} ({'turn' if len(turns) == 1 else 'turns'} {', '.join(turns)})"
        for cause, turns in by_cause.items()
    )
    calls = "1 call" if count == 1 else f"{number(count)} calls"
    print_under(screen, 0, f"{calls} over the budget: {'; '.join(each)}", style="bold")


def print_turns(screen: Console, told: Sequence[Told]) -> None:
    """A line a turn; its reasons beside it where there is room, else below."""
    wide = screen.width >= WIDE
    numbers = frozenset(HEADS[:-1])
    rows = [_figures(item) for item in told]
    head, *lines = lined_up(HEADS, rows, numbers=numbers, gap="  " if wide else " ")
    indent = max(map(len, [head, *lines])) + 2 if wide else len(HEADS[0]) + 1
    screen.print(Text(f"{head:<{indent}}why" if wide else head, style="bold"), soft_wrap=True)
    for item, line in zip(told, lines, strict=True):
        if wide:
            print_under(screen, indent, _why(item), before=line)
        else:
            screen.print(line, soft_wrap=True)
            print_under(screen, indent, _why(item))


def print_summary(screen: Console, told: Sequence[Told]) -> None:
    """The turns in one line: what was sent, what it would have been, how much a provider can cache."""
    reports = [item.report for item in told if item.report is not None]
    sent = sum(report.token_used for report in reports)
    before = sum(report.tokens_before for report in reports)
    same = sum(report.prefix_tokens_unchanged or 0 for report in reports)
    said = [
        f"{number(len(told))} turns",
        f"{number(sent)} tokens sent",
        f"{number(before)} without us ({percent(sent - before, before)})",
        f"prefix reused {percent(same, sent)}",
    ]
    said += [f"{len(told) - len(reports)} without a report"] if len(reports) < len(told) else []
    estimators = {_estimator(report) for report in reports if report.estimator}
    said += [f"counted by {', '.join(sorted(estimators))}"] if estimators else []
    screen.print()
    print_under(screen, 0, " · ".join(said), style="bold")
    print_under(screen, 0, LEGEND, style="dim")


def _estimator(report: Report) -> str:
    """The estimator's name, with the model's where it is known."""
    return report.estimator.replace("/ ", " ").removesuffix("/")


def print_turn(screen: Console, item: Told) -> None:
    """One turn in full, with every decision."""
    row, report = item.row, item.report
    screen.print(Text(printable(f"turn {item.turn}  {row.turn_id}"), style="bold"))
    for name, value in _facts(item):
        print_under(screen, INDENT, value, before=name)
    if report is None:
        screen.print("no report is stored")
        return
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


def _facts(item: Told) -> Iterator[tuple[str, str]]:
    """What there is to tell of one turn beside its decisions."""
    row, report = item.row, item.report
    times = f"{moment(row.opened_at)} to {moment(row.closed_at) or '...'} UTC"
    yield "status", f"{item.status} · {times}"
    for past in row.attempts:
        yield "attempt", f"{past.get('status', '')} · {moment(str(past.get('opened_at', '')))}"
    names = {"request": row.request_id, "lane": row.lane, "framework": row.framework}
    names |= {"within turn": row.parent_turn_id or "", "answers": row.tip_message_id or ""}
    names |= {"answer": row.answer_message_id or "", "usage": row.model_usage_id or ""}
    yield from ((name, value) for name, value in names.items() if value)
    if report is None:
        return
    heads = dict(zip(HEADS, _figures(item), strict=True))
    yield "messages", " · ".join(f"{name} {heads[name]}" for name in COUNTS)
    yield "tokens", f"{heads['tokens/budget']} · before {heads['before']} · same {_same(report)}"
    payload = report.payload_tokens.items()
    yield "of these", " · ".join(f"{kind.replace('_', ' ')} {number(n)}" for kind, n in payload)
    yield "counted by", _estimator(report)
    yield "why", _why(item)
    if report.injected_evidence_ids:
        yield "brought in", " ".join(report.injected_evidence_ids)
