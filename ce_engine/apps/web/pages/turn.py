"""A turn: what the app gave, what was decided on each piece and why, what went out; and what if."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ce_engine.apps.present.brought_in import FEATURES, LEGEND
from ce_engine.apps.present.conflicts import conflicts
from ce_engine.apps.present.cost_lines import SessionCosts, turn_lines
from ce_engine.apps.present.language import Say
from ce_engine.apps.present.links import Links
from ce_engine.apps.present.reasons import decision_words, reasons
from ce_engine.apps.present.timeline import BAD, MARKS, TITLES, marks_of, timeline
from ce_engine.apps.present.turn_view import (
    WHY,
    Fold,
    Row,
    changes,
    folded,
    reason_words,
    turn_rows,
)
from ce_engine.apps.present.turns import BROKEN
from ce_engine.apps.present.what_if import what_if_config, window_of
from ce_engine.apps.web.page import page, reader_of, taste_of
from ce_engine.apps.web.reading import Reader
from ce_engine.audit.compare.reading import calls_of
from ce_engine.audit.replay import find_turn
from ce_engine.errors import ConfigError, ContextEngineError, SessionNotFoundError
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.replay import Explanation, Replay
from ce_engine.schema.report import Report, report_of
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.scope import Scope


SECONDS = 20.0
"""How long a turn is made again before the page goes on without."""

PLACEMENTS = ("cache", "seed")


@dataclass(slots=True)
class Told:
    """A turn as it is stored, with the session round it."""

    scope: Scope
    document: SessionDocument
    turns: list[TurnRow]
    at: int

    @property
    def row(self) -> TurnRow:
        return self.turns[self.at]

    @property
    def report(self) -> Report | None:
        return report_of(self.row.turn_id, self.row.report)


async def _told(request: Request, reader: Reader, scope: Scope) -> Told:
    """Read the turn that is asked for.

    Raises:
        TurnNotFoundError: there is none.
    """
    turns = list(await reader.store.list_turns(scope))
    at = find_turn(turns, request.query_params.get("turn", ""), scope.session_id)
    document = await reader.store.get_session(scope)
    if document is None:
        raise SessionNotFoundError(f"session {scope.session_id!r} was deleted just now")
    return Told(scope, document, turns, at)


async def turn(request: Request) -> Response:
    """The page."""
    reader, query = reader_of(request), request.query_params
    scope = await reader.scope(query.get("user", ""), query.get("id", ""))
    say = taste_of(request).language
    with reader.looking("ui turn", "read", scope):
        told = await _told(request, reader, scope)
        again = await _again(reader, told)
        other = await _what_if(reader, told, query) if _asks(query) else {}
    links, report = Links(told.document, told.turns), told.report
    rows = _rows(again, report, links)
    find = query.get("find", "").strip()
    shown = [row for row in rows if row.has(find)] if find else folded(rows)
    return page(
        request,
        "turn.html",
        **_frame(told, say),
        **_figures(told, report, say),
        **_costs(reader, told, say),
        rows=shown,
        count=len(rows),
        is_fold=lambda row: isinstance(row, Fold),
        why=lambda reason: reason_words(reason, say),
        find=find,
        replay=again.replay,
        problem=again.problem,
        brought=again.found.brought_in if again.found else [],
        earlier=again.found.earlier if again.found else [],
        passed=again.found.passed_over if again.found else [],
        asked=again.found.asked if again.found else "",
        source=_source(links),
        texts=_texts(told.document),
        asked_turns={row.tip_message_id: n for n, row in reversed(list(enumerate(told.turns, 1)))},
        features={name: say(word) for name, word in FEATURES.items()},
        legend=say(LEGEND),
        conflicts=conflicts(report, told.document) if report else [],
        **{**NO_WHAT_IF, "window": window_of(told.turns, told.at), **other},
    )


NO_WHAT_IF: dict[str, Any] = {"other": None, "changes": [], "refusal": "", "placement": ""}


@dataclass(slots=True)
class _Again:
    """A turn made again, or why it could not be."""

    replay: Replay | None = None
    found: Explanation | None = None
    problem: str = ""


async def _again(reader: Reader, told: Told) -> _Again:
    again, engine = _Again(), reader.engine()
    try:
        async with asyncio.timeout(SECONDS):
            again.replay = await engine.replay(told.scope, told.row.turn_id)
            with suppress(ContextEngineError):
                again.found = await engine.explain(told.scope, told.row.turn_id)
    except TimeoutError:
        again.problem = "slow"
    except ContextEngineError as error:
        again.problem = str(error)
    return again


def _rows(again: _Again, report: Report | None, links: Links) -> list[Row]:
    if again.replay is None or report is None:
        return []
    return turn_rows(again.replay, again.found, report, links)


def _frame(told: Told, say: Say) -> dict[str, Any]:
    """Where the turn stands."""
    row, at, turns = told.row, told.at, told.turns
    return {
        "scope": told.scope,
        "row": row,
        "turn": at + 1,
        "before": at or None,
        "after": at + 2 if at + 1 < len(turns) else None,
        "turn_count": len(turns),
        "marks": [(mark, say(MARKS[mark]), mark in BAD) for mark in marks_of(row)],
        "parent": next((n for n, t in enumerate(turns, 1) if t.turn_id == row.parent_turn_id), None)
        if row.parent_turn_id
        else None,
    }


def _figures(told: Told, report: Report | None, say: Say) -> dict[str, Any]:
    """The turn in numbers and reasons, as it is stored."""
    one = timeline([told.row])
    layers = [
        (name, say(TITLES[name]), tokens[0]) for name, tokens in one.layers.items() if tokens[0]
    ]
    return {
        "report": report,
        "layers": layers,
        "reasons": list(reasons(report, say)) if report else [],
        "broken": say(BROKEN[report.prefix_broken_by])
        if report and report.prefix_broken_by in BROKEN
        else "",
        "decisions": [
            (d, decision_words(d, say), WHY.get((d.action, d.reason), ""))
            for d in report.prune_decisions
        ]
        if report
        else [],
    }


def _costs(reader: Reader, told: Told, say: Say) -> dict[str, Any]:
    if told.report is None:
        return {"costs": []}
    [call, *_] = calls_of(told.document, [told.row])  # not of all turns: there may be thousands
    spent = SessionCosts.of([call], reader.prices, [told.at + 1])
    return {"costs": list(turn_lines(spent, 0, say))}


def _source(links: Links) -> Any:
    """What leads from a piece that was brought in to where it is from: the turn, and the call."""

    def of(name: str) -> tuple[int | None, str]:
        evidence = links.document.evidences.get(name)
        said = links.source(evidence) if evidence is not None else ""
        call = links.calls.get(evidence.links.tool_call_id or "") if evidence else None
        return links.answers.get(name), f"{said} {call.tool}" if call else said

    return of


def _texts(document: SessionDocument) -> dict[str, str]:
    found = {m.message_id: m.content for m in document.session.messages if m.message_id}
    return found | {name: e.content for name, e in document.evidences.items() if name not in found}


def _asks(query: QueryParams) -> bool:
    return bool(query.get("window") or query.get("placement"))


async def _what_if(reader: Reader, told: Told, query: QueryParams) -> dict[str, Any]:
    """What another budget or placement would have sent; nothing of it is sent or recorded."""
    window, placement = query.get("window", "").replace(",", "").strip(), query.get("placement", "")
    made: dict[str, Any] = {"window": window, "placement": placement}
    try:
        if window and not (window.isdecimal() and 0 < int(window[:12]) <= 10_000_000):
            raise ConfigError("the window is a number of tokens from 1 to 10,000,000")
        chosen = placement if placement in PLACEMENTS else ""
        config = what_if_config(told.turns, told.at, int(window) if window else None, chosen)
        async with asyncio.timeout(SECONDS):
            replay = await reader.engine().replay(told.scope, told.row.turn_id, config)
    except TimeoutError:
        return {**made, "refusal": "slow"}
    except (ContextEngineError, ValueError) as error:
        return {**made, "refusal": str(error)}
    links = Links(told.document, told.turns)
    return {**made, "other": replay, "changes": changes(replay, links)}


async def what_if(request: Request) -> Response:
    """What another configuration would have sent: a part of the page."""
    reader, query = reader_of(request), request.query_params
    scope = await reader.scope(query.get("user", ""), query.get("id", ""))
    with reader.looking("ui what-if", "read", scope):
        told = await _told(request, reader, scope)
        other = await _what_if(reader, told, query)
    values = {**NO_WHAT_IF, **other}
    return page(request, "turn_what_if.html", scope=scope, turn=told.at + 1, **values)


routes = [Route("/turn", turn), Route("/turn/what-if", what_if)]
