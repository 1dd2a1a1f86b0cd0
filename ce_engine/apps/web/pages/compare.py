"""Comparing calls: the charts of `ce compare`, by framework, model, agent, session or tag."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ce_engine.apps.present.compare_lines import amounts_of, label, lines, notes, subject
from ce_engine.apps.present.compare_panels import largest, panels, tiles
from ce_engine.apps.present.language import Say
from ce_engine.apps.web.index import SessionIndex
from ce_engine.apps.web.page import index_of, page, reader_of, taste_of
from ce_engine.apps.web.session_query import NOBODY, SPANS, SessionQuery
from ce_engine.audit.compare.figures import Comparison
from ce_engine.audit.compare.figures import compare as compared
from ce_engine.audit.compare.records import TAG, CallRecord
from ce_engine.errors import ConfigError


GROUPINGS = ("framework", "model", "agent", "session")
MOST_SESSIONS = 1000
"""Sessions that are compared, the newest that are chosen."""
WITHIN_S = 0.3
"""How long a page waits for calls; it goes on with what there is, and asks again."""


async def compare(request: Request) -> Response:
    """The charts; for htmx without what surrounds them."""
    reader, index = reader_of(request), index_of(request)
    query = SessionQuery.of([*request.query_params.multi_items(), ("all", "1")])
    by = request.query_params.get("by", "") or GROUPINGS[0]
    with reader.listing("ui compare"):
        calls, missing, left_out = await _calls(index, query)
    try:
        comparison = await asyncio.to_thread(compared, calls, by, reader.source.prices)
    except ConfigError:
        say = taste_of(request).language
        detail = say(
            "calls cannot be compared by {by}, but by framework, model, agent, session or a tag",
            by=by,
        )
        return page(
            request, "error.html", 400, kind="refused", code=ConfigError.code, detail=detail
        )
    names = dict.fromkeys(tag.partition("=")[0] for tag in index.options().tags)
    part = request.headers.get("hx-target") == "comparison"
    return page(
        request,
        "compare_charts.html" if part else "compare.html",
        query=query,
        by=by,
        groupings=[*GROUPINGS, *(f"{TAG}{name}" for name in names)],
        options=index.options(),
        spans=list(SPANS),
        nobody=NOBODY,
        comparison=comparison,
        missing=missing,
        left_out=left_out,
        most=MOST_SESSIONS,
        **_page_values(comparison, taste_of(request).language),
    )


async def _calls(index: SessionIndex, query: SessionQuery) -> tuple[list[CallRecord], int, int]:
    """The calls that are wanted, sessions of which they are still to be read, and those left out."""
    matches = query.select(await index.look())
    compared_lines = matches[:MOST_SESSIONS]
    await index.read_now(compared_lines, WITHIN_S, calls=True)
    calls, missing = index.calls(compared_lines)
    since, until = query.span()
    calls = [call for call in calls if since <= call.at and not (until and call.at >= until)]
    return calls, missing, len(matches) - len(compared_lines)


def _page_values(comparison: Comparison, say: Say) -> dict[str, Any]:
    rows = largest(comparison)
    columns = [*rows, (say("all"), comparison.total)] if len(rows) > 1 else rows
    table = [
        (line.title, line.meaning, [(line.text(f), line.bad(f)) for _, f in columns])
        for line in lines(comparison, say)
    ]
    return {
        "subject": say(subject(comparison.by)),
        "tiles": list(tiles(comparison, say)),
        "source": amounts_of(comparison).source(say),
        "panels": list(panels(comparison, rows, say)),
        "heads": [label(name, say) for name, _ in columns],
        "table": table,
        "notes": list(notes(comparison, say)),
        "hidden": len(comparison.groups) - len(rows),
    }


routes = [Route("/compare", compare)]
