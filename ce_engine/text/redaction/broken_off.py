"""The end of a text that broke off: half a number passes every check, so that it is taken out unchecked."""

from __future__ import annotations

import re

from ce_engine.ports.redaction import RedactResult
from ce_engine.text.redaction.patterns import TOKENS


RULE = "broken_off"
CUT_OFF = "[CUT_OFF]"
"""Stands for the beginning of something that nobody can tell any more. It has no number: nothing is restored."""

REACH = 256
"""Characters before the end that are looked at."""

_LAST_DIGITS = re.compile(r"[+(]?[0-9](?:[ .\-/()_]{0,3}[0-9])*[ .\-/()_]{0,3}\Z")
_LAST_WORD = re.compile(r"[!-~]+\Z")
_AFTER_LABEL = re.compile(
    r"(?:passw\w*|passwd|pwd|passphrase|secret|token|api[ _\-]?key|contraseña|mot de passe|senha|пароль|"
    r"密码|口令|密钥|パスワード|비밀번호)[\"'”」』]?(?:[ ]?[:=：]|[ ]is|[ ]?(?:是|为|は|는|은))[ ]?[\"'“「『]?(?P<value>\S+)\Z",
    re.IGNORECASE,
)
_LEAST_DIGITS = 4
_LEAST_KEY = 8


def closed(redacted: RedactResult) -> RedactResult:
    """Return the result for a text that broke off, without what its end may be the beginning of."""
    text, count = without_open_end(redacted.text)
    if not count:
        return redacted
    return RedactResult(text, (*redacted.rules, RULE), redacted.count + count, has_sensitive=True)


def without_open_end(text: str) -> tuple[str, int]:
    """Return a text, redacted, without the value that its end may be the beginning of; and how many that are.

    Taken out are at its end four digits or more, in any grouping; a mail address without its end; the
    beginning of a vendor's key; and what stands behind the label of a password or key.
    """
    if text.endswith("]"):  # a placeholder: what was there is known
        return text, 0
    at = max(0, len(text) - REACH)
    labelled = _AFTER_LABEL.search(text, at)
    if labelled is not None:
        return text[: labelled.start("value")] + CUT_OFF, 1
    digits = _LAST_DIGITS.search(text, at)
    if digits is not None and sum(sign.isdigit() for sign in digits[0]) >= _LEAST_DIGITS:
        return text[: digits.start()] + CUT_OFF, 1
    word = _LAST_WORD.search(text, at)
    if word is not None and _may_go_on(word[0]):
        return text[: word.start()] + CUT_OFF, 1
    return text, 0


def _may_go_on(word: str) -> bool:
    """Say whether a word may be the beginning of a mail address or of a key."""
    mixed = any(sign.isdigit() for sign in word) and any(sign.isalpha() for sign in word)
    key = len(word) >= _LEAST_KEY and mixed and "/" not in word
    return "@" in word or key or any(prefix in word for prefix in TOKENS)
