"""`ce inspect`: what would be sent now, layer by layer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ce_engine.apps.cli.audited import operator
from ce_engine.apps.cli.options import Account, AsJson, SessionId, StoreUrl, User
from ce_engine.apps.cli.reading import engine_over, find_scope, text_of
from ce_engine.apps.present.output import clipped, console, number, print_json, print_under
from ce_engine.config import ObservabilityConfig, RuntimeConfig, load_config
from ce_engine.errors import SessionNotFoundError
from ce_engine.ports.store import Store
from ce_engine.schema.call import HostMessage, ModelCall
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Origin, Role
from ce_engine.schema.replay import Inspection
from ce_engine.schema.scope import Scope


SHOWN_LINES = 2
"""Lines of a text that are shown."""

INDENT = 26

Question = Annotated[
    str | None,
    typer.Argument(
        metavar="QUESTION", help="What would be asked; the newest question if not given."
    ),
]
Settings = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Another configuration (TOML) than the recorded one.",
    ),
]


def inspect(
    session: SessionId,
    question: Question = None,
    *,
    config: Settings = None,
    store: StoreUrl = None,
    user: User = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Show what would be sent if a question was asked now, by layer; nothing is sent or recorded.

    With the configuration, the model and its window that the session's newest turn was recorded with.

    That somebody looked is an event of the session. With --json, an object with layers (of each
    tokens, truncated and parts), tokens, budget and the report.
    """
    settings = load_config(text_of(config)) if config is not None else None
    inspection, origin = asyncio.run(_inspect(store, session, question, account, user, settings))
    if as_json:
        print_json(inspection.model_dump(mode="json"))
    else:
        _print(console(), inspection, f"{config}" if config is not None else origin)


async def _inspect(
    url: str | None,
    session: str,
    question: str | None,
    account: str,
    user: str | None,
    config: RuntimeConfig | None,
) -> tuple[Inspection, str]:
    """What would be sent, and where the configuration is from."""
    # Who can read the store may look at what is in it, and the session's log says who did.
    looking = RuntimeConfig(observability=ObservabilityConfig(inspect=True))
    async with engine_over(url, config=looking) as engine:
        scope = await find_scope(engine.store, session, account=account, user=user)
        question_text = question or await _newest(engine.store, scope)
        was = await engine.recorded_call(scope)
        same_model = was is not None and not (config and config.model_hint)
        call = ModelCall(
            scope,
            [HostMessage(Message(role=Role.USER, content=question_text), Origin.TASK)],
            by_hand=True,
            lane_key=was.lane_key if was else None,
            model_hint=was.model_hint if was and same_model else None,
            context_window=was.context_window if was and same_model else None,
            config=config or (was.config if was else None),
        )
        origin = "its newest turn" if was else "the defaults: no turn of it has one on record"
        engine.authorize = lambda *_: True
        return await engine.inspect(call, actor=operator()), origin


async def _newest(store: Store, scope: Scope) -> str:
    document = await store.get_session(scope)
    messages = document.session.messages if document is not None else []
    questions = [m.content for m in messages if m.role is Role.USER and m.content]
    if not questions:
        raise SessionNotFoundError(
            f"session {scope.session_id!r} has no question yet: give one, ce inspect SESSION QUESTION"
        )
    return questions[-1]


def _print(screen: Console, inspection: Inspection, origin: str) -> None:
    budget = f" of {number(inspection.budget)}" if inspection.budget is not None else ""
    screen.print(Text(f"would send {number(inspection.tokens)}{budget} tokens", style="bold"))
    print_under(screen, 0, f"configuration of {origin}")
    for name, layer in inspection.layers.items():
        cut = ", truncated" if layer.truncated else ""
        screen.print(Text(f"\n{name}: {number(layer.tokens)} tokens{cut}", style="bold"))
        for part in layer.parts:
            lead = f"  {part.action} {part.role.value} {number(part.tokens)}"
            room = SHOWN_LINES * (screen.width - INDENT)
            print_under(screen, INDENT, clipped(part.content, room), before=lead)
