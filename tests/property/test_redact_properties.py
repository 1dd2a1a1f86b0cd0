"""Whatever the text: redaction ends, repeats to nothing, and takes out just what it says."""

from __future__ import annotations

import copy
import sys
from datetime import date
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ce_engine.text.redaction.placeholders import Numbering
from ce_engine.text.redaction.redact import PatternRedactor


SECRET = b"0123456789abcdef0123456789abcdef"
REDACTORS = {
    "plain": PatternRedactor(),
    "own": PatternRedactor(
        patterns={"any_digits": r"\d+", "greedy": r"x.*y", "order": "order|订单号"},
        dictionaries={"names": ["Anna", "wang", "EMAIL", "密码"]},
    ),
}

# Pieces that mean something to the patterns, beside signs that part or join them.
PIECES = st.sampled_from(
    [
        *(
            "13912345678",
            "+86",
            "010-62345678",
            "(415) 555-2671",
            "4155552671",
            "11010519491231002X",
        ),
        *("4111 1111 1111 1111", "4111111111111111", "DE89370400440532013000", "219-09-9998"),
        *(
            "anna@example.com",
            "@",
            "a@b.co",
            "sk-" + "a1B2" * 8,
            "ghp_" + "a1B2c3" * 6,
            "eyJhbGciOiJI.",
        ),
        *(
            "password",
            "密码",
            "token",
            "api_key",
            "secret",
            "学号",
            "student id",
            "phone",
            "card",
            "ip",
        ),
        *(":", "：", "=", " is ", "是", '"', "'", "\\", "\\n", "\\u5bc6", "\\u0031", "://", "//u:"),
        *(
            "hunter2",
            "Zx8#k2!",
            "91.2.3.4",
            "order ",
            "订单号",
            "[EMAIL_1]",
            "[密码_2]",
            "[",
            "]",
            "_1]",
        ),
        *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "QUJD" * 20, "--password "),
        *(
            " ",
            "\n",
            "-",
            ".",
            "/",
            ",",
            "，",
            "（",
            "）",
            "x",
            "y",
            "０１２",
            "\u200b",
            "\ufdd0",
            "\ud800",
        ),
    ]
)
TEXTS = st.one_of(
    st.lists(PIECES, max_size=14).map("".join),
    st.text(max_size=60),
    st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=12).map("".join),
)
JSON = st.recursive(
    st.one_of(TEXTS, st.none(), st.booleans(), st.integers(), st.floats()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(TEXTS, PIECES), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(TEXTS, st.sampled_from(sorted(REDACTORS)), st.sampled_from(["en", "zh"]))
@example("api_key:sk-a1B2a1B2a1B2a1B2a1B2a1B213912345678", "plain", "en")
@example("order 13912345678", "own", "en")
@example("\\\\u5bc6password:\\u0031", "plain", "zh")
def test_doing_it_again_changes_nothing(text: str, which: str, locale: str) -> None:
    numbering = Numbering(SECRET)
    once = REDACTORS[which].redact(text, numbering, locale)
    again = REDACTORS[which].redact(once.text, numbering, locale)
    assert (again.text, again.spans) == (once.text, ())


@given(TEXTS, st.sampled_from(sorted(REDACTORS)))
def test_all_but_the_spans_stays(text: str, which: str) -> None:
    done = REDACTORS[which].redact(text, Numbering(SECRET))
    assert list(done.spans) == REDACTORS[which].find(text)
    rest, at = done.text, 0
    for span in done.spans:
        kept = text[at : span.start]
        assert at <= span.start < span.end <= len(text)
        assert rest.startswith(f"{kept}[{span.label}_")
        rest, at = rest[len(kept) :].partition("]")[2], span.end
    assert rest == text[at:]
    assert done.count == len(done.spans)


@given(JSON)
@example([["PASSWORD", "1391234567813912345678[EMAIL_1](415) 555-2671"]])
def test_data_is_redacted_once_and_never_changed_in_place(value: Any) -> None:
    before = copy.deepcopy(value)
    numbering = Numbering(SECRET)
    once = REDACTORS["plain"].redact_json(value, numbering)
    assert repr(value) == repr(before)
    again = REDACTORS["plain"].redact_json(once.value, numbering)
    assert (repr(again.value), again.count) == (repr(once.value), 0)


# Check digits, worked out here in another way than in the product


def luhn_digit(body: str) -> str:
    doubled = [str(int(digit) * 2) for digit in body[::-2]]
    plain = body[-2::-2]
    return str(-sum(map(int, "".join(doubled) + plain)) % 10)


def identity_sign(body: str) -> str:
    weighted = sum(int(digit) * pow(2, 17 - place, 11) for place, digit in enumerate(body))
    return "0123456789X"[(12 - weighted % 11) % 11]


def iban_of(country: str, account: str) -> str:
    value = 0
    for sign in account + country + "00":
        value = (value * (10 if sign.isdigit() else 100) + int(sign, 36)) % 97
    return f"{country}{98 - value:02d}{account}"


def digits(size: int) -> st.SearchStrategy[str]:
    return st.text("0123456789", min_size=size, max_size=size)


CARDS = st.one_of(
    *(
        st.tuples(st.just(prefix), digits(length - 1 - len(prefix))).map("".join)
        for prefix, length in [
            ("4", 16),
            ("55", 16),
            ("2345", 16),
            ("37", 15),
            ("62", 16),
            ("62", 19),
        ]
    )
)
BIRTHDAYS = st.dates(date(1900, 1, 1), date(2020, 12, 31)).map("{:%Y%m%d}".format)
IDENTITIES = st.tuples(
    st.sampled_from(["110101", "310104", "440305", "650102"]), BIRTHDAYS, digits(3)
).map("".join)
AROUND = st.sampled_from(
    [
        "my number: {} ok",
        "号码{}。",
        "({})",
        "{}",
        '"{}"',
        "x {}\ny",
        "scan_{}_2024.pdf",
        "扫描_{}.pdf",
    ]
)


@given(CARDS, AROUND, st.integers(1, 9))
def test_a_card_is_known_by_its_check_digit(body: str, around: str, off: int) -> None:
    check = luhn_digit(body)
    right, wrong = body + check, body + str((int(check) + off) % 10)
    assert [span.label for span in REDACTORS["plain"].find(around.format(right))] == ["CARD"]
    assert REDACTORS["plain"].find(around.format(wrong)) == []


@given(IDENTITIES, AROUND, st.integers(1, 10))
def test_an_identity_card_is_known_by_its_check_sign(body: str, around: str, off: int) -> None:
    check = identity_sign(body)
    other = "0123456789X"[("0123456789X".index(check) + off) % 11]
    assert [span.label for span in REDACTORS["plain"].find(around.format(body + check))] == [
        "ID_CARD"
    ]
    assert REDACTORS["plain"].find(around.format(body + other)) == []


@given(st.sampled_from([("DE", 18), ("FR", 23), ("AT", 16), ("NO", 11)]), st.data(), AROUND)
def test_an_iban_is_known_by_its_check_digits(
    country: tuple[str, int], data: st.DataObject, around: str
) -> None:
    account = iban_of(country[0], data.draw(digits(country[1])))
    grouped = " ".join(account[at : at + 4] for at in range(0, len(account), 4))
    for spelling in (account, grouped):
        assert [span.label for span in REDACTORS["plain"].find(around.format(spelling))] == ["IBAN"]
    wrong = f"{account[:2]}{(int(account[2:4]) % 97) + 1:02d}{account[4:]}"
    assert "IBAN" not in [span.label for span in REDACTORS["plain"].find(around.format(wrong))]


@given(digits(8), st.sampled_from("0123456789abcdefXYZ_"), st.booleans())
def test_a_phone_is_none_inside_something_longer(tail: str, sign: str, before: bool) -> None:
    phone = f"139{tail}"
    text = f"x {sign}{phone} y" if before else f"x {phone}{sign} y"
    assert REDACTORS["plain"].find(f"x {phone} y")
    assert REDACTORS["plain"].find(text) == []


@given(st.from_regex(r"[a-z]{1,6}_[a-z]{1,6}", fullmatch=True), digits(16), st.booleans())
def test_a_number_in_an_identifier_is_a_card_only_by_its_check_digit(
    name: str, number: str, last: bool
) -> None:
    text = f"{name}_{number}" if last else f"{number}_{name}"
    if luhn_digit(number[:-1]) != number[-1]:
        assert REDACTORS["plain"].find(text) == []


# Cost

HOSTILE = [
    *(
        "4",
        "1 ",
        "4111 1111 1111 1111 ",
        "13912345678 ",
        "1-",
        "4111_1111_",
        "010-",
        "DE89 3704 0044 0532 0130 0 ",
    ),
    *(
        "@",
        "a@b.",
        "a.",
        "a" * 63 + "@",
        "sk-",
        "SG.",
        "eyJ",
        "eyJaaaaaaaaaaaa.",
        "ghp_a1",
        "://a:b",
    ),
    # Each mail address is held against the passwords of URLs.
    *(
        "postgres://u:p4ss@me.example.com@h.io/ ",
        "://u:p@b.co@c.io a@b.co ",
        "a@b.co ftp://u:p/w@c.io ",
    ),
    *("password:", "api_key=", 'password":"', "password for a a a ", "密码是", "学号1", "ip:1.2."),
    *("-----BEGIN PRIVATE KEY-----", "[EMAIL_", "\\u0031", "1\u200b", "0123456789abcdef", "QUJD"),
]


def steps(text: str) -> int:
    """Count the lines that a search runs, and the functions, ours and built-in ones, that it calls."""
    count = 0

    def call(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    def line(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    before = sys.getprofile(), sys.gettrace()
    sys.setprofile(call)
    sys.settrace(line)
    try:
        REDACTORS["plain"].find(text)
    finally:
        sys.settrace(before[1])
        sys.setprofile(before[0])
    return count


@pytest.mark.parametrize("piece", HOSTILE)
def test_work_grows_with_the_text_and_no_faster(piece: str) -> None:
    once, twice = (steps(piece * (size // len(piece))) for size in (8_000, 16_000))
    assert twice <= 2.2 * once + 100


@pytest.mark.parametrize(
    "piece", ["4", "a@b.", "sk-a1B-", "eyJaaaaaaaaaaaa.", "[EMAIL_1]", "\ud800", "\0"]
)
def test_a_megabyte_is_no_trouble(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    done = REDACTORS["plain"].redact(text, Numbering(SECRET))
    assert (done.text != text) == (done.count > 0)
