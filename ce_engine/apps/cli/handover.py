"""`ce handover`: a run that failed, for a person to take over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ce_engine.apps.cli.options import Account, AsJson, SessionId, StoreUrl, User
from ce_engine.apps.cli.reading import engine_over, find_scope
from ce_engine.apps.present.links import arguments
from ce_engine.apps.present.output import (
    clipped,
    console,
    print_columns,
    print_json,
    print_under,
    printable,
    short_id,
)
from ce_engine.schema.handover import Handover


TurnChoice = Annotated[
    str | None,
    typer.Option("--turn", metavar="N", help="Its number, or how its id begins; else what failed."),
]


def handover(
    session: SessionId,
    *,
    turn: TurnChoice = None,
    store: StoreUrl = None,
    user: User = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Show a run that failed: what was asked, which steps were done, and which may have been.

    With --json, an object as `ce schema handover` describes it, to be given to whoever takes over.
    """
    run = asyncio.run(_handover(store, session, account, user, turn))
    if as_json:
        print_json(run.model_dump(mode="json"))
    else:
        _print(console(), run)


async def _handover(
    url: str | None, session: str, account: str, user: str | None, turn: str | None
) -> Handover:
    async with engine_over(url) as engine:
        scope = await find_scope(engine.store, session, account=account, user=user)
        return await engine.handover(scope, turn)


def _print(screen: Console, run: Handover) -> None:
    head = f"turn {run.turn}  {short_id(run.turn_id)}: {run.status}"
    screen.print(Text(printable(head), style="bold"))
    print_under(screen, 2, clipped(run.asked, 3 * screen.width), before="asked ")
    for trigger in run.triggers:
        facts = ", ".join(f"{name} {value}" for name, value in trigger.items() if value)
        print_under(screen, 2, facts, before="! ")
    print_columns(screen, ("status", "step", "what", "id"), list(_rows(run)), narrow="what")
    if any(step.status == "open" for step in run.steps):
        print_under(
            screen, 0, "open: it began, and no end was recorded. Look before it is repeated."
        )
    print_under(screen, 0, f"The input again: ce replay {run.session_id} --turn {run.turn}")


def _rows(run: Handover) -> Iterator[tuple[object, ...]]:
    for step in run.steps:
        if step.kind == "model_call":
            tried = f", {step.attempts} attempts" if step.attempts > 1 else ""
            action = f"model call{tried}"
        else:
            action = f"{step.name}({arguments(step.args)})"
        text = "; ".join([action, *step.errors])
        yield step.status, step.kind.replace("_", " "), printable(text), short_id(step.id)
