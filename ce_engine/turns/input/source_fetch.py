"""Asks sources side by side, within a deadline; what one of them does wrong harms no call (D-09)."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections import Counter
from collections.abc import Awaitable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ce_engine.errors import ConfigError
from ce_engine.ports.context import ContextPiece, ContextSource
from ce_engine.prepare.blocks.material import LAYERS
from ce_engine.runtime.fork import renew_after_fork
from ce_engine.runtime.waiting import settled
from ce_engine.schema.enums import Priority
from ce_engine.schema.scope import Scope


UNAVAILABLE, MALFORMED = "CONTEXT_SOURCE_UNAVAILABLE", "CONTEXT_SOURCE_MALFORMED"
MAX_PIECES = 10_000
"""Of one answer: the pieces that are looked at, so that the best of them can be chosen."""

MAX_THREADS = 8
"""Of one source: one that hangs on all of them is not asked again until a thread is free."""

RESERVED = frozenset({"constraints", "tasks", "budget", "colleagues"})
_NAME = re.compile(r"\w[\w.-]{0,63}")


@dataclass(slots=True)
class FetchResult:
    """The pieces by source, in the order of the sources, and codes of what was not to be had."""

    pieces: list[tuple[ContextSource, Sequence[ContextPiece]]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def check_sources(sources: Sequence[ContextSource]) -> None:
    """See that every source has a name of its own and a section that exists.

    Raises:
        ConfigError: one has not.
    """
    seen = set(RESERVED)
    for source in sources:
        if not _NAME.fullmatch(source.name) or source.name in seen:
            raise ConfigError(
                f"a source is named {source.name!r}, expected a word that no other has, "
                f"and none of {', '.join(sorted(RESERVED))}"
            )
        seen.add(source.name)
        if source.section not in LAYERS:
            raise ConfigError(
                f"source {source.name!r} is for section {source.section!r}, expected one of "
                f"{', '.join(LAYERS)}"
            )


class SourceFetcher:
    """Asks sources. To be called on the engine's own loop, outside the session's lock."""

    def __init__(self, sources: Sequence[ContextSource]) -> None:
        check_sources(sources)
        self._sources = list(sources)
        self._reset()
        renew_after_fork(self._reset)

    def _reset(self) -> None:
        self._threads: Counter[str] = Counter()
        self._mutex = threading.Lock()

    async def fetch(
        self, scope: Scope, query: str, limit: int, deadline_s: float, sections: Collection[str]
    ) -> FetchResult:
        """What the sources of these sections find in time."""
        fetched = FetchResult()
        sources = [source for source in self._sources if source.section in sections]
        if not sources:
            return fetched
        tasks = [
            asyncio.ensure_future(self._ask(source, scope, query, limit)) for source in sources
        ]
        try:
            await asyncio.wait(tasks, timeout=deadline_s)
        finally:
            for task in tasks:
                task.cancel()  # one that does not listen goes on for nobody
        for source, task in zip(sources, tasks, strict=True):
            in_time = task.done() and not task.cancelled()
            self._take(fetched, source, task.result() if in_time else None)
        return fetched

    def _take(self, fetched: FetchResult, source: ContextSource, answer: list[Any] | None) -> None:
        """Take an answer in: a list of one, what the source answered; `None` is no answer."""
        if answer is None:
            fetched.warnings.append(f"{UNAVAILABLE}: {source.name}")
            return
        pieces = _pieces(answer[0])
        if pieces is None:
            fetched.warnings.append(f"{MALFORMED}: {source.name}")
        else:
            fetched.pieces.append((source, pieces))

    async def _ask(
        self, source: ContextSource, scope: Scope, query: str, limit: int
    ) -> list[Any] | None:
        try:
            if inspect.iscoroutinefunction(source.fetch):
                answer: Any = source.fetch(scope, query, limit)
            else:
                answer = await self._on_thread(source, scope, query, limit)
            return [await answer if isinstance(answer, Awaitable) else answer]
        except asyncio.CancelledError:
            raise
        except BaseException:  # noqa: BLE001 - a host's code may raise anything, and this loop is ours
            return None

    async def _on_thread(
        self, source: ContextSource, scope: Scope, query: str, limit: int
    ) -> object:
        done: Future[object] = Future()
        with self._mutex:
            if self._threads[source.name] >= MAX_THREADS:
                raise TimeoutError
            self._threads[source.name] += 1

        def run() -> None:
            try:
                done.set_result(source.fetch(scope, query, limit))
            except BaseException as error:  # noqa: BLE001 - as above
                done.set_exception(error)
            finally:
                with self._mutex:
                    self._threads[source.name] -= 1

        threading.Thread(target=run, name=f"ce-source-{source.name}", daemon=True).start()
        await settled(done)
        return done.result()


def _pieces(answer: object) -> list[ContextPiece] | None:
    """The pieces of an answer; `None` if it is none."""
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        return None
    try:
        pieces = list(islice(answer, MAX_PIECES))
        right = all(map(_is_piece, pieces))
    except Exception:  # noqa: BLE001 - objects of a host's own may do anything when they are looked at
        return None
    return [piece for piece in pieces if piece.text.strip()] if right else None


def _is_piece(piece: Any) -> bool:
    return (
        type(piece) is ContextPiece
        and all(_is_text(text) for text in (piece.text, piece.at, piece.evidence_id))
        and all(
            owner is None or _is_text(owner)
            for owner in (piece.account_id, piece.user_id, piece.project_id, piece.sensitivity)
        )
        and piece.priority in set(Priority)
        and (piece.score is None or (_is_number(piece.score) and 0 <= piece.score <= 1))
        and (piece.tokens is None or (_is_number(piece.tokens) and piece.tokens >= 0))
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
