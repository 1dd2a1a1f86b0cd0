"""A session: a timeline of its turns."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ce_engine.apps.web.page import page, reader_of


async def session(request: Request) -> Response:
    """To be written: an example of how a page reads."""
    reader, query = reader_of(request), request.query_params
    scope = await reader.scope(query.get("user", ""), query.get("id", ""))
    with reader.looking("ui session", "read", scope):
        turns = await reader.store.list_turns(scope)
    return page(request, "session.html", scope=scope, turns=turns)


routes = [Route("/session", session)]
