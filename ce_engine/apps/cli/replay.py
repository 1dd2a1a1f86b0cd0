"""`ce replay`: a turn's input made again, and what another configuration would have sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ce_engine.apps.cli.options import Account, AsJson, SessionId, StoreUrl, TurnChoice, User
from ce_engine.apps.cli.reading import engine_over, find_scope, text_of
from ce_engine.apps.present.links import Links
from ce_engine.apps.present.output import (
    console,
    number,
    print_columns,
    print_json,
    print_under,
    printable,
    short_id,
)
from ce_engine.apps.present.what_if_view import WhatIfView
from ce_engine.config import RuntimeConfig, load_config
from ce_engine.schema.replay import Replay, Sent, SentPart


ESTIMATE = "tokens are our own count; of what never went out that is an estimate: a provider may count more or fewer"

NUMBERS = frozenset({"#", "tokens"})

Key = tuple[int, int | str]
"""Where a message stands: 1 and its place in the app's list, or 0 and its id."""

Settings = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="A configuration (TOML): what would have been sent with it?",
    ),
]
System = Annotated[
    list[Path] | None,
    typer.Option(
        "--system",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="The text of the app's system message, which is never stored; once for each, in order.",
    ),
]


def replay(
    session: SessionId,
    *,
    turn: TurnChoice = None,
    config: Settings = None,
    system: System = None,
    store: StoreUrl = None,
    user: User = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Make a turn's input again from what is stored, and compare it with another configuration's.

    Without --turn, of the newest turn that can be replayed; helper calls cannot.

    Exit code 1 if what is made again is not what was sent; it says why. With --json, an object with
    turn, turn_id, recorded and hash, equal, problems, sent, instead and diff.
    """
    settings = load_config(text_of(config)) if config is not None else None
    texts = [text_of(path) for path in system or ()]
    result, links = asyncio.run(_replay(store, session, account, user, turn, settings, texts))
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        _print(console(), result, links)
    if not result.equal:
        raise typer.Exit(1)


async def _replay(
    url: str | None,
    session: str,
    account: str,
    user: str | None,
    turn: str | None,
    config: RuntimeConfig | None,
    system: list[str],
) -> tuple[Replay, Links | None]:
    """The replay, and the session's links; `None` where it was deleted just now."""
    async with engine_over(url) as engine:
        scope = await find_scope(engine.store, session, account=account, user=user)
        replay = await engine.replay(scope, turn, config, system)
        document = await engine.store.get_session(scope)
        turns = await engine.store.list_turns(scope)
        return replay, Links(document, turns) if document is not None else None


def _print(screen: Console, result: Replay, links: Links | None) -> None:
    text = "the same as it was sent" if result.equal else "NOT what was sent"
    if result.same_choice and not result.equal:
        text = "as it was sent, but for texts that are gone"
    screen.print(Text(printable(f"turn {result.turn}  {result.turn_id}: {text}"), style="bold"))
    if result.skipped:
        newer = "one newer" if result.skipped == 1 else f"{number(result.skipped)} newer ones"
        text = (
            f"the newest turn that can be replayed; {newer} cannot: helper calls, or turns whose "
        )
        print_under(screen, 2, text + "report was not stored")
    for problem in result.problems:
        print_under(screen, 2, problem.detail, before="! ")
    heads: tuple[str, ...] = ("#", "role", "as it was", "tokens")
    if result.instead is not None:
        heads += ("instead", "tokens")
    heads += ("message",)
    print_columns(screen, heads, list(_rows(result)), numbers=NUMBERS, narrow="message")
    screen.print(_total("as it was", result.sent))
    if result.instead is not None:
        screen.print(_total("instead", result.instead))
        for why in WhatIfView(result, links).reasons() if links is not None else ():
            print_under(screen, 2, why, before="· ")
        print_under(screen, 2, ESTIMATE, before="· ")
    for line in result.diff:
        screen.print(Text(printable(line)), soft_wrap=True)


def _total(name: str, prompt: Sent) -> str:
    dropped = f", {number(len(prompt.dropped))} dropped" if prompt.dropped else ""
    budget = f" of {number(prompt.budget)}" if prompt.budget is not None else ""
    return f"{name}: {number(prompt.tokens)}{budget} tokens, {number(len(prompt.parts))} messages{dropped}"


def _rows(result: Replay) -> Iterator[tuple[object, ...]]:
    """A line a message: its place in the app's list, what was done with it, and what would have been.

    Messages that stand side by side and are left out in both have one line together.
    """
    first, second = _by_key(result.sent), _by_key(result.instead)
    pairs = [(key, first.get(key), second.get(key)) for key in sorted(first | second)]
    for is_gone, run in groupby(pairs, key=lambda pair: _is_gone(pair[1]) and _is_gone(pair[2])):
        group = list(run)
        if is_gone and len(group) > 1:
            yield _together(group, compared=result.instead is not None)
            continue
        for key, was, then in group:
            part = was or then
            assert part is not None
            row: tuple[object, ...] = (key[1] if key[0] else "+", part.role.value, *_fate(was))
            if result.instead is not None:
                row += _fate(then)
            yield (*row, short_id(part.message_id or "-"))


def _is_gone(part: SentPart | None) -> bool:
    return part is None or part.action == "dropped"


def _together(
    group: Sequence[tuple[Key, SentPart | None, SentPart | None]], *, compared: bool
) -> tuple[object, ...]:
    first, last = group[0][0][1], group[-1][0][1]
    was = sum(part.tokens for _, part, _ in group if part is not None)
    row: tuple[object, ...] = (f"{first}-{last}", "", "dropped", number(was))
    if compared:
        then = sum(part.tokens for _, _, part in group if part is not None)
        row += ("dropped", number(then))
    return (*row, f"{len(group)} messages")


def _fate(part: SentPart | None) -> tuple[str, str]:
    return (part.action, number(part.tokens)) if part is not None else ("-", "-")


def _by_key(prompt: Sent | None) -> dict[Key, SentPart]:
    """The parts by their place in the app's list; before them what is not of it, by its id."""
    parts = [*prompt.parts, *prompt.dropped] if prompt is not None else []
    return {
        (0, p.message_id or "") if p.index is None else (1, p.index): p for p in reversed(parts)
    }
