"""Redaction that may fail, or take too long: what is then stored has no content, and says so (B-02)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ce_engine.config import RedactionConfig
from ce_engine.errors import RedactionError
from ce_engine.ports.redaction import RedactedData, RedactResult, SessionRedactor
from ce_engine.schema.degradation import REDACTION_LIMIT
from ce_engine.schema.time_limits import Allowance, TimeUpError
from ce_engine.text.redaction.detection import in_call
from ce_engine.text.redaction.pieces import text_length
from ce_engine.text.redaction.redact import lettering
from ce_engine.text.redaction.spelled_out import each_lettered


T = TypeVar("T")

FAILED, GIVEN_UP = "redaction_failed", "redaction_limit"
"""In place of the rules that hit."""

MAX_COUNTED = 1_000_000_000


class LimitedRedactor:
    """A session's redactor within the limits of one call's texts; codes of what failed go to `degraded`."""

    def __init__(
        self, redactor: SessionRedactor, policy: RedactionConfig, degraded: list[str]
    ) -> None:
        self._redactor, self._degraded, self._letter = redactor, degraded, lettering(redactor)
        self._max_chars, self._allowance = policy.max_text_chars, Allowance(policy.timeout_s)
        self._detecting = [Allowance.TEXTS * policy.timeout_s]

    def text(self, clean: str, *, is_stored: bool = False) -> tuple[RedactResult, bool]:
        """The text as it may be stored, and whether it is withheld; the placeholders of a stored one are ours."""

        def redacted() -> RedactResult:
            return self._redactor.text(clean if is_stored else self._letter(clean))

        try:
            return self._limited(len(clean), redacted), False
        except Exception as error:  # noqa: BLE001 - a redactor of somebody else's may raise anything
            return RedactResult("", (self._failed(error),), 0, has_sensitive=True), True

    def data(self, plain: Any) -> RedactedData:
        """Plain data of our own as it may be stored; `None` where redaction failed.

        Of an object that was given up it says so: `{"withheld": True, "chars": 1000000}`.
        """
        length = text_length(plain, MAX_COUNTED)
        try:
            return self._limited(
                length, lambda: self._redactor.data(each_lettered(plain, self._letter))
            )
        except Exception as error:  # noqa: BLE001 - as above
            rule = self._failed(error)
            is_given_up = rule == GIVEN_UP and isinstance(plain, dict)
            return RedactedData(
                {"withheld": True, "chars": length} if is_given_up else None, (rule,)
            )

    def _limited(self, length: int, work: Callable[[], T]) -> T:
        if length > self._max_chars:
            raise TimeUpError("it would take longer than it may")
        return in_call(self._detecting, lambda: self._allowance.of_one(work))

    def _failed(self, error: Exception) -> str:
        given_up = isinstance(error, TimeUpError)
        self._degraded.append(REDACTION_LIMIT if given_up else RedactionError.code)
        return GIVEN_UP if given_up else FAILED
