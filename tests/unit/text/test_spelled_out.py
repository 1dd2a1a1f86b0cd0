"""A placeholder that somebody wrote out becomes none, however it hides, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

from ce_engine.text.quote import neutral
from ce_engine.text.redaction.placeholders import Numbering
from ce_engine.text.redaction.redact import PatternRedactor
from ce_engine.text.redaction.spelled_out import each_lettered, lettered


LETTER = PatternRedactor(patterns={"employee_no": "E[0-9]+"}).lettered


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("to [EMAIL_1] and [邮箱_27]!", "to [EMAIL_A] and [邮箱_AA]!"),
        ("[EMPLOYEE_NO_3]", "[EMPLOYEE_NO_C]"),
        ("[EMAIL_999999999999]", "[EMAIL_DTMCHRXUM]"),
        ("a\u200b[EMAIL_\u20601]\u200bb", "a\u200b[EMAIL_A]b"),
        ("x [PHONE_\x1b[0m2] y", "x [PHONE_B] y"),
        ("\\\\u005bEMAIL_1\\\\u005d", "[EMAIL_A]"),
        ("[CARD\\u200b_1], \\u4f60", "[CARD_A], \\u4f60"),
        ("&#91;CARD_1&#x5d; &#20320;", "[CARD_A] &#20320;"),
        ("[[EMAIL_1]EMAIL_1]", "[[EMAIL_A]EMAIL_1]"),
        # None of ours
        *((same, same) for same in ("[DOC_1]", "[EMAIL_0]", "[EMAIL_01]", "[EMAIL_A]", "[1]", "\u200b")),
    ],
)  # fmt: skip
def test_its_number_becomes_letters(text: str, stored: str) -> None:
    assert LETTER(text) == stored
    assert LETTER(stored) == stored


def test_of_another_s_text_every_label_s_does() -> None:
    assert lettered("[DOC_1], [EMAIL\u200b_2]") == "[DOC_A], [EMAIL_B]"


def test_nothing_that_a_quote_leaves_out_hides_one() -> None:
    signs = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    shown = set(neutral("a".join(signs)))
    for sign in (*(set(signs) - shown), "\u200c", "\u200d", "\x1b[1;31m", "\x9b0m"):
        text = f"[EMAIL{sign}_1]"
        assert neutral(text) != "[EMAIL_1]" or LETTER(text) == "[EMAIL_A]", ascii(sign)


def test_in_data_texts_and_keys_become_none_and_no_entry_is_lost() -> None:
    value: Any = {"[EMAIL_1]": ["[CARD_2]", 1, None], "[EMAIL_A]": {"deep": [{"x": "[PHONE_1]"}]}}
    assert each_lettered(value, LETTER) == {
        "[EMAIL_A]": ["[CARD_B]", 1, None],
        "[EMAIL_A]'": {"deep": [{"x": "[PHONE_A]"}]},
    }
    assert each_lettered("[EMAIL_1]", LETTER) == "[EMAIL_A]"
    assert each_lettered(None, LETTER) is None


def test_what_it_became_is_taken_for_no_secret() -> None:
    redactor, numbering = PatternRedactor(), Numbering(b"k" * 32)
    for text in ("my password is [PASSWORD_A]", "token: [SECRET_AB]"):
        assert redactor.redact(text, numbering).text == text
    data = {"password": "[PASSWORD_A]"}
    assert redactor.redact_json(data, numbering).value == data
