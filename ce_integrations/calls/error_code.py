"""What an error of a model call is called in the record: its class and its HTTP status, never its text."""

from __future__ import annotations

from contextlib import suppress
from typing import Any


MOST_CAUSES = 5
"""Errors that are looked at: a framework raises its own from that of its client."""

STATUS = ("status_code", "status", "http_status", "code")
"""Where clients have the status: httpx and those of OpenAI and Anthropic, aiohttp, older ones, Google's."""


def error_code(error: BaseException) -> str:
    """The class of an error, with the HTTP status that the provider gave: `InternalServerError:503`."""
    name, status = type(error).__name__, http_status(error)
    return name if status is None else f"{name}:{status}"


def http_status(error: BaseException) -> int | None:
    """The HTTP status of an error or of what it was raised from; `None` where none of them tells one."""
    each: BaseException | None = error
    for _ in range(MOST_CAUSES):
        if each is None:
            return None
        for subject in (each, _read(each, "response")):
            for value in (_read(subject, name) for name in STATUS):
                if type(value) is int and 400 <= value <= 599:
                    return value
        each = each.__cause__ or each.__context__
    return None


def _read(subject: Any, name: str) -> Any:
    """An attribute of an object of others, which may raise whatever it likes."""
    with suppress(Exception):
        return getattr(subject, name, None)
    return None


__all__ = ["error_code", "http_status"]
