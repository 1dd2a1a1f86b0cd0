"""Of a text that broke off, what its end may be the beginning of is taken out, however it is written."""

from __future__ import annotations

import pytest

from ce_engine.text.redaction.broken_off import CUT_OFF, without_open_end


pytestmark = pytest.mark.req("B-04")


@pytest.mark.parametrize(
    ("said", "secret"),
    [
        ("the card is ", "4111 1111 1"),
        ("the card is ", "4111 1111\n"),
        ("卡号", "４１１１１１１１１１１１"),
        ("رقم ", "٤١١١١١١١"),
        ("card: ", "4111&#8209;1111"),
        ("write to ", "ann＠exam"),
        ("密码：", "hun"),
        ("the key sk-ant ", "sk-ant-api03-abcd"),
        ("see https://u:", "p4ssw0rd"),
        ("-----BEGIN RSA PRIVATE KEY-----", "\nMIIEow"),
    ],
)
def test_what_may_go_on_is_taken_out(said: str, secret: str) -> None:
    text, count = without_open_end(said + secret)
    assert (text, count) == (said + CUT_OFF, 1)


@pytest.mark.parametrize(
    "text",
    [
        "and then it was done",
        "open http://localhost:443",
        "in the year 202",
        "写到一半",
        "[PHONE_1]",
        "-----BEGIN CERTIFICATE-----\nabc",
    ],
)
def test_plain_words_stay(text: str) -> None:
    assert without_open_end(text) == (text, 0)
