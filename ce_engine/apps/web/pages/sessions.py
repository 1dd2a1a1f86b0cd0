"""The sessions: search, filters, columns, pages."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ce_engine.apps.web.page import page, reader_of
from ce_engine.audit.access import LISTED
from ce_engine.schema.scope import Scope


async def sessions(request: Request) -> Response:
    """The list."""
    reader = reader_of(request)
    everything = Scope.of_stored(reader.account, reader.user or "", LISTED)
    with reader.looking("ui sessions", "list", everything):
        rows = await reader.store.list_sessions(account_id=reader.account, user_id=reader.user)
    return page(request, "sessions.html", rows=rows)


routes = [Route("/", sessions)]
