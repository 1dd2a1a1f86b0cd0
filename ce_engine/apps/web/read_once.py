"""A store of which one page asks each thing once, however many of its parts want to know it."""

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

Answers: TypeAlias = dict[tuple[object, ...], Any]

_answers: ContextVar[Answers | None] = ContextVar("answers", default=None)


@contextmanager
def reading_once() -> Iterator[None]:
    """Whatever is asked of a `ReadOnce` inside is read once; the engine's own loop is inside, too."""
    before = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(before)


class ReadOnce:
    """The store, which outside of `reading_once` is asked each time."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get_session(self, scope: Scope) -> SessionDocument | None:
        """The session's document; it is shared, and nobody changes it."""
        document: SessionDocument | None = await _once(self._store.get_session, scope)
        return document

    async def list_turns(self, scope: Scope) -> list[TurnRow]:
        """The session's turns, oldest first."""
        return list(await _once(self._store.list_turns, scope))

    async def list_events(self, scope: Scope) -> list[Event]:
        """The session's events, oldest first."""
        return list(await _once(self._store.list_events, scope))

    async def state(
        self, scope: Scope, *, after_seq: int = 0, after_evidence: int = 0
    ) -> SessionState | None:
        """What a view is built from."""
        asked = {"after_seq": after_seq, "after_evidence": after_evidence}
        state: SessionState | None = await _once(self._store.state, scope, **asked)
        return state


async def _once(ask: Callable[..., Awaitable[Any]], scope: Scope, **asked: int) -> Any:
    answers = _answers.get()
    if answers is None:
        return await ask(scope, **asked)
    key = (ask.__name__, scope.key, *asked.values())
    if key not in answers:
        answers[key] = await ask(scope, **asked)
    return answers[key]
