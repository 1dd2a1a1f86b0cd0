"""`ce report`: what of each turn was sent, kept, dropped, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ce_engine.cli.errors import TurnNotFoundError
from ce_engine.cli.options import Account, AsJson, SessionId, StoreUrl, User
from ce_engine.cli.output import (
    console,
    moment,
    number,
    percent,
    print_json,
    printable,
    short_id,
    table,
)
from ce_engine.cli.reading import find_session, reading
from ce_engine.cli.reasons import decision_words, reasons
from ce_engine.errors import SchemaValidationError
from ce_engine.schema.report import Report
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.scope import Scope


WIDE = 110
"""From this width on, the reasons stand beside the figures; else below them."""

TurnChoice = Annotated[
    str | None,
    typer.Option(
        "--turn", metavar="N|ID", help="One turn in full, by its number or the start of its id."
    ),
]


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


def report(
    session: SessionId,
    *,
    turn: TurnChoice = None,
    store: StoreUrl = None,
    user: User = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Tell what of each turn was sent, kept, dropped, and why.

    With --json, a list of turns, oldest first: turn (its number), turn_id, status, attempt, ... and
    report, the whole stored report or null.
    """
    told = _told(asyncio.run(_read(store, session, account, user)))
    chosen = told if turn is None else [_one(told, turn, session)]
    if as_json:
        print_json([item.as_json() for item in chosen])
    elif turn is not None:
        _print_turn(console(), chosen[0])
    elif told:
        screen = console()
        _print_lines(screen, told)
        _print_summary(screen, told)
    else:
        console().print("no turns: nothing was prepared in this session")


async def _read(url: str | None, session_id: str, account: str, user: str | None) -> list[TurnRow]:
    async with reading(url) as store:
        info = await find_session(store, session_id, account=account, user=user)
        scope = Scope(session_id=session_id, user_id=info.user_id, account_id=info.account_id)
        return await store.list_turns(scope)


def _told(rows: Sequence[TurnRow]) -> list[Told]:
    return [Told(turn, row, _report(row)) for turn, row in enumerate(rows, start=1)]


def _report(row: TurnRow) -> Report | None:
    if "stable_prefix_hash" not in row.report:  # every stored report has one
        return None
    try:
        return Report.model_validate({"turn_id": row.turn_id, **row.report})
    except ValidationError as error:
        places = ", ".join(".".join(map(str, item["loc"])) for item in error.errors()[:3])
        raise SchemaValidationError(
            f"the report of turn {row.turn_id!r} does not fit at {places}. Use the release of "
            "ce-integrations that wrote it, or a newer one."
        ) from error


def _one(told: Sequence[Told], choice: str, session_id: str) -> Told:
    if choice.isdecimal() and 1 <= int(choice) <= len(told):
        return told[int(choice) - 1]
    found = [item for item in told if item.row.turn_id.startswith(choice)]
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} turns start with {choice!r}" if found else f"there is no turn {choice!r}"
    raise TurnNotFoundError(
        f"{what} in session {session_id!r}, which has {len(told)}. Give a number from 1 to "
        f"{len(told)}, or the start of one turn's id."
    )


HEADS = ("turn", "sent", "kept", "drop", "short", "rest", "inj", "tokens/budget", "before", "same")
COUNTS = 7
"""How many of the heads are counts of messages (`inj`: of texts put in)."""


def _figures(item: Told) -> tuple[str, ...]:
    """The figures of one turn, as in `HEADS`; a dash for nothing."""
    report = item.report
    if report is None:
        return (str(item.turn), *["-"] * (len(HEADS) - 1))
    gone = report.dropped + report.orphans_removed
    counts = (report.kept, gone, report.shortened, report.restored, report.inserted)
    return (
        str(item.turn),
        f"{report.messages_sent}/{report.messages_in}",
        *(number(count) if count else "-" for count in counts),
        f"{number(report.token_used)}/{number(report.token_budget)}",
        number(report.tokens_before),
        _same(report),
    )


def _same(report: Report) -> str:
    unchanged = report.prefix_tokens_unchanged
    if unchanged is None:
        return "first"
    return f"{number(unchanged)} {percent(unchanged, report.token_used):>4}"


def _why(item: Told) -> str:
    if item.report is None:
        return "no report is stored"
    said = ["helper call"] if item.report.purpose != "chat" else []
    said += reasons(item.report)
    return "; ".join(said) or "everything fits"


def _print_lines(screen: Console, told: Sequence[Told]) -> None:
    """A line a turn; its reasons beside it where there is room, else below."""
    rows = [(*_figures(item), item.status) for item in told]
    heads = (*HEADS, "status")
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    wide = screen.width >= WIDE
    screen.print(Text(_aligned(heads, widths) + ("  why" if wide else ""), style="bold"))
    room = screen.width - sum(widths) - 2 * len(widths)
    for item, row in zip(told, rows, strict=True):
        line, why = _aligned(row, widths), Text(printable(_why(item)))
        if not wide:
            screen.print(Text(line, no_wrap=True, overflow="crop"))
            screen.print(Padding(why, (0, 0, 0, widths[0] + 2)))
            continue
        first, *more = why.wrap(screen, room) or [Text()]
        screen.print(Text(f"{line}  ").append(first))
        for text in more:
            screen.print(Text(" " * (screen.width - room)).append(text))


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Figures to the right, the status (the last one) to the left."""
    *figures, status = cells
    parts = [text.rjust(width) for text, width in zip(figures, widths, strict=False)]
    return "  ".join([*parts, status.ljust(widths[-1])])


def _print_summary(screen: Console, told: Sequence[Told]) -> None:
    reports = [item.report for item in told if item.report is not None]
    sent = sum(report.token_used for report in reports)
    before = sum(report.tokens_before for report in reports)
    same = sum(report.prefix_tokens_unchanged or 0 for report in reports)
    over = sum(report.over_budget for report in reports)
    said = [
        f"{number(len(told))} turns",
        f"{number(sent)} tokens sent",
        f"{number(before)} without us ({percent(sent - before, before)})",
        f"prefix reused {percent(same, sent)}",
    ]
    said += [f"{over} over the budget"] if over else []
    said += [f"{len(told) - len(reports)} without a report"] if len(reports) < len(told) else []
    estimators = {report.estimator for report in reports if report.estimator}
    said += [f"counted by {', '.join(sorted(estimators))}"] if estimators else []
    screen.print(Text("\n" + " · ".join(said), style="bold"))
    screen.print(
        Text(
            "sent: messages sent/given · inj: texts put in · before: tokens of the app's own input"
            " · same: leading tokens equal to the last call's, which a provider can cache",
            style="dim",
        )
    )


def _print_turn(screen: Console, item: Told) -> None:
    row, report = item.row, item.report
    screen.print(Text(printable(f"turn {item.turn}  {row.turn_id}"), style="bold"))
    for name, value in _facts(item):
        screen.print(f"{name:<12}{printable(value)}")
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
    screen.print(table(("block", "action", "why", "tokens"), rows, numbers={"tokens"}))


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
    heads = dict(zip(HEADS[1:], _figures(item)[1:], strict=True))
    yield "messages", " · ".join(f"{name} {heads[name]}" for name in HEADS[1:COUNTS])
    yield "tokens", f"{heads['tokens/budget']} · before {heads['before']} · same {_same(report)}"
    payload = report.payload_tokens.items()
    yield "of these", " · ".join(f"{name} {number(tokens)}" for name, tokens in payload if tokens)
    yield "counted by", report.estimator
    yield "why", _why(item)
    if report.injected_evidence_ids:
        yield "brought in", " ".join(report.injected_evidence_ids)
