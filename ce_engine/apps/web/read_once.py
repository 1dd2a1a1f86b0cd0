"""A store of which one page asks each thing once, and the next page of the same session only what moved since."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ce_engine.schema.document import SessionDocument
    from ce_engine.schema.events import Event
    from ce_engine.schema.rows import SessionState, TurnRow
    from ce_engine.schema.scope import Scope
    from ce_engine.schema.settings import Versions

Answers: TypeAlias = dict[tuple[object, ...], Any]

_page_answers: ContextVar[dict[Scope, Answers] | None] = ContextVar("asked", default=None)
"""What the page under way has asked, by session."""


@contextmanager
def reading_once() -> Iterator[None]:
    """Whatever is asked of a `ReadOnce` inside is read once; the engine's own loop is inside, too."""
    before = _page_answers.set({})
    try:
        yield
    finally:
        _page_answers.reset(before)


class ReadOnce:
    """The store, which outside of `reading_once` is asked each time.

    The answers of the session that was looked at last are kept, and are those of the next page, too, where the
    session's version says that nothing moved: who goes from turn to turn of a long one does not wait for all its turns.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._last: tuple[Scope, Versions, Answers] | None = None

    def forget(self) -> None:
        """Keep nothing of the session that was looked at last."""
        self._last = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get_session(self, scope: Scope) -> SessionDocument | None:
        """The session's document; it is shared, and nobody changes it."""
        document: SessionDocument | None = await self._once(self._store.get_session, scope)
        return document

    async def list_turns(self, scope: Scope) -> list[TurnRow]:
        """The session's turns, oldest first."""
        return list(await self._once(self._store.list_turns, scope))

    async def list_events(self, scope: Scope) -> list[Event]:
        """The session's events, oldest first."""
        return list(await self._once(self._store.list_events, scope))

    async def state(
        self, scope: Scope, *, after_seq: int = 0, after_evidence: int = 0
    ) -> SessionState | None:
        """What a view is built from."""
        bounds = {"after_seq": after_seq, "after_evidence": after_evidence}
        state: SessionState | None = await self._once(self._store.state, scope, **bounds)
        return state

    async def _once(self, ask: Callable[..., Awaitable[Any]], scope: Scope, **bounds: int) -> Any:
        page = _page_answers.get()
        if page is None:
            return await ask(scope, **bounds)
        if scope not in page:
            page[scope] = await self._answers_of(scope)
        answers, key = page[scope], (ask.__name__, *bounds.values())
        if key not in answers:
            answers[key] = await ask(scope, **bounds)
        return answers[key]

    async def _answers_of(self, scope: Scope) -> Answers:
        """What is known of a session as it is now. Its version is read first: what is kept is never older."""
        versions = await self._store.version(scope)
        if self._last is None or self._last[:2] != (scope, versions):
            self._last = (scope, versions, {})
        return self._last[2]
