"""The end of a text that broke off: half a number passes every check, so that it is taken out unchecked."""

from __future__ import annotations

import re

from ce_engine.ports.redaction import RedactResult
from ce_engine.text.redaction.labelled import LABELLED
from ce_engine.text.redaction.passwords import PASSWORDS, several_words
from ce_engine.text.redaction.patterns import TOKENS
from ce_engine.text.redaction.plain_form import readable


RULE = "broken_off"
CUT_OFF = "[CUT_OFF]"
"""Stands for the beginning of something that nobody can tell any more. It has no number: nothing is restored."""

REACH = 256
"""Characters before the end that are looked at."""

_LAST_DIGITS = re.compile(r"[+(]?[0-9](?:[ .\-/()_]{0,3}[0-9])*[\s.\-/()_]{0,3}\Z")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}KEY-----(?P<value>[^-]*)\Z")
_OF_A_URL = re.compile(r"://[^\s/@:]*:(?P<value>(?![0-9]{1,5}\Z)[^\s/@]+)\Z")
_LAST_WORD = re.compile(r"[!-~]+\Z")
_WORDS = [
    word
    for rule in (*PASSWORDS, *LABELLED)
    for word in rule.words
    if rule.rule != "seed_phrase" and word not in {"key", "token"}
]
_ABBREVIATIONS = [word for word in _WORDS if word.isascii() and len(word) < 4 and word != "pwd"]
_NAMES = [word for word in _WORDS if word not in _ABBREVIATIONS]
_LABEL = (
    r"(?:passw\w*|token|(?:api|access|secret|private|signing|master)[ _\-]?key"
    rf"|{'|'.join(map(re.escape, _NAMES))}|(?<![^\W_])(?:{'|'.join(_ABBREVIATIONS)}))"
    r"(?:[ _\-](?:confirmation|confirm|repeat|again|phrase))?"
)
_SEED = (
    "(?:"
    + "|".join(w for rule in PASSWORDS if rule.rule == "seed_phrase" for w in rule.words)
    + ")"
)
_LED = (
    r"[ ]?[\\\"'`”’」』】]{0,3}\*{0,2}[ \t]{0,2}(?:(?::=|=>|->|[:：=＝>→]|[-–—](?=[ ]))"
    r"|(?:is|was|equals|ist|lautet|es|está|est|é|è|to|jest|är|er|on|olarak|adalah|là)(?![^\W_])[ ]?:?"
    r"|(?:是|为|為|は|が|은|는|이|가)[:：]?)[ \t]{0,8}\*{0,2}"
)
_QUOTED = r"\\{0,3}[\"'`](?P<quoted>[^\"'`\n]{1,200})|[“‘「『«](?P<framed>[^”’」』»\n]{1,200})"
_AFTER_LABEL = tuple(
    re.compile(rf"(?i:{label})\Z")
    for label in (
        rf"{_LABEL}{_LED}(?:{_QUOTED}|[\"'`“‘「『«]?(?P<run>(?!\[[A-Z])\S+))",
        rf"{_LABEL}{_LED}(?P<words>[^\n\"'`<>{{}}()\[\]|;,，。；]{{1,120}})",
        rf"--[a-z0-9\-]*{_LABEL}[ ]{{1,2}}(?:{_QUOTED}|(?P<run>(?!\[[A-Z])\S+))",
        rf"{_SEED}(?: phrase)?{_LED}[\"'`“‘「『«]?(?P<seed>[a-z]{{1,8}}(?:[ ,\n]{{1,3}}[a-z]{{1,8}}){{1,23}}[ ,\n]{{0,3}})",
        r"(?:authorization|cookie)[\"'`]?[ ]?[:=][ ]?[\"'`]?(?:(?:basic|bearer|digest)[ ])?(?P<header>\S+)",
    )
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
    beginning of a vendor's key; what stands behind the label of a password, a key or a wallet's words, in every
    language in which a whole one is known, or behind the user of a URL; and a private key that has just begun.
    """
    if text.endswith("]"):  # a placeholder: what was there is known
        return text, 0
    at = max(0, len(text) - REACH)
    view, origin = readable(text[at:])
    end = _open_end(view)
    return (text, 0) if end is None else (text[: at + origin(end)] + CUT_OFF, 1)


def _open_end(view: str) -> int | None:
    """Where what the text's end may be the beginning of begins."""
    starts = [start for pattern in _AFTER_LABEL if (start := _behind(pattern, view)) is not None]
    if starts:
        return min(starts)
    digits = _LAST_DIGITS.search(view)
    if digits is not None and sum(sign.isdigit() for sign in digits[0]) >= _LEAST_DIGITS:
        return digits.start()
    word = _LAST_WORD.search(view)
    if word is not None and _may_go_on(word[0]):
        return word.start()
    hidden = _PRIVATE_KEY.search(view) or _OF_A_URL.search(view)
    return hidden.start("value") if hidden is not None else None


def _behind(label: re.Pattern[str], view: str) -> int | None:
    """Where the value begins that stands behind a label, and ends with the text."""
    at = 0
    while (match := label.search(view, at)) is not None:
        name = match.lastgroup or ""
        if name != "words" or several_words(match[name], 2):
            return match.start(name)
        at = match.start() + 1
    return None


def _may_go_on(word: str) -> bool:
    """Say whether a word may be the beginning of a mail address or of a key."""
    mixed = any(sign.isdigit() for sign in word) and any(sign.isalpha() for sign in word)
    key = len(word) >= _LEAST_KEY and mixed and "/" not in word
    return "@" in word or key or any(prefix in word for prefix in TOKENS)
