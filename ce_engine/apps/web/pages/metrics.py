"""What the store has recorded as metrics, for Prometheus: of the sessions that the pages show."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ce_engine.apps.web.page import reader_of
from ce_engine.apps.web.reading import Reader
from ce_engine.apps.web.security import METRICS
from ce_engine.audit.exposition import CONTENT_TYPE
from ce_engine.audit.store_metrics import StoreMetrics


class Scrapes:
    """The figures as they were read last; one scrape reads at a time."""

    def __init__(self, reader: Reader) -> None:
        self._metrics = StoreMetrics(reader.store, reader.prices, reader.sessions)
        self._turn = asyncio.Lock()

    async def text(self) -> str:
        """The figures as they are now."""
        async with self._turn:
            return await self._metrics.answer()


async def metrics(request: Request) -> Response:
    """Answer a scrape."""
    scrapes: Scrapes = request.app.state.scrapes
    with reader_of(request).listing("ui metrics"):
        text = await scrapes.text()
    return Response(text, headers={"content-type": CONTENT_TYPE})


routes = [Route(METRICS, metrics)]
