"""`ce trace`: from a message, a block or evidence to the call that made it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ce_engine.apps.cli.errors import AmbiguousIdError
from ce_engine.apps.cli.options import Account, AsJson, SessionId, StoreUrl, User
from ce_engine.apps.cli.reading import find_session, reading
from ce_engine.apps.present.evidence_graph import QUOTES_NONE
from ce_engine.apps.present.links import arguments, usage_words
from ce_engine.apps.present.output import (
    clipped,
    console,
    print_json,
    print_under,
    printable,
    short_id,
)
from ce_engine.audit.operators import operators_scope
from ce_engine.audit.trace import trace as trace_of
from ce_engine.schema.document import Message, Ref, SessionDocument, ToolCall
from ce_engine.schema.enums import Role
from ce_engine.schema.trace import EvidenceTrace, Trace


INDENT = 14
SHOWN_LINES = 3
"""Lines of a text that are shown."""

Id = Annotated[
    str,
    typer.Argument(metavar="ID", help="Of a message, a block or evidence, or how it begins."),
]
Selector = Annotated[
    str | None,
    typer.Option(
        "--select",
        metavar="SELECTOR",
        help="The part of evidence, for example lines:1-3, chars:0-80, json:$.name or regex:PATTERN.",
    ),
]


def trace(
    session: SessionId,
    ref: Id,
    *,
    select: Selector = None,
    store: StoreUrl = None,
    user: User = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Trace a message, a block or evidence back: the call that made it, who asked, in which turn.

    With --json, an object as `ce schema trace` describes it.
    """
    result, is_tool_message = asyncio.run(_traced(store, session, ref, select, account, user))
    if as_json:
        print_json(result.model_dump(mode="json"))
        return
    screen = console()
    screen.print(Text(printable(f"{result.kind} {result.id}"), style="bold"))
    if result.seen_by:
        screen.print(Text(printable(f"seen by {', '.join(result.seen_by)}")))
    for call in result.asked_for:
        _lines(screen, [("asked for", _run(call)), *_failed(call)], indent="")
    if not result.evidence:
        screen.print("refers to no evidence")
    if result.quotes_none:
        screen.print(QUOTES_NONE)
    for item in result.evidence:
        _print(screen, item, "stored as " if is_tool_message else _word(result, item))


async def _traced(
    url: str | None, session_id: str, start: str, select: str | None, account: str, user: str | None
) -> tuple[Trace, bool]:
    """The trace, and whether it is of a tool's message: what that refers to is itself."""
    async with reading(url) as store:
        info = await find_session(store, session_id, account=account, user=user)
        scope = await operators_scope(store, info)
        document = await store.get_session(scope)
        name = _whole(document, start) if document is not None else start
        ref = name if select is None else Ref(evidence_id=name, selector=select)
        messages = document.session.messages if document is not None else []
        is_tool_message = any(m.message_id == name and m.role is Role.TOOL for m in messages)
        return await trace_of(store, scope, ref), is_tool_message


def _whole(document: SessionDocument, start: str) -> str:
    """The id that is given, or the only one that begins so."""
    ids = dict.fromkeys(document.evidences)
    ids |= dict.fromkeys(m.message_id for m in document.session.messages if m.message_id)
    ids |= dict.fromkeys(block.block_id for block in document.context_blocks)
    matches = [name for name in ids if start and name.startswith(start)]
    if start in ids or not matches:
        return start
    if len(matches) > 1:
        raise AmbiguousIdError(
            f"{len(matches)} ids in session {document.session.session_id!r} begin with {start!r}; "
            "give more of it"
        )
    return matches[0]


def _word(result: Trace, item: EvidenceTrace) -> str:
    """What an answer has to do with a piece of evidence."""
    if result.kind != "message":
        return ""
    return "rests on " if result.id in item.quoted_by else "was shown "


def _print(screen: Console, item: EvidenceTrace, word: str) -> None:
    kind = item.evidence.type.value if item.evidence is not None else "kept elsewhere"
    title = Text(f"\n  {word}{printable(item.ref.evidence_id)}", style="bold")
    screen.print(title.append(f" {kind}", style="not bold"))
    _lines(screen, _facts(item), indent="    ")


def _lines(screen: Console, facts: Iterable[tuple[str, str]], *, indent: str) -> None:
    room = SHOWN_LINES * (screen.width - INDENT)
    for name, value in facts:
        print_under(screen, INDENT, clipped(value, room), before=f"{indent}{name}")


def _run(call: ToolCall) -> str:
    call_text = f"{call.tool}({arguments(call.args_digest)}) {call.status.value}"
    return f"{short_id(call.tool_call_id)} {call_text}, {call.duration_ms} ms"


def _failed(call: ToolCall) -> Iterator[tuple[str, str]]:
    if call.error:
        yield "failed", call.error


def _facts(item: EvidenceTrace) -> Iterator[tuple[str, str]]:
    """What there is to tell of one piece of evidence."""
    if item.evidence is not None:
        source = item.evidence.source
        yield "source", " ".join(p for p in (source.kind.value, source.name, source.uri) if p)
        yield "content", item.evidence.content
    if item.ref.selector:
        yield "part", item.text if item.text is not None else (item.problem or "-")
    if item.tool_call is not None:
        yield "call", _run(item.tool_call)
        yield from _failed(item.tool_call)
    if item.model_usage is not None:
        yield (
            "usage",
            f"{short_id(item.model_usage.model_usage_id)} {usage_words(item.model_usage)}",
        )
    if item.asked_by is not None:
        yield "asked by", _describe_message(item.asked_by)
    if item.turn_id is not None:
        yield "turn", f"{item.turn} {item.turn_id}"
    if item.quoted_by:
        yield "quoted by", " ".join(map(short_id, item.quoted_by))
    if readers := [name for name in item.used_by if name not in item.quoted_by]:
        yield "shown to", " ".join(map(short_id, readers))


def _describe_message(message: Message) -> str:
    labels = (attachment.label() for attachment in message.attachments or ())
    text = " ".join(filter(None, (message.content, *labels)))
    author = message.author.id if message.author else ""
    words = (short_id(message.message_id or "-"), message.role.value, author, text)
    return " ".join(filter(None, words))
