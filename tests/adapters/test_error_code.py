"""What an error of a model call is called in the record: its class, and the status that the provider gave."""

from __future__ import annotations

from typing import Any

import pytest

from ce_integrations.calls.error_code import error_code


class RefusedError(Exception):
    """An error of a client."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class HostileError(Exception):
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Answer:
    status_code = 429


def raised(cause: BaseException) -> BaseException:
    error = ValueError("wrapped")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RefusedError(status_code=503), "RefusedError:503"),
        (RefusedError(status=502), "RefusedError:502"),
        (RefusedError(code=404), "RefusedError:404"),
        (RefusedError(code="overloaded"), "RefusedError"),
        (RefusedError(response=Answer()), "RefusedError:429"),
        (RefusedError(status_code=200), "RefusedError"),
        (RefusedError(status_code=True), "RefusedError"),
        (RefusedError(status_code="503"), "RefusedError"),
        (raised(RefusedError(status_code=503)), "ValueError:503"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_an_error_is_its_class_and_its_status(error: BaseException, code: str) -> None:
    assert error_code(error) == code


def test_causes_that_go_round_end() -> None:
    error = RefusedError()
    error.__cause__ = error
    assert error_code(error) == "RefusedError"


def test_one_that_raises_when_it_is_looked_at_is_its_class() -> None:
    assert error_code(HostileError()) == "HostileError"
