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
        ("我的密码：", "sunfl"),
        ("管理员密码: ", "sunfl"),
        ("数据库口令：", "sunfl"),
        ("API密钥：", "sunfl"),
        ("새비밀번호: ", "sunfl"),
        ("userpwd=", "sunfl"),
        ("Your password is valid. My password: ", "correct horse batt"),
        ("Ihr Kennwort: ", "sunflower"),
        ("hasło: ", "sunflower"),
        ("lösenord: ", "sunfl"),
        ("mật khẩu: ", "sunfl"),
        ("Mot de passe : ", "tournes"),
        ("пароль - ", "подсолн"),
        ("my passcode is: ", "sunflower"),
        ("run login --password ", "sunflower"),
        ('{"r": "{\\"password\\": \\"', "sunflower"),
        ('password: "', "correct horse batt"),
        ("password: ", "correct horse batt"),
        ("密码：「", "[PASSWORD_1] horse batt"),
        (
            "seed phrase: ",
            "legal winner thank year wave sausage worth useful legal winner thank ye",
        ),
        ("助记词：", "legal winner thank "),
        ("Authorization: Basic ", "YW5uOnN1"),
        ("Cookie: ", "session=3f"),
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
        "your password: please enter it before you",
        'the password: "[PASSWORD_1]" and then',
        "密码：[PASSWORD_1]，然后",
        "the key to it is cour",
        "the seed phrase was lost",
        "[PHONE_1]",
        "-----BEGIN CERTIFICATE-----\nabc",
    ],
)
def test_plain_words_stay(text: str) -> None:
    assert without_open_end(text) == (text, 0)
