"""`ce inspect`: what would be sent now, layer by layer."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ce_engine.cli.options import Account, AsJson, SessionId, StoreUrl, User
from ce_engine.cli.output import clipped, console, number, print_json, print_under
from ce_engine.cli.reading import engine_over, find_scope
from ce_engine.config import ObservabilityConfig, RuntimeConfig
from ce_engine.errors import SessionNotFoundError
from ce_engine.ports import Store
from ce_engine.schema.enums import Role
from ce_engine.schema.replay import Inspection
from ce_engine.schema.scope import Scope


SHOWN_LINES = 2
"""Lines of a text that are shown."""

INDENT = 26

Question = Annotated[
    str | None,
    typer.Argument(
        metavar="[QUESTION]", help="What would be asked; the newest question if not given."
    ),
]


def inspect(
    session: SessionId,
    question: Question = None,
    *,
    store: StoreUrl = None,
    user: User = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Show what would be sent if a question was asked now, by layer; nothing is sent or recorded.

    That somebody looked is an event of the session. With --json, an object with layers (of each
    tokens, truncated and parts), tokens, budget and the report.
    """
    found = asyncio.run(_inspect(store, session, question, account, user))
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        _print(console(), found)


async def _inspect(
    url: str | None, session: str, question: str | None, account: str, user: str | None
) -> Inspection:
    config = RuntimeConfig(observability=ObservabilityConfig(inspect=True))
    async with engine_over(url, config=config) as engine:
        scope = await find_scope(engine.store, session, account=account, user=user)
        asked = question or await _newest(engine.store, scope)
        return await engine.inspect((scope, asked), actor=scope.user_id)


async def _newest(store: Store, scope: Scope) -> str:
    document = await store.get_session(scope)
    messages = document.session.messages if document is not None else []
    asked = [m.content for m in messages if m.role is Role.USER and m.content]
    if not asked:
        raise SessionNotFoundError(
            f"session {scope.session_id!r} has no question yet: give one, ce inspect SESSION QUESTION"
        )
    return asked[-1]


def _print(screen: Console, found: Inspection) -> None:
    budget = f" of {number(found.budget)}" if found.budget is not None else ""
    screen.print(Text(f"would send {number(found.tokens)}{budget} tokens", style="bold"))
    for name, layer in found.layers.items():
        cut = ", truncated" if layer.truncated else ""
        screen.print(Text(f"\n{name}: {number(layer.tokens)} tokens{cut}", style="bold"))
        for part in layer.parts:
            lead = f"  {part.action} {part.role.value} {number(part.tokens)}"
            room = SHOWN_LINES * (screen.width - INDENT)
            print_under(screen, INDENT, clipped(part.content, room), before=lead)
