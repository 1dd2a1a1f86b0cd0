"""Coloured output of a terminal hides nothing from the redactor, and no placeholder that somebody wrote out."""

from __future__ import annotations

import pytest

from ce_engine.text.quote import neutral
from ce_engine.text.redaction.redact import PatternRedactor
from ce_engine.text.redaction.spelled_out import lettered


REDACTOR = PatternRedactor()
ESCAPES = (
    "\x1b",
    r"\u001b",
    r"\\u001b",
    "&#27;",
    "&#x1b;",
    "&#0000000027;",
    r"\x1b",
    r"\033",
    r"\e",
)
SECRETS = (
    "4111111111111111",
    "+1 415 555 2671",
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "123-45-6789",
    "DE89370400440532013000",
)


def _found(text: str) -> str:
    return " ".join(text[span.start : span.end] for span in REDACTOR.find(text))


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_in_colour_is_found(secret: str, escape: str) -> None:
    for on, off in (("[31m", "[0m"), ("[38;2;255;0;10m", "[m")):
        text = f"found: {escape}{on}{secret}{escape}{off} in the log"
        assert secret in _found(text), text


@pytest.mark.parametrize("escape", ESCAPES)
def test_a_coloured_label_still_names_its_value(escape: str) -> None:
    on, off = f"{escape}[01;31m{escape}[K", f"{escape}[m{escape}[K"
    for text in (
        f"the {on}password{off}: hunter2-Zx91\n",
        f"the password: {on}hunter2-Zx91{off}\n",
        f"password{on}:{off}hunter2-Zx91\n",
        f"{on}password{off}={on}hunter2-Zx91{off}\n",
    ):
        assert "hunter2-Zx91" in _found(text), text


@pytest.mark.parametrize("start", ["\x1b[", "\x9b", r"\u009b", "&#155;"])
def test_no_sequence_swallows_a_secret(start: str) -> None:
    for secret in SECRETS:
        assert secret in _found(f"see {start}{secret} m"), (start, secret)


def test_a_sequence_cut_off_at_the_end_hides_nothing() -> None:
    assert "4111111111111111" in _found("card \x1b[31m4111111111111111\x1b[0")


@pytest.mark.parametrize("end", ["\x07", "\x1b\\", "\x9c"])
def test_a_secret_as_a_link_is_found(end: str) -> None:
    text = f"see \x1b]8;;https://example.com/a{end}4111111111111111\x1b]8;;{end} there"
    assert "4111111111111111" in _found(text)
    link = f"see \x1b]8;;https://example.com/?k={SECRETS[3]}{end}x"
    assert SECRETS[3] in _found(link)


def test_what_a_quote_leaves_out_hides_no_value() -> None:
    secret = SECRETS[3]
    for code in (*range(0x3000), *range(0xFE00, 0x10000), *range(0xE0000, 0xE1000)):
        sign = chr(code)
        if neutral(f"a{sign}b") == "ab":
            assert _found(f"{secret[:10]}{sign}{secret[10:]} ok"), hex(code)


@pytest.mark.parametrize("escape", [*ESCAPES, "\x9b", r"\u009b"])
def test_a_placeholder_behind_an_escape_is_lettered(escape: str) -> None:
    for text in (f"{escape}[PASSWORD_1]", f"{escape}[31m[PASSWORD_1]"):
        assert lettered(text) == text.replace("_1]", "_A]")
        assert lettered(lettered(text)) == lettered(text)
    assert "_1]" not in lettered(r"[PASS\u001b[AWORD_1]")
    assert "_1]" not in lettered(r"\u001b\u005bPASSWORD_1]")
