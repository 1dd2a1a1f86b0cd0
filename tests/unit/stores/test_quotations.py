"""A deleted text is found wherever another says it, however it is written there (A-30)."""

from __future__ import annotations

import html
import json
from collections.abc import Callable

import pytest

from ce_engine.stores import quotations
from ce_engine.stores.quotations import DELETED, Quotations


GATE = "The Gate Code Of The North Warehouse Is Kept By Mister Wang In The Blue Safe"
ISTANBUL = GATE.replace("Warehouse", "Warehouse Of İstanbul")
CHINESE = "北区仓库的大门密码由王小明保管在蓝色保险箱的第三层抽屉里面"
LINES = 'The "gate" code of\nthe north & south\nwarehouse <is> kept\nby "mister" Wang\'s\nwife in C:\\new\\safe 😀'


@pytest.mark.req("A-30")
@pytest.mark.parametrize(
    ("deleted", "quote"),
    [
        (ISTANBUL, "Is Kept By Mister Wang In The Blue Safe"),
        ("Is Kept By Mister Wang In The Blue Safe", "is kept by mister wang in the blue safe"),
        (ISTANBUL, ISTANBUL.lower()),
        (ISTANBUL, ISTANBUL.casefold()),
        ("Kapı şifresi İstanbul deposunda", "KAPI ŞİFRESİ İSTANBUL DEPOSUNDA"),
        ("Die große Straße heißt wie der Fluß", "DIE GROSSE STRASSE HEISST WIE DER FLUSS"),
    ],
)
def test_no_letter_hides_a_passage(deleted: str, quote: str) -> None:
    """The lower case of some is longer: of `İ`, and the upper case of `ß`."""
    found = Quotations(deleted)
    for text in (f"It says: {quote}!", f"İ says: {quote}!"):
        assert found.without(text) == text.replace(quote, DELETED)


def _json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _json_as_it_is(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _json_for_pages(text: str) -> str:
    return _json(text).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


WRITTEN: list[Callable[[str], str]] = [_json, _json_as_it_is, _json_for_pages, html.escape]


@pytest.mark.req("A-30")
@pytest.mark.parametrize("text", [CHINESE, LINES, ISTANBUL], ids=["chinese", "lines", "istanbul"])
@pytest.mark.parametrize("first", WRITTEN)
@pytest.mark.parametrize("second", [str, *WRITTEN])
def test_an_escaped_copy_is_a_copy(
    text: str, first: Callable[[str], str], second: Callable[[str], str]
) -> None:
    """JSON in JSON, as tools answer it, and pages in JSON: each a text that anybody can read."""
    copy = second(first(text))
    assert Quotations(text).without(f"hits: {copy}; end") == f"hits: {DELETED}; end"
    assert Quotations(copy).without(f"hits: {text}; end") == f"hits: {DELETED}; end"


@pytest.mark.req("A-30")
def test_what_is_left_of_json_can_be_read() -> None:
    page = json.dumps({"before": "a\n", "hits": [f"\n{CHINESE}\n", "ünd\\"], "n": "\u5317"})
    left = json.loads(Quotations(CHINESE).without(page))
    assert left == {"before": "a\n", "hits": [f"\n{DELETED}\n", "ünd\\"], "n": "\u5317"}
    short = json.dumps(["\nblue7\n", "blue77"])
    assert json.loads(Quotations("blue7").without(short)) == [f"\n{DELETED}\n", "blue77"]


@pytest.mark.req("A-30")
@pytest.mark.parametrize("whole", [200_000, 1_000], ids=["every place", "in steps"])
def test_a_passage_is_found_in_the_last_of_many_lines_alike(
    monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    monkeypatch.setattr(quotations, "_INDEXED_WHOLE", whole)
    found = Quotations("\n".join(f"the customer of row number {n} paid" for n in range(300)))
    for n in (0, 7, 69, 299):
        quote = f"the customer of row number {n} paid"
        assert found.without(f"It says: {quote}. End") == f"It says: {DELETED}. End"
    other = "the customers of a row that is numbered pay"
    assert found.without(other) is other


@pytest.mark.req("A-30")
def test_all_of_each_passage_goes_and_nothing_else() -> None:
    """Compared with every piece of it at every place."""
    deleted = "".join(f"{n % 7}{'ab' * (n % 3)}{n % 11}" for n in range(400))
    other = "".join(f"{n % 7}{'ab' * (n % 3)}{n % 13}" for n in range(400))
    pieces = {deleted[at : at + 24] for at in range(len(deleted) - 23)}
    starts = [at for at in range(len(other) - 23) if other[at : at + 24] in pieces]
    gone = {place for at in starts for place in range(at, at + 24)}
    spans = [*Quotations(deleted)._passages(other)]
    assert {place for start, end in spans for place in range(start, end)} == gone
    assert 0 < len(gone) < len(other)


@pytest.mark.req("A-30")
def test_what_says_something_else_stays_as_it_is() -> None:
    found = Quotations(LINES)
    for text in ("R&D; a\\b &amp; c", "C:\\new\\table", "&#21271; \\u5317", "\\", "&", ""):
        assert found.without(text) is text


def _spelled(space: str) -> Callable[[str], str]:
    return lambda text: text.replace(" ", space)


SPELLED = [
    *(
        "&#0000000032;",
        "&#32",
        "&#x0000000020;",
        "&#X20;",
        "&nbsp",
        "&nbsp;",
        "&NewLine;",
        "&#038;#32;",
    ),
    *(
        "&amp;#0032;",
        "&ampnbsp",
        "\\u0026#0032;",
        " \u200b",
        "\u2060 ",
        " &shy;",
        " &#173",
        " &ZeroWidthSpace;",
    ),
    *(" \\u200b", " \u200d", " \x07", " \x1b[31m", " \\u001b[0m", "\x9b1m ", " \U000e0041"),
]


@pytest.mark.req("A-30")
@pytest.mark.parametrize("space", SPELLED, ids=ascii)
@pytest.mark.parametrize("text", [GATE, "Mister Wang", LINES], ids=["passages", "short", "lines"])
def test_a_space_that_html_or_a_terminal_reads_is_one(space: str, text: str) -> None:
    """Entities as browsers read them, and signs that nobody sees: not one of them hides a copy."""
    for write in (str, html.escape, _json):
        copy = _spelled(space)(write(text))
        assert Quotations(text).without(f"hits: {copy}; end") == f"hits: {DELETED}; end", copy
        assert Quotations(copy).without(f"hits: {text}; end") == f"hits: {DELETED}; end", copy


REFERENCES: dict[str, Callable[[str], str]] = {
    "decimal": lambda text: "".join(f"&#{ord(letter)};" for letter in text),
    "hexadecimal": lambda text: "".join(f"&#x{ord(letter):x};" for letter in text),
    "ascii": lambda text: text.encode("ascii", "xmlcharrefreplace").decode(),
}


@pytest.mark.req("A-30")
@pytest.mark.parametrize("way", REFERENCES)
def test_a_sign_whose_number_begins_like_that_of_an_ampersand_is_itself(way: str) -> None:
    """38 is an ampersand, 38376 a gate and 381 a Ž; 0x26 is an ampersand, and 0x2602 an umbrella."""
    for text in (
        "门禁密码是七三九一，请勿告诉外人，青阳院除雨雪外都开门。",
        "Žlutý kůň, žába a Łoż: přístupový kód je 7391, żeby ź.",
        "☂☃☎☔☕ the gate code is 7391 ☂☃☎☔☕, do not tell ♠♣♥♦",
        "Smith & Sons, & more & more & 38 & x26 & so on",
    ):
        copy = REFERENCES[way](text)
        assert Quotations(text).without(f"hits: {copy}; end") == f"hits: {DELETED}; end"
        assert Quotations(text).without(f"hits: {copy.replace('&', '&#38;')}; end") == (
            f"hits: {DELETED}; end"
        )
        assert Quotations(text).without(f"hits: {copy.replace('&', '&#x26')}; end") == (
            f"hits: {DELETED}; end"
        )


@pytest.mark.req("A-30")
def test_an_entity_is_read_up_to_its_end_and_no_further() -> None:
    assert Quotations("Zürich AG").without("from Z&uumlrich&nbspAG&copy 2026") == (
        f"from {DELETED}&copy 2026"
    )
    beside = "R&D at &#12345678901; and &#; and &unknown; and AT&T; " + "&" * 50 + "#" + "0" * 5000
    assert Quotations(GATE).without(f"{beside} {GATE}") == f"{beside} {DELETED}"
    assert Quotations(beside).without(f"it says {beside} there") == f"it says {DELETED} there"
