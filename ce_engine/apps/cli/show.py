"""`ce show`: a session's messages, tool calls, evidence and usage, and what links them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ce_engine.apps.cli.options import Account, AsJson, SessionId, StoreUrl, User
from ce_engine.apps.cli.reading import find_session, reading
from ce_engine.apps.present.links import Links, arguments
from ce_engine.apps.present.output import (
    clipped,
    console,
    moment,
    number,
    print_columns,
    print_json,
    print_under,
    printable,
    short_id,
)
from ce_engine.audit.operators import operators_scope
from ce_engine.errors import SessionNotFoundError
from ce_engine.schema.degradation import RECORDING_GAP
from ce_engine.schema.document import Message, SessionDocument
from ce_engine.schema.events import Event
from ce_engine.schema.rows import SessionInfo, TurnRow


INDENT = 6
SHOWN_LINES = 2
"""Lines of a message's text that are shown."""
SHOWN_REFS = 4
"""Pieces of evidence that are named under one message."""
SOURCE_CELLS = 44
SHOWN_TO_CELLS = 16

Whole = Annotated[bool, typer.Option("--full", help="Whole texts and all links, none shortened.")]


def show(
    session: SessionId,
    *,
    full: Whole = False,
    store: StoreUrl = None,
    user: User = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Show a session: messages, tool calls, evidence, model usage, and what links them.

    With --json, the session document: ce_engine.parse_document reads it.
    """
    info, document, turns, gaps = asyncio.run(_read(store, session, account, user))
    if as_json:
        print_json(document.model_dump(mode="json"))
        return
    screen = console()
    _header(screen, info)
    for gap in gaps:
        _gap(screen, gap)
    links = Links(document, turns)
    for position, message in enumerate(document.session.messages, start=1):
        _message(screen, links, message, position, full=full)
    _tasks(screen, document)
    _tool_calls(screen, links, full=full)
    _evidence(screen, links)
    _usage(screen, links)


async def _read(
    url: str | None, session_id: str, account: str, user: str | None
) -> tuple[SessionInfo, SessionDocument, Sequence[TurnRow], Sequence[Event]]:
    async with reading(url) as store:
        info = await find_session(store, session_id, account=account, user=user)
        scope = await operators_scope(store, info)
        document = await store.get_session(scope)
        if document is None:
            raise SessionNotFoundError(f"session {session_id!r} was deleted just now")
        events = await store.list_events(scope)
        gaps = [event for event in events if event.payload.get("code") == RECORDING_GAP]
        return info, document, await store.list_turns(scope), gaps


def _header(screen: Console, info: SessionInfo) -> None:
    parts = [f"user {info.user_id}"] if info.user_id else []
    parts += [f"account {info.account_id}"] if info.account_id else []
    parts += [", ".join(info.frameworks)] if info.frameworks else []
    parts += ["ephemeral"] if info.ephemeral else []
    title = Text(printable(f"session {info.session_id}"), style="bold")
    screen.print(title.append(printable("".join(f" · {part}" for part in parts)), style="not bold"))
    screen.print(
        f"{moment(info.created_at)} to {moment(info.updated_at)} UTC · "
        f"{number(info.turns)} turns · {number(info.messages)} messages · "
        f"{number(info.tool_calls)} tool calls · {number(info.evidences)} evidence"
    )


def _gap(screen: Console, gap: Event) -> None:
    """What was lost while the store was away, as the session's log names it."""
    payload = gap.payload
    screen.print(
        printable(
            f"lost: {payload.get('messages', '-')} messages in {payload.get('groups', '-')} groups of records, "
            f"{moment(payload.get('from'))} to {moment(payload.get('to'))} UTC: the store took nothing, and "
            "the buffer was full"
        ),
        style="bold",
    )


def _message(screen: Console, links: Links, message: Message, position: int, *, full: bool) -> None:
    speaker = message.role.value
    if message.author is not None:
        speaker += f" {message.author.id}"
    head = Text(f"\n{message.seq or position:>{INDENT - 2}}  ")
    head.append(printable(speaker), style="bold")
    marks = "".join(f" · {mark}" for mark in _marks(links, message))
    screen.print(head.append(printable(marks), style="dim"))
    if message.content:
        room = SHOWN_LINES * (screen.width - INDENT)
        print_under(screen, INDENT, message.content if full else clipped(message.content, room))
    for attachment in message.attachments or ():
        print_under(screen, INDENT, attachment.label(), style="dim")
    for word, text in _links(links, message, full=full):
        line = f"{word:<{len('stored as')}} {text}"
        room = screen.width - INDENT
        print_under(screen, INDENT, line if full else clipped(line, room), style="dim")


def _marks(links: Links, message: Message) -> Iterator[str]:
    """What stands behind who said it."""
    if message.at:
        yield moment(message.at)
    if message.message_id:
        yield short_id(message.message_id)
    if message.status:
        yield message.status
    if message.variant_of:
        yield f"variant of {short_id(message.variant_of)}"
    if message.replaces:
        yield f"replaces {short_id(message.replaces)}"
    if message.message_id in links.answers:
        yield f"turn {links.answers[message.message_id]}"
    if broken := links.violations.get(message.message_id or ""):
        names = ", ".join(map(short_id, broken))
        yield f"BREAKS CONSTRAINT{'S' if len(broken) > 1 else ''} {names}"


def _links(links: Links, message: Message, *, full: bool) -> Iterator[tuple[str, str]]:
    """The lines under a message: what it asks for, rests on and was shown, and what became of it."""
    for request in links.render_calls(message):
        yield "asks for", request
    refs = links.stands_on(message)
    for word, evidence_id in refs if full else refs[:SHOWN_REFS]:
        yield word, links.way_back(evidence_id)
    rest = Counter(word for word, _ in refs[SHOWN_REFS:]) if not full else {}
    for word, count in rest.items():
        yield word, f"{count} more; --full names them"
    if message.message_id is not None:
        yield from links.became(message.message_id)


def _tasks(screen: Console, document: SessionDocument) -> None:
    """The to-do list, with the tokens that model calls for a task took; tasks within one count as its own."""
    spent: Counter[str | None] = Counter()
    for usage in document.session.model_usage:
        spent[usage.task_id] += usage.prompt_tokens + usage.completion_tokens
    tasks = document.session.task_state.todo_list.tasks
    rows = [
        (
            short_id(task.task_id),
            clipped(task.name, SOURCE_CELLS),
            task.status.value,
            " ".join(short_id(task_id) for task_id in task.depends_on) or "-",
            " ".join(short_id(evidence_id) for evidence_id in task.result_evidence_ids) or "-",
            number(spent[task.task_id]) if spent[task.task_id] else "-",
            task.error or "-",
        )
        for task in tasks
    ]
    columns = ["task", "name", "status", "waits for", "evidence", "tokens", "error"]
    _section(screen, "Tasks", columns, rows, numbers={"tokens"}, narrow="error")


def _tool_calls(screen: Console, links: Links, *, full: bool) -> None:
    calls = links.document.session.tool_state.tool_calls
    rows = [
        (
            short_id(call.tool_call_id),
            call.tool,
            arguments(call.args_digest),
            call.status.value,
            number(call.duration_ms),
            " ".join(short_id(item) for item in call.result_evidence_ids) or "-",
        )
        for call in calls
    ]
    columns = ["tool call", "tool", "arguments", "status", "ms", "evidence"]
    _section(screen, "Tool calls", columns, rows, numbers={"ms"}, narrow="arguments")
    for call in calls:
        if text := links.failure(call):
            line = f"{short_id(call.tool_call_id)} {call.tool} failed: {text}"
            room = SHOWN_LINES * (screen.width - INDENT)
            print_under(screen, INDENT, line if full else clipped(line, room))


def _evidence(screen: Console, links: Links) -> None:
    rows = []
    for evidence in links.document.evidences.values():
        readers = [f"#{seq}" for seq in links.used_by.get(evidence.evidence_id, ())]
        more = evidence.metadata.get("links")
        again = f" (+{len(more)})" if isinstance(more, list) and more else ""
        source = evidence.source
        rows.append(
            (
                short_id(evidence.evidence_id),
                evidence.type.value,
                clipped(source.uri or source.name or source.kind.value, SOURCE_CELLS),
                clipped(links.source(evidence), SOURCE_CELLS) + again,
                clipped(" ".join(readers) or "-", SHOWN_TO_CELLS),
                evidence.content,
            )
        )
    columns = ["evidence", "type", "source", "from", "shown to", "content"]
    _section(screen, "Evidence", columns, rows, narrow="content")


def _usage(screen: Console, links: Links) -> None:
    rows = [
        (
            short_id(usage.model_usage_id),
            usage.stage.value,
            usage.model or usage.provider or "-",
            number(usage.prompt_tokens),
            number(usage.completion_tokens),
            number(usage.latency_ms),
            usage.status.value + (" (estimated)" if usage.params.get("estimated") else ""),
            links.turn_of_usage.get(usage.model_usage_id, "-"),
        )
        for usage in links.usages.values()
    ]
    columns = ["usage", "stage", "model", "prompt", "completion", "ms", "status", "turn"]
    numbers = {"prompt", "completion", "ms", "turn"}
    _section(screen, "Model usage", columns, rows, numbers=numbers)


def _section(
    screen: Console,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    numbers: AbstractSet[str] = frozenset(),
    narrow: str = "",
) -> None:
    """Rows under their title, if there are any."""
    if rows:
        screen.print(Text(f"\n{title} ({number(len(rows))})", style="bold"))
        print_columns(screen, columns, rows, numbers=numbers, narrow=narrow)
