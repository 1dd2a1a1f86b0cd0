"""The sessions: search, filters, columns, pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ce_engine.apps.web.index import ROUNDS, Line, SessionIndex
from ce_engine.apps.web.page import index_of, page, reader_of
from ce_engine.apps.web.session_query import MARKS, NOBODY, PAGE, RISING, SPANS, SessionQuery


_NUMBERS = (
    *("turns", "messages", "tools", "evidence"),
    *("sent", "saved", "cached", "cost", "billed", "without", "effect"),
)
COLUMNS = ("user", "framework", "model", "tags", *_NUMBERS, "marks", "created", "updated")
"""The columns beside the session itself; a person chooses."""
SHOWN = (
    *("user", "framework", "model", "turns", "sent", "saved", "cached"),
    *("cost", "effect", "marks", "updated"),
)
"""Those that are there until somebody chooses."""
COLUMNS_COOKIE = "ce_columns"
NUMBERS = frozenset(_NUMBERS)
SORTED = frozenset(["session", *COLUMNS]) - {"model", "tags", "marks"}
WITHIN_S = 0.1
"""How long a page waits for what the calls of its sessions tell; it fills in what is missing later."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One page of the list: its sessions, out of how many, and what is not known yet."""

    lines: Sequence[Line]
    count: int
    first: int
    pages: int
    unread: int
    missing: bool


async def sessions(request: Request) -> Response:
    """The list; for htmx without what surrounds it."""
    reader, index = reader_of(request), index_of(request)
    query = SessionQuery.of(request.query_params.multi_items())
    with reader.listing("ui sessions"):
        sheet, query = await sheet_of(index, query)
    part = request.headers.get("hx-target") == "list"
    return page(
        request,
        "sessions_list.html" if part else "sessions.html",
        query=query,
        sheet=sheet,
        index=index,
        options=index.options(),
        columns=COLUMNS,
        shown=_columns(request),
        numbers=NUMBERS,
        sorted=SORTED,
        rising=RISING,
        spans=list(SPANS),
        marks=list(MARKS),
        nobody=NOBODY,
    )


async def sheet_of(index: SessionIndex, query: SessionQuery) -> tuple[Sheet, SessionQuery]:
    """The page that is asked for, of sessions that are there, and the query with its number."""
    lines = await index.look()
    rounds = 0
    while True:
        rounds += 1
        matches = query.select(lines)
        pages = max(1, -(-len(matches) // PAGE))
        query = query.on_page(min(query.page, pages))
        first = (query.page - 1) * PAGE
        shown = matches[first : first + PAGE]
        if not await index.forget_deleted(shown) or rounds == ROUNDS:
            break
        lines = index.order
    shown = index.known(shown)
    await index.read_now(shown, WITHIN_S)
    missing = any(line.facts is None for line in shown) or not index.complete
    return Sheet(shown, len(matches), first + 1, pages, index.unread, missing), query


def _columns(request: Request) -> list[str]:
    cookie = request.cookies.get(COLUMNS_COOKIE)
    names = SHOWN if cookie is None else cookie.split(".")
    return [name for name in COLUMNS if name in names]


routes = [Route("/", sessions)]
