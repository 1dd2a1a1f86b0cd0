"""One module a page, each with its `routes`."""

from __future__ import annotations

from starlette.routing import Route

from ce_engine.apps.web.pages import (
    beside,
    compare,
    evidence,
    live,
    metrics,
    preferences,
    session,
    sessions,
    turn,
)


ROUTES: list[Route] = [
    *sessions.routes,
    *session.routes,
    *turn.routes,
    *beside.routes,
    *evidence.routes,
    *compare.routes,
    *live.routes,
    *metrics.routes,
    *preferences.routes,
]
