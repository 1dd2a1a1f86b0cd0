"""The addresses of pages: ids are anybody's text, so they stand in the query."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlencode


@lru_cache(maxsize=1024)  # the messages of a page were left out and went out in the same turns
def _address(path: str, **query: object) -> str:
    values = {name: str(value) for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(values)}" if values else path


def session_url(user_id: str, session_id: str, **more: object) -> str:
    """A session's page."""
    return _address("/session", id=session_id, user=user_id, **more)


def costs_url(user_id: str, session_id: str, **more: object) -> str:
    """What a session cost: a part of its page."""
    return _address("/session/costs", id=session_id, user=user_id, **more)


def turn_url(user_id: str, session_id: str, turn: int | str, **more: object) -> str:
    """A turn's page, by its number, from 1, or its id."""
    return _address("/turn", id=session_id, user=user_id, turn=turn, **more)


def evidence_url(user_id: str, session_id: str, evidence_id: str, **more: object) -> str:
    """The page of a piece of evidence."""
    return _address("/evidence", id=session_id, user=user_id, evidence=evidence_id, **more)


def trace_url(user_id: str, session_id: str, message_id: str, **more: object) -> str:
    """The page of what an answer stands on."""
    return _address("/trace", id=session_id, user=user_id, message=message_id, **more)


def beside_url(
    user_id: str, session_id: str, turn: int | str, other_user: str = "", other: str = ""
) -> str:
    """A turn beside that of another session which answers the same question; without one the way to choose it."""
    address = _address("/beside", id=session_id, user=user_id, turn=turn)
    # Whose it is stands there, though it is nobody's: else it is taken to be the same user's.
    return f"{address}&{urlencode({'with': other, 'with_user': other_user})}" if other else address


LINKS = {
    function.__name__: function
    for function in (session_url, costs_url, turn_url, evidence_url, trace_url, beside_url)
}
