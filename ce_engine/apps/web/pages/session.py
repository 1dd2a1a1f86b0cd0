"""A session: the timeline of its turns, a table of them, what they cost, and where something stands in it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ce_engine.apps.present.amounts import cached_share, cached_words, effect, saved_share
from ce_engine.apps.present.bill_lines import uncached_turns
from ce_engine.apps.present.conflicts import ContradictionCard
from ce_engine.apps.present.cost_lines import SessionCosts
from ce_engine.apps.present.language import Say
from ce_engine.apps.present.question_sums import question_sums
from ce_engine.apps.present.questions import Questions
from ce_engine.apps.present.repeated_calls import CallLines
from ce_engine.apps.present.rules_out import RuleOut
from ce_engine.apps.present.session_search import Hits, search
from ce_engine.apps.present.session_spots import Spots, spots
from ce_engine.apps.present.timeline import (
    BAD,
    LAYERS,
    MARKS,
    MEANINGS,
    TITLES,
    Timeline,
    call_marks,
    timeline,
)
from ce_engine.apps.present.timeline_svg import drawing, gutter
from ce_engine.apps.web.links import session_url
from ce_engine.apps.web.page import page, reader_of, taste_of
from ce_engine.apps.web.stored_turn import reads_back
from ce_engine.audit.compare.reading import calls_of
from ce_engine.audit.contradictions import contradictions
from ce_engine.audit.masks import masked_texts, masks
from ce_engine.audit.places.quoted_words import with_words
from ce_engine.audit.places.whereabouts import (
    Whereabouts,
    evidence_whereabouts,
    stretches_of,
    turns_sent,
    whereabouts,
)
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.scope import Scope


ROWS = 100
"""Turns of a page of the table."""

WRITERS: dict[str, Any] = {
    "saved_share": saved_share,
    "cached_share": cached_share,
    "cached_words": cached_words,
    "effect": effect,
}
"""What writes sums."""

MOST_NOTABLE = 24
"""Turns of one kind that are named one by one."""


async def session(request: Request) -> Response:
    """The page, drawn from what is stored of the turns: texts and costs come in parts of their own."""
    reader, query = reader_of(request), request.query_params
    scope = await reader.scope(query.get("user", ""), query.get("id", ""), "ui session")
    with reader.looking("ui session", "read", scope):
        turns = await reader.store.list_turns(scope)
    lane = query.get("lane")
    chart = timeline(turns, lane)
    say = taste_of(request).language
    return page(
        request,
        "session.html",
        scope=scope,
        lane=lane,
        found=chart,
        **_table(chart, turns, query, None, say),
        svg=Markup(drawing(chart, say)),  # noqa: S704 - what was stored is escaped in it
        gutter=Markup(gutter(chart, say)),  # noqa: S704
        layers=[name for name in LAYERS if any(chart.layers[name])],
        titles={name: say(title) for name, title in TITLES.items()},
        meanings={name: say(text) for name, text in MEANINGS.items()},
        notable=_notable(chart),
        sums=_sums(chart, turns),
        spots=[_first(spot) for spot in spots(turns, say)],
        columns=_columns(chart, scope),
        turn_count=len(turns),
        question_count=Questions.of(turns).count,
        questions=Questions.of(turns, lane).count,
    )


def _start(choice: str, turns: int) -> int:
    """The place of the first row of a page of the table; the newest turns are on the last one."""
    pages = max(1, -(-turns // ROWS))
    number = int(choice) if choice.isdecimal() and len(choice) < 9 else 1
    return (min(max(1, number), pages) - 1) * ROWS


ORDERS = ("tokens", "as_told", "cost", "effect", "billed")
"""What the table of turns can be sorted by, the most first; else it is in their order."""


def _table(
    chart: Timeline,
    turns: Sequence[TurnRow],
    query: QueryParams,
    spent: SessionCosts | None,
    say: Say,
) -> dict[str, Any]:
    """A page of the table of turns; what they cost where that is known by now."""
    order = query.get("order", "")
    order = order if order in ORDERS else ""
    at = _start(query.get("page", ""), len(chart))
    places = _ordered(chart, order, spent)[at : at + ROWS]
    numbers = {chart.turns[place] for place in places}
    cells = spent.cells_of(numbers) if spent is not None else None
    rows = _rows(chart, turns, places)
    return {
        "rows": rows,
        "by_question": any(row["question"] for row in rows),
        "pages": -(-len(chart) // ROWS),
        "at": at // ROWS + 1,
        "order": order,
        "has_lanes": len(chart.lanes) > 1,
        "costs": cells,
        "has_bill": spent is not None and bool(spent.bill.inputs),
        "unit": spent.amounts.unit(say) if spent is not None else "",
        "marks": {name: say(text) for name, text in MARKS.items()},
        "bad": BAD,
        "find": query.get("find", "").strip(),
    }


def _ordered(chart: Timeline, order: str, spent: SessionCosts | None) -> list[int]:
    """The places of the turns as the table has them."""
    places = list(range(len(chart)))
    if order == "tokens":
        return sorted(places, key=lambda place: -chart.used[place])
    if order and spent is not None:
        by = {
            "as_told": spent.prompt_of,
            "cost": spent.sent_of,
            "effect": spent.more_of,
            "billed": spent.billed_of,
        }[order]
        return sorted(places, key=lambda place: -by(chart.turns[place]))
    return places


def _rows(chart: Timeline, turns: Sequence[TurnRow], places: Sequence[int]) -> list[dict[str, Any]]:
    moved, question_numbers = set(chart.moved), Questions.of(turns).numbers
    more_left_out = _more_left_out(chart)
    return [
        {
            "turn": chart.turns[place],
            "lane": chart.lanes[chart.lane[place]],
            "sent": chart.used[place],
            "budget": chart.budget[place],
            "without": chart.without[place],
            "prefix": chart.prefix[place],
            "rules": chart.layers["rules"][place],
            "retrieved": chart.layers["retrieved"][place],
            "given": chart.app_messages[place],
            "left_out": chart.left_out[place],
            "more_left_out": more_left_out[place],
            "marks": chart.marks.get(place, []),
            "moved": place in moved,
            "row": turns[chart.turns[place] - 1],
            "question": question_numbers[chart.turns[place] - 1] if question_numbers else None,
            "bars": _bars(chart, place),
        }
        for place in places
    ]


def _more_left_out(chart: Timeline) -> list[int]:
    """How many more messages each turn left out than its lane's turn before."""
    before, more = dict[int, int](), []
    for lane, left_out in zip(chart.lane, chart.left_out, strict=True):
        more.append(max(0, left_out - before.get(lane, 0)))
        before[lane] = left_out
    return more


def _bars(chart: Timeline, place: int) -> list[tuple[str, float, float]]:
    """A turn's layers as parts of a bar: name, begin and width, in hundredths of the budget or of what went out."""
    whole = max(chart.budget[place], chart.used[place], 1)
    parts, begun = list[tuple[str, float, float]](), 0.0
    for name in LAYERS:
        width = 100 * chart.layers[name][place] / whole
        if width:
            parts.append((name, begun, width))
        begun += width
    return parts


def _notable(chart: Timeline) -> list[tuple[str, list[int], int]]:
    """Kinds of what deserves a look, with the turns, and how many more there are."""
    by_kind: dict[str, list[int]] = {}
    for place, marks in chart.marks.items():
        for mark in marks:
            by_kind.setdefault(mark, []).append(chart.turns[place])
    return [
        (kind, by_kind[kind][:MOST_NOTABLE], max(0, len(by_kind[kind]) - MOST_NOTABLE))
        for kind in MARKS
        if kind in by_kind
    ]


def _first(all_spots: Spots) -> tuple[Spots, int]:
    """As many turns of it as are named one by one, and how many more there are."""
    head = replace(all_spots, turns=all_spots.turns[:MOST_NOTABLE])
    return head, max(0, len(all_spots.turns) - MOST_NOTABLE)


def _sums(chart: Timeline, turns: Sequence[TurnRow]) -> dict[str, Any]:
    return {
        "moved": len(chart.moved),
        "first": turns[0].opened_at if turns else "",
        "last": turns[-1].closed_at or turns[-1].opened_at if turns else "",
        "frameworks": sorted({row.framework for row in turns if row.framework}),
    }


def _columns(chart: Timeline, scope: Scope) -> dict[str, Any]:
    """What the picture says of a turn that is pointed at, and where it leads."""
    columns = chart.columns()
    return {**columns, "id": scope.session_id, "user": scope.user_id}


async def costs(request: Request) -> Response:
    """What the session cost, with us and without us: a part of the page, since it looks at every message."""
    reader, query = reader_of(request), request.query_params
    scope = await reader.scope(query.get("user", ""), query.get("id", ""), "ui session")
    with reader.looking("ui session", "read", scope):
        document = await reader.store.get_session(scope)
        turns = await reader.store.list_turns(scope)
        rules = await reader.rules_out(scope, turns) if document is not None else []
        names = await reader.mask_names(scope)
    if document is None:
        return page(request, "session_costs.html", document=None)
    say, lane = taste_of(request).language, query.get("lane")
    calls, numbers = calls_of(document, turns), list(range(1, len(turns) + 1))
    if lane is not None:
        numbers = [n for n in numbers if turns[n - 1].lane == lane]
        calls = [calls[n - 1] for n in numbers]
    spent = SessionCosts.of(calls, reader.prices, numbers)
    chart = timeline(turns, lane, call_marks(calls, turns, numbers))
    return page(
        request,
        "session_costs.html",
        document=document,
        scope=scope,
        turn_count=len(numbers),
        sums=spent.figures,
        amounts=spent.sums,
        lines=list(spent.lines(say)),
        headline=spent.headline(say),
        dearer=spent.dearer_turns(say),
        **await asyncio.to_thread(_cards, document, turns, names, say),
        **_rules(rules, scope, say),
        has_reports=all(row.report for row in turns if row.purpose == "chat"),
        **_by_question(spent, Questions.of(turns, lane)),
        bill=spent.bill,
        uncached=uncached_turns(calls, turns, numbers, spent.costs.prices, say),
        lane=lane,
        notable=_notable(chart),
        **_table(chart, turns, query, spent, say),
        **WRITERS,
    )


def _by_question(spent: SessionCosts, questions: Questions) -> dict[str, Any]:
    """What each question took, the dearest first; and which had the most input."""
    sums = question_sums(spent, questions)
    return {
        "questions": questions.count,
        "question_sums": sums[:ROWS],
        "more_questions": max(0, len(sums) - ROWS),
        "largest": max(sums, key=lambda each: each.tokens, default=None),
        "amount": spent.amount,
    }


def _rules(rules: Sequence[RuleOut], scope: Scope, say: Say) -> dict[str, Any]:
    """The rules that went out: each in words, with the turns that had another text, where it is there with it; and when one was changed."""
    return {
        "rules": [
            (
                rule.rule,
                rule.words(scope.user_id, say),
                [(text, stretches_of(turns)) for text, turns in rule.earlier_turns.items()],
                stretches_of(rule.lost_turns),
            )
            for rule in rules
        ],
        "rule_changes": stretches_of({turn for rule in rules for turn in rule.changes}),
    }


MOST_MASKS = 40
"""Values that stand masked of which it is told where they went."""

MOST_CARDS = 20
"""Contradictions that have a card."""


def _cards(
    document: SessionDocument, turns: Sequence[TurnRow], names: Collection[str], say: Say
) -> dict[str, Any]:
    """What looks at every message: contradictions, and how many more there are; calls made again; what stands masked."""
    found = contradictions(document, turns)
    cards = [ContradictionCard.of(each, document.evidences) for each in found[:MOST_CARDS]]
    return {
        "cards": (cards, len(found) - len(cards)),
        "calls_again": CallLines.of(document, turns, say),
        "masks": masks(document, turns, names, MOST_MASKS),
        "reads_back": any(map(reads_back, turns)),
    }


async def find(request: Request) -> Response:
    """Where a text stands in the session: a part of the page."""
    reader, query = reader_of(request), request.query_params
    scope = await reader.scope(query.get("user", ""), query.get("id", ""), "ui session")
    text = query.get("find", "").strip()
    with reader.looking("ui session", "read", scope):
        document = await reader.store.get_session(scope) if text else None
        turns = await reader.store.list_turns(scope) if text else []
        rules = await reader.rules_out(scope, turns) if text else []
        names = await reader.mask_names(scope) if text else frozenset()
    say = taste_of(request).language
    hits = search(document, turns, text, rules) if document is not None else None
    where = (
        await asyncio.to_thread(_where, hits, document, turns, text)
        if hits is not None and document is not None
        else {}
    )
    rule_words = {
        (rule.id, numbers[0]): rule.words(scope.user_id, say, numbers[0])
        for rule in rules
        for numbers in rule.turns_by_text.values()
    }
    lost_texts = [words for rule in rules if (words := rule.loss_notice(say))]
    answer = page(
        request,
        "session_find.html",
        scope=scope,
        hits=hits,
        find=text,
        where=where,
        sent=turns_sent([] if hits is None or hits.more else where.values()),
        rules=rule_words,
        lost=lost_texts,
        masks=_masks(document, hits, names),
    )
    more = {"lane": query["lane"]} if "lane" in query else {}
    # Who comes back to the page, or goes on from it, has the word still.
    answer.headers["HX-Replace-Url"] = session_url(
        scope.user_id, scope.session_id, **more, find=text
    )
    return answer


def _masks(
    document: SessionDocument | None, hits: Hits | None, names: Collection[str]
) -> list[str]:
    """Where nothing was found, what it may stand masked as."""
    if document is None or hits is None or hits.hits:
        return []
    return [*masked_texts(document, names)][:MOST_MASKS]


def _where(
    hits: Hits, document: SessionDocument, turns: Sequence[TurnRow], text: str
) -> dict[str, Whereabouts]:
    """Where each of what was found went."""
    found = {hit.id for hit in hits.hits}
    # In the order of the session, in which turns tell of them; hits stand by how well they fit.
    ids = [m.message_id for m in document.session.messages if m.message_id in found]
    where = evidence_whereabouts(found, document, turns) | whereabouts(
        filter(None, ids), document, turns
    )
    # Words are told apart as they are written there: a number may be written otherwise than it is looked for.
    written = {hit.id: hit.excerpts[0].text if hit.excerpts else text for hit in hits.hits}
    return {
        name: told
        for words in {each.casefold() for each in written.values()}
        for name, told in with_words(
            {n: w for n, w in where.items() if written[n].casefold() == words},
            words,
            document,
            turns,
        ).items()
    }


routes = [
    Route("/session", session),
    Route("/session/costs", costs),
    Route("/session/find", find),
]
