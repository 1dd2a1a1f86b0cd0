"""Reports, sessions and traces where a notebook shows them: HTML without a script, everything escaped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any, TypeVar

from ce_engine.apps.present.evidence_graph import graph
from ce_engine.apps.present.graph_svg import drawing as graph_drawing
from ce_engine.apps.present.html_text import line, plain, visible
from ce_engine.apps.present.links import arguments
from ce_engine.apps.present.output import change, number, percent, short_id
from ce_engine.apps.present.report_lines import decision_words, report_lines, sent_words
from ce_engine.apps.present.timeline import LAYERS, TITLES, Timeline, layer_tokens, timeline
from ce_engine.apps.present.timeline_svg import COLOURS, drawing, figures, gutter
from ce_engine.errors import SessionNotFoundError
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.report import Report
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.scope import Scope
from ce_engine.schema.trace import Trace


if TYPE_CHECKING:
    from ce_engine.create import ContextEngine

T = TypeVar("T")

MOST_ROWS = 30
"""Messages and decisions that a notebook shows; all of them are in the object."""

LEGEND = (
    "Above: tokens of each input by layer; the black line is the budget, dashed red ones stand where the cut moved, "
    "the lines across are the cached prefix. In the middle: messages that the app gave; below the red line those that "
    "were left out. Below: the lanes."
)

TOLD_UP_TO = 1_000
"""Turns up to which each tells its figures where a pointer rests on it."""


@singledispatch
def html_of(value: object) -> str:
    """What a notebook shows of a value of ours."""
    raise TypeError(f"nothing is drawn of a {type(value).__name__}")


@html_of.register
def _(report: Report) -> str:
    tokens = layer_tokens(report.model_dump(mode="json"))
    of = f" of {number(report.token_budget)}" if report.token_budget else ""
    facts = [
        (
            "tokens",
            f"{number(report.token_used)}{of}; {number(report.tokens_before)} as the app gave them",
        ),
        ("messages", sent_words(report)),
    ]
    if (same := report.prefix_tokens_unchanged) is not None:
        facts.append(
            (
                "prefix",
                f"{number(same)} tokens ({percent(same, report.token_used)}) like the call before",
            )
        )
    why = (
        "".join(f"<li>{visible(reason)}</li>" for reason in report_lines(report))
        or "<li>everything fits</li>"
    )
    rows = [
        (short_id(d.block_id), d.action, decision_words(d), number(d.token_estimate))
        for d in report.prune_decisions[:MOST_ROWS]
    ]
    parts = [
        _title(f"turn {short_id(report.turn_id)}", report.lane, report.framework),
        _bar(tokens, report.token_budget or 0),
        _facts(facts),
        f"<ul>{why}</ul>",
        _details(
            f"{len(report.prune_decisions)} decisions",
            _table(("block", "action", "why", "tokens"), rows),
        ),
    ]
    return _frame(parts)


@html_of.register
def _(document: SessionDocument) -> str:
    session, evidence = document.session, document.evidences
    spent = sum(usage.prompt_tokens for usage in session.model_usage)
    facts = [
        ("messages", number(len(session.messages))),
        ("tool calls", number(len(session.tool_state.tool_calls))),
        ("evidence", number(len(evidence))),
        ("model calls", f"{number(len(session.model_usage))}, {number(spent)} tokens of input"),
    ]
    rows = [
        (str(m.seq or n), m.author.id if m.author else m.role.value, _text(m.content, m.tool_calls))
        for n, m in list(enumerate(session.messages, start=1))[-MOST_ROWS:]
    ]
    heading = f"the newest {len(rows)} of {number(len(session.messages))} messages"
    about = "its turns are drawn by ce_engine.show(SESSION)"
    parts = [
        _title(f"session {session.session_id}"),
        _facts(facts),
        _details(heading, _table(("#", "who", "said"), rows)),
        f"<small>{about}</small>",
    ]
    return _frame(parts)


@html_of.register
def _(trace: Trace) -> str:
    rows = [
        (
            short_id(item.ref.evidence_id),
            "rests on" if trace.id in item.quoted_by else "was shown",
            f"{item.tool_call.tool}({arguments(item.tool_call.args_digest)})"
            if item.tool_call
            else "-",
            str(item.turn or "-"),
            line(
                item.text
                or (item.evidence.content if item.evidence else "kept elsewhere, or deleted")
            ),
        )
        for item in trace.evidence
    ]
    heads = ("evidence", "how", "call", "turn", "content")
    drawn = graph_drawing(graph(trace, None, {}), lambda _: "") if trace.evidence else ""
    parts = [
        _title(f"{trace.kind} {short_id(trace.id)}", *trace.seen_by),
        f'<div style="overflow-x:auto">{drawn}</div>',
        _table(heads, rows) if rows else "<p>refers to no evidence</p>",
    ]
    return _frame(parts)


class SessionPicture:
    """The timeline of a session's turns; a notebook draws it, `str` of it tells the sums in a line."""

    def __init__(self, session_id: str, turns: Sequence[TurnRow]) -> None:
        self.session_id = session_id
        self.found: Timeline = timeline(turns)

    def __repr__(self) -> str:
        pairs = list(zip(self.found.used, self.found.without, strict=True))
        # What stands beside nothing counts alike in both.
        sent_tokens, before = sum(self.found.used), sum(without or used for used, without in pairs)
        return (
            f"session {self.session_id}: {number(len(self.found))} turns, {number(sent_tokens)} tokens sent, "
            f"{number(before)} without us ({change(sent_tokens, before, 1)})"
        )

    def _repr_html_(self) -> str:
        chart = self.found
        address: Callable[[int], str] | None = (lambda _: "") if len(chart) <= TOLD_UP_TO else None
        keys = "".join(
            _key(name)
            for name in (*LAYERS, "reserve")
            if name == "reserve" or any(chart.layers[name])
        )
        name = f"ce-{abs(hash((self.session_id, len(chart), sum(chart.used)))):x}"
        marks = [
            (str(chart.turns[place]), figures(chart, place))
            for place in sorted(chart.marks)[:MOST_ROWS]
        ]
        parts = [
            f"<p><b>{plain(repr(self))}</b></p>",
            f"<div>{keys}</div>",
            f'<div style="display:flex"><div style="flex:none">{gutter(chart)}</div>',
            f'<div style="flex:1;min-width:0">{drawing(chart, name=name, address=address)}</div></div>',
            f"<small>{LEGEND}</small>",
            _details(f"{len(chart.marks)} turns worth a look", _table(("turn", "what"), marks))
            if marks
            else "",
        ]
        return _frame(parts)


def show(
    session: str | Scope | SessionDocument,
    *,
    engine: ContextEngine | None = None,
    store: str | None = None,
    user: str | None = None,
    account: str = "",
) -> SessionPicture:
    """The timeline of a session, for a notebook: what of each turn went out, by layer, against the budget.

    Args:
        session: its id, its scope, or its document.
        engine: whose store it is in; the session is then one of `user` (none: of no user), or of the scope.
        store: the URL of a store, where there is no engine; else that of CE_STORE_URL, else `sqlite:///ce.db`.
        user: whose; without an engine any user's of the account, if only one has such a session.
        account: of the user.

    Raises:
        SessionNotFoundError: there is no such session.
        StoreUnavailableError: there is no store yet.
    """
    if isinstance(session, SessionDocument):
        session = session.session.session_id
    if engine is not None:
        scope = (
            session if isinstance(session, Scope) else Scope.of_stored(account, user or "", session)
        )
        turns = engine.sync.list_turns(scope)
        if not turns and engine.sync.get_session(scope) is None:
            raise SessionNotFoundError(
                f"there is no session {scope.session_id!r} of this user. Name the one that has it: "
                "show(session, engine=engine, user=ID), or give its Scope."
            )
        return SessionPicture(scope.session_id, turns)
    if isinstance(session, Scope):
        account, user, session = session.key
    return SessionPicture(session, _apart(_turns(store, session, account, user)))


async def _turns(
    store: str | None, session_id: str, account: str, user: str | None
) -> Sequence[TurnRow]:
    from ce_engine.apps.cli.reading import find_scope, reading  # noqa: PLC0415 - only without an engine

    async with reading(store) as opened:
        scope = await find_scope(opened, session_id, account=account, user=user)
        return await opened.list_turns(scope)


def _apart(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread of its own: a notebook's own loop runs already."""
    results: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            failed.append(error)

    thread = threading.Thread(target=run, name="ce-show", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return results[0]


def _frame(parts: Sequence[str]) -> str:
    return f'<div style="font-family:system-ui,sans-serif;font-size:13px">{"".join(parts)}</div>'


def _title(title: str, *more: str) -> str:
    rest = "".join(f" · {plain(part)}" for part in more if part)
    return f"<p><b>{plain(title)}</b>{rest}</p>"


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    return _table((), facts)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{plain(title)}</th>" for title in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    first = f"<thead><tr>{head}</tr></thead>" if head else ""
    return f"<table>{first}<tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    return f'<td style="text-align:left">{visible(text)}</td>'


def _details(title: str, content: str) -> str:
    return f"<details><summary>{plain(title)}</summary>{content}</details>"


def _key(name: str, tokens: int | None = None) -> str:
    amount = f" {tokens:,}" if tokens is not None else ""
    return (
        f'<span style="margin-right:1em;white-space:nowrap"><svg width="10" height="10"><rect width="10" height="10" rx="2" '
        f'fill="{COLOURS[name]}"/></svg> {TITLES[name]}{amount}</span>'
    )


def _bar(tokens: dict[str, int], budget: int) -> str:
    """The layers of one input as a bar, as long as the budget."""
    whole = max(budget, sum(tokens.values()), 1)
    keys = "".join(_key(name, count) for name, count in tokens.items() if count)
    return (
        '<svg width="100%" height="16" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="tokens by layer">'
        f'<rect width="100" height="10" fill="{COLOURS["reserve"]}" fill-opacity=".5"/>{"".join(_pieces(tokens, whole))}</svg>'
        f"<div>{keys}</div>"
    )


def _pieces(tokens: dict[str, int], whole: int) -> Iterator[str]:
    begun = 0.0
    for name, count in tokens.items():
        width = 100 * count / whole
        if width:
            yield f'<rect x="{begun:.2f}" width="{width:.2f}" height="10" fill="{COLOURS[name]}"/>'
        begun += width


def _text(content: str, calls: Sequence[Any] | None) -> str:
    return line(
        " ".join([content, *(f"{call.name}({arguments(call.args)})" for call in calls or ())])
    )


__all__ = ["SessionPicture", "html_of", "show"]
