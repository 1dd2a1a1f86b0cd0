"""The app that serves the pages, and running it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from ce_engine.apps.web.index import SessionIndex
from ce_engine.apps.web.page import STATIC, page
from ce_engine.apps.web.pages import ROUTES
from ce_engine.apps.web.pages.metrics import Scrapes
from ce_engine.apps.web.reading import Source
from ce_engine.apps.web.security import Access, Gate
from ce_engine.errors import (
    ContextEngineError,
    EvidenceNotFoundError,
    ScopeViolationError,
    SessionNotFoundError,
    StoreUnavailableError,
    TurnNotFoundError,
)


logger = logging.getLogger("ce_engine.web")

NOT_THERE = (
    SessionNotFoundError,
    EvidenceNotFoundError,
    TurnNotFoundError,
    ScopeViolationError,  # what is another's is as good as not there
)


def create_app(source: Source, access: Access) -> Starlette:
    """The app over a store, which is opened when the app starts and closed when it ends."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with source.open() as reader:
            app.state.reader = reader
            app.state.index = index = SessionIndex(reader)
            app.state.streams = set()
            app.state.scrapes = Scrapes(reader)
            async with index.keep_fresh():
                yield

    return Starlette(
        routes=[*ROUTES, Mount("/static", StaticFiles(directory=STATIC), name="static")],
        middleware=[Middleware(Gate, access)],
        exception_handlers={
            ContextEngineError: _own_error,
            HTTPException: _no_page,
            Exception: _broken,
        },
        lifespan=lifespan,
    )


async def _own_error(request: Request, error: Exception) -> Response:
    """An error of ours, which says what to do."""
    code = getattr(error, "code", "")
    if isinstance(error, NOT_THERE):
        # One answer for all of them: whose it is, is not told.
        return page(request, "error.html", 404, kind="not_there")
    if isinstance(error, StoreUnavailableError):
        return page(
            request,
            "error.html",
            503,
            kind="store",
            code=code,
            detail=str(error),
            detail_language="en",
        )
    return page(
        request,
        "error.html",
        400,
        kind="refused",
        code=code,
        detail=str(error),
        detail_language="en",
    )


async def _no_page(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return page(request, "error.html", status, kind="no_page")


async def _broken(request: Request, error: Exception) -> Response:
    logger.error("a page failed: %s", type(error).__name__)
    return page(request, "error.html", 500, kind="broken", code=type(error).__name__)


__all__ = ["create_app"]
