"""The page `/compare`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ce_engine.apps.web.page import page


async def compare(request: Request) -> Response:
    """To be written."""
    return page(request, "error.html", kind="no_page", code="", detail="")


routes = [Route("/compare", compare)]
