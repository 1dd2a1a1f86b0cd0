"""What a store has recorded, as metrics for Prometheus: figures of all sessions, no content, nobody's id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ce_engine.audit.compare.costs import call_cost, is_free
from ce_engine.audit.compare.reading import read_calls
from ce_engine.audit.compare.records import OWN, CallRecord
from ce_engine.audit.exposition import CONTENT_TYPE, Gauge
from ce_engine.errors import ContextEngineError
from ce_engine.ports.store import Store
from ce_engine.schema.rows import SessionInfo
from ce_engine.schema.times import parse_time
from ce_engine.text.redaction.scan import scan
from ce_engine.text.tokens.prices import PriceTable, prices_here


MODELS = 50
"""Names of models that are told apart, those with the most calls; the others are one."""
MAX_CHARS = 128
OTHER, HIDDEN = "(other)", "(redacted)"

UP = Gauge("ce_store_up", "whether the store could be read")

HELP = {
    "sessions": "sessions that are recorded now; kind is named, or ephemeral (no session was named)",
    "messages": "messages that are recorded now",
    "evidences": "pieces of evidence that are recorded now",
    "calls": "model calls by how they ended",
    "attempts": "tries of these calls, the first included",
    "tool_calls": "tool calls and retrievals",
    "tool_errors": "those of them that failed",
    "input_tokens": "tokens of inputs as they went out, by our own count",
    "input_compared_tokens": "those of them of which can be said what they would have been without us",
    "input_untouched_tokens": "what these would have been without us",
    "input_cached_prefix_tokens": "leading tokens that begin like the call before",
    "output_tokens": "tokens of answers, as providers told",
    "input_cost": "what the inputs cost, by the price table, where it has a price",
    "input_compared_cost": "what those of them cost of which can be said what they would have cost without us",
    "input_untouched_cost": "what these would have cost without us",
    "output_cost": "what the answers cost",
    "over_budget_calls": "calls that went out over their budget",
    "redacted_pieces": "pieces of calls in which something was redacted",
    "degradations": "calls that were degraded, by code",
    "model_seconds": "how long models took, of the calls of which it was told",
    "model_timed_calls": "these calls",
    "last_call_timestamp_seconds": "when the newest call was prepared",
}
"""The metrics by name, after `ce_store_`."""

Key = tuple[str, str, str]
Figure = tuple[str, tuple[tuple[str, str], ...]]
"""A metric's name, and its labels with the model's own name."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@dataclass(slots=True)
class SessionFigures:
    """What the calls of a session come to; `newest` is when the last was prepared, since the epoch."""

    sums: Counter[Figure] = field(default_factory=Counter)
    newest: float = 0.0

    def add(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Add to a figure."""
        self.sums[name, tuple(labels.items())] += value  # type: ignore[assignment]  # costs are no integers


class StoreMetrics:
    """The figures of a store's sessions, of all accounts and users together.

    A session is read again only where something of it is new. The values are gauges: what retention or
    a deletion takes away is gone from them, too. Labels are framework, model, purpose (`chat`, or `own` for
    the engine's own calls), status, code and currency.

    Args:
        store: where they are.
        prices: what models cost; by default those that are known here.
        sessions: lists those that count; by default all.
    """

    def __init__(
        self,
        store: Store,
        prices: PriceTable | None = None,
        sessions: Callable[[], Awaitable[Sequence[SessionInfo]]] | None = None,
    ) -> None:
        self._store = store
        self._prices = prices
        self._sessions = sessions or self._all
        self._known: dict[Key, tuple[SessionInfo, SessionFigures]] = {}

    async def text(self, advance: Callable[[], None] = lambda: None) -> str:
        """All of it in Prometheus's text format.

        Args:
            advance: called before each session.

        Raises:
            StoreUnavailableError: the store cannot be read now.
        """
        prices, figures_by_key = (
            self._prices or prices_here(),
            dict[Key, tuple[SessionInfo, SessionFigures]](),
        )
        for info in await self._sessions():
            advance()
            key = (info.account_id, info.user_id, info.session_id)
            before = self._known.get(key)
            if before is None or before[0] != info:
                before = info, figures_of(await read_calls(self._store, [info]), prices)
                self._known[key] = before  # what was read is not read again if this ends early
            figures_by_key[key] = before
        self._known = figures_by_key
        return exposition(figures_by_key.values())

    async def answer(self) -> str:
        """The same, and `ce_store_up 0` where the store cannot be read."""
        try:
            return await self.text()
        except ContextEngineError:
            return "\n".join(Gauge(UP.name, UP.help, {(): 0}).lines()) + "\n"

    async def _all(self) -> list[SessionInfo]:
        """All sessions that are there."""
        sessions: list[SessionInfo] = []
        for account in sorted({key[0] for key in await self._store.list_keys()}):
            sessions += await self._store.list_sessions(
                account_id=account, user_id=None, ephemeral=True
            )
        return sessions


def figures_of(calls: Iterable[CallRecord], prices: PriceTable) -> SessionFigures:
    """The figures of a session's calls."""
    session_figures = SessionFigures()
    for call in calls:
        _add(session_figures, call, prices)
        if (at := parse_time(call.at)) is not None:
            session_figures.newest = max(session_figures.newest, at.timestamp())
    return session_figures


def exposition(sessions: Iterable[tuple[SessionInfo, SessionFigures]]) -> str:
    """The figures of sessions together, as text."""
    gauges = {name: Gauge(f"ce_store_{name}", help_text) for name, help_text in HELP.items()}
    sums: Counter[Figure] = Counter()
    newest = 0.0
    for info, figures in sessions:
        gauges["sessions"].add(1, {"kind": "ephemeral" if info.ephemeral else "named"})
        gauges["messages"].add(info.messages)
        gauges["evidences"].add(info.evidences)
        sums.update(figures.sums)
        newest = max(newest, figures.newest)
    models = _models(sums)
    for (name, labels), value in sums.items():
        shown_labels = {
            key: models.get(text, OTHER) if key == "model" else text for key, text in labels
        }
        gauges[name].add(value, shown_labels)
    if newest:
        gauges["last_call_timestamp_seconds"].add(newest)
    up = Gauge(UP.name, UP.help, {(): 1})
    lines = [line for gauge in (up, *gauges.values()) for line in gauge.lines()]
    return "\n".join(lines) + "\n"


def _models(sums: Mapping[Figure, float]) -> Mapping[str, str]:
    """Names of models as labels: few, short, and nothing that is somebody's."""
    counts: Counter[str] = Counter()
    for (name, labels), value in sums.items():
        if name == "calls":
            counts[dict(labels)["model"]] += round(value)
    return {name: _label(name) for name, _ in counts.most_common(MODELS)}


def _label(name: str) -> str:
    if next(iter(scan(name)), None) is not None:
        return HIDDEN
    return "".join(
        character if character.isprintable() or character == "\n" else "?"
        for character in name[:MAX_CHARS]
    )


def _add(session_figures: SessionFigures, call: CallRecord, prices: PriceTable) -> None:
    of = {
        "framework": _label(call.framework),
        "model": call.model,
        "purpose": "own" if call.agent == OWN else "chat",
    }
    session_figures.add("calls", 1, {**of, "status": call.status})
    figures: dict[str, float | None] = {
        "attempts": call.attempts,
        "tool_calls": call.tool_calls,
        "tool_errors": call.tool_errors,
        "input_tokens": call.sent,
        "input_compared_tokens": None if call.untouched is None else call.sent,
        "input_untouched_tokens": call.untouched,
        "input_cached_prefix_tokens": call.prefix or 0,
        "output_tokens": call.completion,
        "over_budget_calls": int(call.over_budget),
        "redacted_pieces": len(call.redacted),
        "model_seconds": None if call.latency_ms is None else call.latency_ms / 1000,
        "model_timed_calls": None if call.latency_ms is None else 1,
    }
    for name, value in figures.items():
        if value is not None:
            session_figures.add(name, value, of)
    for code in call.degradations:
        session_figures.add("degradations", 1, {**of, "code": code})
    _add_costs(session_figures, call, of, prices)


def _add_costs(
    session_figures: SessionFigures, call: CallRecord, of: Mapping[str, str], prices: PriceTable
) -> None:
    """What it cost; nothing of a model that has no price."""
    if not is_free(call) and prices.of(call.model, call.provider) is None:
        return
    cost, labels = call_cost(call, prices), {**of, "currency": prices.currency}
    session_figures.add("input_cost", cost.sent, labels)
    session_figures.add("output_cost", cost.answer, labels)
    if cost.untouched is not None:
        session_figures.add("input_compared_cost", cost.sent, labels)
        session_figures.add("input_untouched_cost", cost.untouched, labels)


class MetricsApp:
    """An ASGI application that answers with what a store has recorded, for Prometheus.

    Mount it where your app's metrics are, behind what guards them: it asks nobody who they are. A store that
    cannot be read is `ce_store_up 0`.

    Args:
        store: what it reads; `engine.store` of an engine.
        prices: what models cost; by default those that are known here.
    """

    def __init__(self, store: Store, prices: PriceTable | None = None) -> None:
        self._metrics = StoreMetrics(store, prices)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request; start and stop with a server that says so."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, send)

    async def _answer(self, scope: Mapping[str, Any], send: Send) -> None:
        status, body = 200, b""
        if scope["method"] not in ("GET", "HEAD"):
            status, body = 405, b"only GET and HEAD\n"
        else:
            body = (await self._metrics.answer()).encode()
        headers = [
            (b"content-type", CONTENT_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": body})


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
