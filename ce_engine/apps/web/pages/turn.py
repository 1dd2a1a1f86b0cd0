"""A turn: what the app gave, what was decided on each piece and why, what went out; and what if."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ce_engine.apps.present.amounts import Amounts
from ce_engine.apps.present.bill_lines import estimate_words
from ce_engine.apps.present.brought_in import FEATURES, LEGEND, sent_stretches
from ce_engine.apps.present.conflicts import WENT, Disagreement, Disagreements
from ce_engine.apps.present.cost_lines import SessionCosts, turn_lines
from ce_engine.apps.present.language import Say
from ce_engine.apps.present.links import Links
from ce_engine.apps.present.questions import Questions
from ce_engine.apps.present.reasons import Reasons, moved_in, reason_words
from ce_engine.apps.present.report_lines import decision_words, report_lines, sent_words
from ce_engine.apps.present.rules_out import RuleOut, rules_said
from ce_engine.apps.present.timeline import BAD, DEARER, FAILED, MARKS, TITLES, call_marks, timeline
from ce_engine.apps.present.turn_view import (
    Fold,
    Row,
    folded,
    standing_before,
    turn_rows,
)
from ce_engine.apps.present.turns import BROKEN
from ce_engine.apps.present.vocabulary import replay_words
from ce_engine.apps.present.what_if import what_if_config, window_of
from ce_engine.apps.present.what_if_view import WORDS, WhatIfView
from ce_engine.apps.web.filters import beginning
from ce_engine.apps.web.links import evidence_url, trace_url
from ce_engine.apps.web.page import page, reader_of, taste_of
from ce_engine.apps.web.reading import Reader
from ce_engine.apps.web.rest import newest, rest_of
from ce_engine.apps.web.stored_turn import SECONDS, MadeAgain, StoredTurn, made_again, stored_turn
from ce_engine.apps.web.turn_facts import turn_facts
from ce_engine.audit.compare.costs import is_free, priced_by
from ce_engine.audit.compare.reading import calls_of
from ce_engine.audit.places.quoted_pieces import quoted_since
from ce_engine.audit.places.whereabouts import absence, whereabouts
from ce_engine.errors import ConfigError, ContextEngineError
from ce_engine.schema.replay import BroughtIn, Explanation, PassedOver, Replay
from ce_engine.schema.report import Report
from ce_engine.schema.stored_report import damaged_fields


LINE = 220
"""Characters of a text that stand on a line."""

PLACEMENTS = ("cache", "seed")


async def turn(request: Request) -> Response:
    """The page."""
    reader, query = reader_of(request), request.query_params
    scope = await reader.scope(query.get("user", ""), query.get("id", ""), "ui turn")
    say = taste_of(request).language
    with reader.looking("ui turn", "read", scope):
        record = await stored_turn(reader, scope, query.get("turn", ""), query.get("question"))
        again = await made_again(reader, record, say)
        other = await _what_if(reader, record, query, say) if _asks(query) else {}
        rules = await reader.rules_out(scope, record.turns)
        other["rules"] = _rule_words(record, rules, say)
    links, report = Links(record.document, record.turns), record.report
    rows, sides = await asyncio.to_thread(_compared, again, record, links, say)
    find = query.get("find", "").strip()
    hits = [row for row in rows if row.has(find)]
    batch = newest(hits)
    return page(
        request,
        "turn.html",
        **_frame(record, say),
        **_figures(record, report, say),
        **_reasons(record, report, again.why, say),
        **_costs(reader, record, say),
        **_listed(hits, batch, find),
        **await asyncio.to_thread(rest_of, record.row, links, again.why, rows, batch, query, say),
        is_fold=lambda row: isinstance(row, Fold),
        why=partial(reason_words, say=say),
        find=find,
        replay=again.replay,
        problem=again.problem,
        **_recall(again.why, say),
        **_ways_back(record, links, say),
        shown_text=_shown_text(links, find, say),
        **_whereabouts(record, batch),
        **await asyncio.to_thread(turn_facts, record, batch, rules, links, say),
        **_scores(say),
        conflicts=sides,
        went_words=WENT,
        **{**NO_WHAT_IF, "window": window_of(record.turns, record.at), **other},
    )


def _listed(hits: Sequence[Row], batch: Sequence[Row], find: str) -> dict[str, Any]:
    """The rows of a page; where something is looked for, those that have it, and which of them the model had not."""
    if not find:
        return {"rows": folded(batch), "hits": len(hits), "absent": []}
    absent = [row for row in hits if row.is_out and not row.is_quoted]
    return {"rows": batch, "hits": len(hits), "absent": absent}


def _asked_turns(record: StoredTurn) -> dict[str | None, int]:
    """The first turn that answers each message, by its id."""
    return {row.tip_message_id: n for n, row in reversed(list(enumerate(record.turns, 1)))}


def _whereabouts(record: StoredTurn, rows: Sequence[Row]) -> dict[str, Any]:
    """Where each message went, since which turns those are left out that are, and what is quoted since when."""
    ids = [row.message.message_id or "" for row in rows if row.message]
    where = own = whereabouts(ids, record.document, record.turns)
    if len({row.lane for row in record.turns}) > 1:
        own = whereabouts(ids, record.document, record.turns, record.row.lane)
    absences = {name: absence(history, record.at + 1) for name, history in own.items()}
    return {
        "where": where,
        "gone": absences,
        "asked_turns": _asked_turns(record),
        "quoted_since": quoted_since(record.turns, record.at),
    }


def _ways_back(record: StoredTurn, links: Links, say: Say) -> dict[str, Any]:
    """What leads from a piece to where it is from, and to where it is shown whole."""
    return {"source": _source(links, say), "back": _back(record)}


def _recall(explanation: Explanation | None, say: Say) -> dict[str, Any]:
    """What was brought in, now and by earlier turns, and what was looked at."""
    if explanation is None:
        none = dict.fromkeys(("brought", "earlier", "passed"), ())
        return {**none, "asked": "", "nearest": None, "piece_counts": ""}
    return {
        "brought": rules_said(explanation.brought_in, say),
        "earlier": explanation.earlier,
        "piece_counts": _piece_counts(explanation, say),
        "passed": explanation.passed_over,
        "asked": explanation.asked,
        "stretches": sent_stretches,
        "nearest": explanation.nearest,
        "stands_before": standing_before(explanation),
    }


def _piece_counts(explanation: Explanation, say: Say) -> str:
    """How many pieces are new in the turn, stand there from before, and are rules or settings."""
    found = [piece for piece in explanation.brought_in if piece.kind in ("message", "evidence")]
    standing = sum(len(group.ids) for group in explanation.earlier)
    others = len(explanation.brought_in) - len(found)
    parts = [
        say("{count} new piece", "{count} new pieces", count=len(found)),
        say("{count} stands from before", "{count} stand from before", count=standing)
        if standing
        else "",
        say("{count} of rules, settings and notes", count=others) if others else "",
    ]
    return say(", ").join(filter(None, parts))


def _rule_words(record: StoredTurn, rules: Sequence[RuleOut], say: Say) -> dict[str, str]:
    """Whose the rules are that went out, since when, and what became of their texts, by their ids."""
    user, turn = record.scope.user_id, record.at + 1
    return {rule.id: rule.words(user, say, turn, dated=True) for rule in rules}


def _scores(say: Say) -> dict[str, Any]:
    """What scores are made of, in words."""
    return {
        "features": {name: say(word) for name, word in FEATURES.items()},
        "legend": say(LEGEND),
    }


NO_WHAT_IF: dict[str, Any] = {"other": None, "refusal": "", "placement": "", "reply": ""}


def _rows(again: MadeAgain, report: Report | None, links: Links, say: Say) -> list[Row]:
    if again.replay is None or report is None:
        return []
    return turn_rows(again.replay, again.why, report, links, say, again.recorded)


def _compared(
    again: MadeAgain, record: StoredTurn, links: Links, say: Say
) -> tuple[list[Row], list[Disagreement]]:
    """What takes as long as the texts are that somebody sent: beside other requests, not before them."""
    report, conflicts = record.report, Disagreements(record.document, record.turns)
    sides = [conflicts.of(conflict, record.row) for conflict in conflicts.records(record.row)]
    return _rows(again, report, links, say), sides


def _frame(record: StoredTurn, say: Say) -> dict[str, Any]:
    """Where the turn stands."""
    row, at, turns = record.row, record.at, record.turns
    questions = Questions.of(turns)
    return {
        "question_count": questions.count,
        "question": questions.place(at + 1),
        "scope": record.scope,
        "by_hand": record.is_by_hand,
        "reads_back": record.reads_back,
        "row": row,
        "damaged": damaged_fields(row),
        "turn": at + 1,
        "before": at or None,
        "after": at + 2 if at + 1 < len(turns) else None,
        "turn_count": len(turns),
        "dearer_words": say(MARKS[DEARER]),
        "parent": next((n for n, t in enumerate(turns, 1) if t.turn_id == row.parent_turn_id), None)
        if row.parent_turn_id
        else None,
    }


def _figures(record: StoredTurn, report: Report | None, say: Say) -> dict[str, Any]:
    """The turn in numbers and reasons, as it is stored."""
    chart = timeline([record.row])
    layers = [
        (name, say(TITLES[name]), tokens[0]) for name, tokens in chart.layers.items() if tokens[0]
    ]
    return {
        "report": report,
        "window_then": window_of(record.turns, record.at) if report else None,
        "layers": layers,
        "sent_words": sent_words(report, say) if report else "",
        "reasons": list(report_lines(report, say)) if report else [],
        "broken": say(BROKEN[report.prefix_broken_by])
        if report and report.prefix_broken_by in BROKEN
        else "",
        "decisions": [(d, decision_words(d, say)) for d in report.prune_decisions]
        if report
        else [],
    }


def _reasons(
    record: StoredTurn, report: Report | None, explanation: Explanation | None, say: Say
) -> dict[str, Any]:
    """Why it went out as it did, as far as the cut and the question tell, and why pieces did not come in."""
    if report is None:
        return {}
    room_taken = explanation.taken if explanation is not None else None
    reasons = Reasons(report, moved_in(record.turns, record.at + 1), say, room_taken)
    return {"notes": reasons.notes(), "passed_words": reasons.passed}


def _costs(reader: Reader, record: StoredTurn, say: Say) -> dict[str, Any]:
    """What the turn cost, in the money that its session is told in, whether it became dearer than without us; and its marks."""
    calls, numbers = calls_of(record.document, record.turns), range(1, len(record.turns) + 1)
    own_marks = call_marks(calls[record.at :], [record.row], [1])
    chart = timeline([record.row], more_marks=own_marks)
    marks = [(mark, say(MARKS[mark]), mark in BAD) for mark in chart.marks.get(0, ())]
    values = {"costs": [], "is_dearer": False, "marks": [m for m in marks if m[0] != FAILED]}
    if record.report is None or is_free(calls[record.at]):  # no model was asked, or none answered
        return values
    spent = SessionCosts.of(calls, reader.prices, numbers)
    is_dearer = spent.costs.calls[record.at].is_dearer
    return {**values, "costs": list(turn_lines(spent, record.at, say)), "is_dearer": is_dearer}


def _source(links: Links, say: Say) -> Any:
    """What leads from a piece that was brought in to where it is from: the turn, and the call."""

    def of(name: str) -> tuple[int | None, str]:
        evidence = links.document.evidences.get(name)
        has_call = evidence is not None and (
            evidence.links.tool_call_id or evidence.links.model_usage_id
        )
        text = links.source(evidence, say) if evidence is not None and has_call else ""
        call = links.calls.get(evidence.links.tool_call_id or "") if evidence else None
        return links.answers.get(name), f"{text} {call.tool}" if call else text

    return of


def _back(record: StoredTurn) -> Callable[[BroughtIn | PassedOver], str]:
    """Where a piece is shown whole; `""` of what is kept elsewhere, such as a rule."""
    user_id, session_id = record.scope.user_id, record.scope.session_id

    def of(piece: BroughtIn | PassedOver) -> str:
        if piece.kind == "message":
            return trace_url(user_id, session_id, piece.id)
        there = piece.id in record.document.evidences
        return evidence_url(user_id, session_id, piece.id) if there else ""

    return of


def _shown_text(links: Links, find: str, say: Say) -> Callable[[str], str]:
    """What a message or evidence says, or the tools that it asks for, on a line: its beginning, or round what is found."""
    texts = {name: e.content for name, e in links.document.evidences.items()}
    for each in links.document.session.messages:
        if each.message_id:
            texts[each.message_id] = each.content or "; ".join(links.render_calls(each, say))

    def of(name: str) -> str:
        text = texts.get(name, "")
        begin = beginning(text, LINE, find)
        return ("…" if begin else "") + text[begin : begin + LINE]

    return of


def _asks(query: QueryParams) -> bool:
    return any(query.get(name) for name in ("window", "reply", "placement"))


def _tokens(query: QueryParams, name: str) -> str:
    return query.get(name, "").replace(",", "").strip()


async def _what_if(
    reader: Reader, record: StoredTurn, query: QueryParams, say: Say
) -> dict[str, Any]:
    """What another budget or placement would have sent; nothing of it is sent or recorded."""
    window, reply = _tokens(query, "window"), _tokens(query, "reply")
    placement = query.get("placement", "")
    values: dict[str, Any] = {"window": window, "reply": reply, "placement": placement}
    try:
        if window and not (window.isdecimal() and 0 < int(window[:12]) <= 10_000_000):
            raise ConfigError(say("the window is a number of tokens from 1 to 10,000,000"))
        choice = placement if placement in PLACEMENTS else ""
        tokens = int(window) if window else None
        kept = int(reply[:12]) if reply else None
        config = what_if_config(record.turns, record.at, tokens, choice, kept)
        async with asyncio.timeout(SECONDS):
            replay = await reader.engine().replay(record.scope, record.row.turn_id, config)
    except TimeoutError:
        return {**values, "refusal": "slow"}
    except ContextEngineError as error:
        return {**values, "refusal": replay_words(error.code, str(error), say)}
    except ValueError:  # the turn's own configuration does not go with it
        return {
            **values,
            "refusal": say("no turn can have this window with the rest of its settings"),
        }
    find = query.get("find", "").strip()
    differences = await asyncio.to_thread(_differences, reader, record, replay, tokens, find, say)
    return {**values, "other": replay, **differences}


def _differences(
    reader: Reader, record: StoredTurn, replay: Replay, window: int | None, find: str, say: Say
) -> dict[str, Any]:
    """Both inputs side by side: why they differ, message by message, and what each would cost."""
    view = WhatIfView(replay, links := Links(record.document, record.turns))
    calls = calls_of(record.document, record.turns)
    table, call = priced_by(calls, reader.prices), calls[record.at]
    price = table.of(call.model, call.provider)
    return {
        "about": [*view.about(record.report, window, say), estimate_words(call, say)],
        "sought": find,
        "with_text": view.with_text(find) if find else [],
        "changes": view.changes,
        "ordered": view.ordered(record.report, say) if record.report else [],
        "ways": view.ways(say),
        "differences": list(view.reasons(say, price.cached_from if price else 0)),
        "sums": view.sums(table, price, say),
        "money": Amounts(table).source(say),
        "kinds": {kind: say(text) for kind, text in WORDS.items()},
        "near": [piece for piece in view.why_instead.passed_over if piece.score is not None],
        "not_quoted": _not_quoted(record.report, view.why_instead, say),
        "near_text": _shown_text(links, "", say),
    }


def _not_quoted(report: Report | None, other: Explanation, say: Say) -> Any:
    """What says why a piece did not come in with the other setting."""
    if report is None:
        return None
    return Reasons(
        report.model_copy(update={"recall": other.recall}), say=say, room=other.taken
    ).passed


async def what_if(request: Request) -> Response:
    """What another configuration would have sent: a part of the page."""
    reader, query = reader_of(request), request.query_params
    scope = await reader.scope(query.get("user", ""), query.get("id", ""), "ui what-if")
    say = taste_of(request).language
    with reader.looking("ui what-if", "read", scope):
        record = await stored_turn(reader, scope, query.get("turn", ""), query.get("question"))
        other = await _what_if(reader, record, query, say)
    values = {**NO_WHAT_IF, **other}
    why = partial(reason_words, say=say)
    return page(request, "turn_what_if.html", scope=scope, turn=record.at + 1, why=why, **values)


routes = [Route("/turn", turn), Route("/turn/what-if", what_if)]
