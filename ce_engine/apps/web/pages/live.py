"""Turns as they come, while the app runs: server-sent events, a row of the table each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ce_engine.apps.present.language import Say
from ce_engine.apps.present.report_lines import report_lines
from ce_engine.apps.present.timeline import BAD, FAILED, LAYERS, MARKS, TITLES, bar_of, marks_of
from ce_engine.apps.web.newest import Newest, NewTurn
from ce_engine.apps.web.page import index_of, page, reader_of, rendered, taste_of
from ce_engine.schema.report import report_of
from ce_engine.schema.stored_report import damaged_fields


SESSIONS, TURNS = 6, 40
"""Sessions and turns that are there when the page opens."""
ROWS = 200
"""Rows that the page keeps."""
MOST_STREAMS = 8
"""Pages that may be told at a time."""
LIFE_S = 3600.0
"""So long a stream lives; the browser opens the next one by itself."""
RETRY_MS, LATER_MS = 2000, 30_000


async def live(request: Request) -> Response:
    """The page with the newest turns."""
    index, say = index_of(request), taste_of(request).language
    with reader_of(request).listing("ui live"):
        lines = await index.look()
        after = index.generation
        turns = await Newest(reader_of(request), index).first(SESSIONS, TURNS)
    return page(
        request,
        "live.html",
        rows=[_row(new, say) for new in turns],
        after=after,
        since=min((new.row.opened_at for new in turns), default=""),
        rows_kept=ROWS,
        layers={name: say(TITLES[name]) for name in LAYERS},
        is_empty=not lines,
    )


async def turns(request: Request) -> Response:
    """The stream of what is new.

    Many may ask before the first of them begins: each looks once more then.
    """
    streams: set[object] = request.app.state.streams
    if len(streams) >= MOST_STREAMS:
        raise HTTPException(503)
    return StreamingResponse(_events(request, streams), media_type="text/event-stream")


async def _events(request: Request, streams: set[object]) -> AsyncIterator[str]:
    query, say = request.query_params, taste_of(request).language
    after = query.get("after", "")
    if len(streams) >= MOST_STREAMS:
        yield f"retry: {LATER_MS}\n\n"
        return
    ticket = object()
    streams.add(ticket)
    try:
        yield f"retry: {RETRY_MS}\n\n"
        newest = Newest(reader_of(request), index_of(request))
        count = int(after) if after.isdecimal() and len(after) < 16 else 0
        coming = newest.coming(query.get("since", ""), count)
        async with asyncio.timeout(LIFE_S):
            async for new_turns in coming:
                yield "".join(_event(request, new, say) for new in new_turns) or ": nothing new\n\n"
    except TimeoutError:
        return
    finally:
        streams.discard(ticket)


def _event(request: Request, new: NewTurn, say: Say) -> str:
    """A row as one event: no line of it ends the event before its end."""
    html = rendered(request, "live_row.html", row=_row(new, say))
    lines = "".join(f"data: {line}\n" for line in html.splitlines())
    return f"event: turn\n{lines}\n"


def _row(new: NewTurn, say: Say) -> dict[str, Any]:
    row, report = new.row, report_of(new.row.turn_id, new.row.report)
    return {
        "key": new.key,
        "info": new.info,
        "turn": new.turn,
        "row": row,
        "report": report,
        "damaged": damaged_fields(row),
        "bar": bar_of(row.report),
        "marks": [(say(MARKS[mark]), mark in BAD) for mark in marks_of(row) if mark != FAILED],
        "why": say("; ").join(report_lines(report, say)) if report is not None else "",
    }


routes = [Route("/live", live), Route("/live/turns", turns)]
