"""Identity and tax numbers of many countries: behind their label, or by a form that nothing else has.

Check digits are those that the countries publish. What has none, or one letter for a check, needs its
label. China's and the USA's are in `numbers` and `labelled`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ce_engine.text.redaction import checksums
from ce_engine.text.redaction.patterns import Shape


_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"  # of Spain's check
_ODD_DIGITS = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21)
_ODD = dict(
    zip(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (*_ODD_DIGITS, *_ODD_DIGITS, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        strict=True,
    )
)
_VERHOEFF = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip
_VERHOEFF_TURNS = (
    "0123456789", "1576283094", "5803796142", "8916043527",
    "9453126870", "4286573901", "2793806415", "7046913258",
)  # fmt: skip


def _sum(digits: str, weights: Sequence[int]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def _month_and_day(digits: str) -> bool:
    return 1 <= int(digits[:2]) <= 12 and 1 <= int(digits[2:4]) <= 31


def _spain(text: str) -> bool:
    number = str("XYZ".find(text[0])) + text[1:] if text[0] in "XYZ" else text
    return number[:-1].isdigit() and _LETTERS[int(number[:-1]) % 23] == number[-1]


def _italy(text: str) -> bool:
    total = sum(
        _ODD[sign] if at % 2 == 0 else int(sign) if sign.isdigit() else ord(sign) - 65
        for at, sign in enumerate(text[:15])
    )
    return chr(65 + total % 26) == text[15]


def _france(text: str) -> bool:
    digits = text.replace("2A", "19").replace("2B", "18")
    return digits.isdigit() and 97 - int(digits[:13]) % 97 == int(digits[13:])


def _germany(text: str) -> bool:
    """The tax number of a person (ISO 7064, mod 11, 10)."""
    product = 10
    for digit in text[:10]:
        total = (int(digit) + product) % 10 or 10
        product = total * 2 % 11
    return text[0] != "0" and (11 - product) % 10 == int(text[10])


def _brazil(text: str) -> bool:
    if len(set(text)) == 1:
        return False
    first = -_sum(text, range(10, 1, -1)) % 11 % 10
    second = -_sum(text, range(11, 1, -1)) % 11 % 10
    return text[9:] == f"{first}{second}"


def _india(text: str) -> bool:
    check = "0"
    for place, digit in enumerate(reversed(text)):
        check = _VERHOEFF[int(check)][int(_VERHOEFF_TURNS[place % 8][int(digit)])]
    return text[0] > "1" and check == "0"


def _korea(text: str) -> bool:
    """The day alone: numbers given since October 2020 have no check digit."""
    return _month_and_day(text[2:6]) and text[6] in "12345678"


def _korea_checked(text: str) -> bool:
    check = (11 - _sum(text, (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)) % 11) % 10
    return _korea(text) and check == int(text[12])


def _japan(text: str) -> bool:
    rest = _sum(text, (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    return int(text[11]) == (0 if rest < 2 else 11 - rest)


def _taiwan(text: str) -> bool:
    letter = "ABCDEFGHJKLMNPQRSTUVXYWZIO".index(text[0]) + 10
    total = letter // 10 + letter % 10 * 9 + _sum(text[1:9], range(8, 0, -1)) + int(text[9])
    return total % 10 == 0


def _hong_kong(text: str) -> bool:
    letters, digits, check = text[:-7].rjust(2), text[-7:-1], text[-1]
    values = [36 if sign == " " else ord(sign) - 55 for sign in letters] + [int(d) for d in digits]
    total = sum(value * weight for value, weight in zip(values, range(9, 1, -1), strict=True))
    return (total + (10 if check == "A" else int(check, 36))) % 11 == 0


def _singapore(text: str) -> bool:
    total = _sum(text[1:8], (2, 7, 6, 5, 4, 3, 2)) + {"T": 4, "G": 4, "M": 3}.get(text[0], 0)
    if text[0] == "M":
        return "KLJNPQRTUWX"[10 - total % 11] == text[8]
    return ("JZIHGFEDCBA" if text[0] in "ST" else "XWUTRQPNMLK")[total % 11] == text[8]


def _poland(text: str) -> bool:
    return -_sum(text, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3)) % 10 == int(text[10])


def _netherlands(text: str) -> bool:
    return len(set(text)) > 1 and _sum(text, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def _belgium(text: str) -> bool:
    head, check = text[:9], int(text[9:])
    return check in (97 - int(head) % 97, 97 - int(f"2{head}") % 97)


def _finland(text: str) -> bool:
    number = int(text[:6] + text[7:10])
    right = "0123456789ABCDEFHJKLMNPRSTUVWXY"[number % 31] == text[10]
    return right and _month_and_day(text[2:4] + text[:2])


def _sweden(text: str) -> bool:
    return checksums.luhn(text[-10:]) and 1 <= int(text[-8:-6]) <= 12


def _norway(text: str) -> bool:
    first = -_sum(text, (3, 7, 6, 1, 8, 9, 4, 5, 2)) % 11
    second = -_sum(text, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    return text[9:] == f"{first}{second}"


def _denmark(text: str) -> bool:
    return _month_and_day(text[2:4] + text[:2])


def _switzerland(text: str) -> bool:
    return text[:3] == "756" and -_sum(text, (1, 3) * 6) % 10 == int(text[12])


def _turkey(text: str) -> bool:
    odd, even = sum(map(int, text[0:9:2])), sum(map(int, text[1:8:2]))
    return (
        text[0] != "0"
        and (odd * 7 - even) % 10 == int(text[9])
        and sum(map(int, text[:10])) % 10 == int(text[10])
    )


def _thailand(text: str) -> bool:
    return (11 - _sum(text, range(13, 1, -1)) % 11) % 10 == int(text[12])


def _chile(text: str) -> bool:
    rest = -_sum(text[-2::-1], (2, 3, 4, 5, 6, 7, 2, 3)) % 11
    return text[-1] == ("K" if rest == 10 else str(rest))


def _russia(text: str) -> bool:
    return _sum(text, range(9, 0, -1)) % 101 % 100 == int(text[9:])


def _mexico(text: str) -> bool:
    signs = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"
    total = sum(
        signs.index(sign) * weight for sign, weight in zip(text, range(18, 1, -1), strict=False)
    )
    return str(-total % 10) == text[17]


def _health_of_britain(text: str) -> bool:
    check = 11 - _sum(text, range(10, 1, -1)) % 11
    return check % 11 == int(text[9]) if check != 10 else False


def _australia(text: str) -> bool:
    return _sum(text, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0


class Scheme(NamedTuple):
    """A country's number: the words that label it, its form in upper case without separators, its check."""

    rule: str
    words: str
    form: re.Pattern[str]
    check: Callable[[str], bool]


def _scheme(name: str, words: str, form: str, check: Callable[[str], bool] = bool) -> Scheme:
    return Scheme(f"national_id_{name}", words, re.compile(form, re.ASCII), check)


SCHEMES = (
    _scheme("es", "dni|nie|nif", r"[0-9XYZ]\d{7}[A-Z]", _spain),
    _scheme("it", "codice fiscale|codicefiscale", r"[A-Z]{6}\d{2}[A-Z]\d{2}[A-Z]\d{3}[A-Z]", _italy),
    _scheme(
        "fr", "sécurité sociale|securite sociale|nir|insee|numéro de sécu",
        r"[12]\d{4}(?:\d{2}|2[AB])\d{8}", _france,
    ),
    _scheme(
        "de", "steuer-id|steuer id|steueridentifikationsnummer|steuerliche identifikationsnummer|idnr",
        r"\d{11}", _germany,
    ),
    _scheme(
        "de_pension", "sozialversicherungsnummer|rentenversicherungsnummer|sv-nummer|rvnr",
        r"\d{8}[A-Z]\d{3}",
    ),
    _scheme("br", "cpf", r"\d{11}", _brazil),
    _scheme("in", "aadhaar|aadhar|uidai|आधार", r"\d{12}", _india),
    _scheme("in_tax", "pan", r"[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z]"),
    _scheme("kr", "주민등록번호|주민번호|rrn|resident registration", r"\d{13}", _korea),
    _scheme("jp", "マイナンバー|個人番号|my number|mynumber", r"\d{12}", _japan),
    _scheme(
        "tw", "身份證|身分證|身份证|身分证|統一編號|统一编号|national id|id number|taiwan id",
        r"[A-Z][1289]\d{8}", _taiwan,
    ),
    _scheme("hk", "身份證|身份证|hkid|hk id|id card", r"[A-Z]{1,2}\d{6}[0-9A]", _hong_kong),
    _scheme("sg", "nric|fin|identity card", r"[STFGM]\d{7}[A-Z]", _singapore),
    _scheme("gb", "national insurance|nino|ni number|ni no", r"[A-CEGHJ-PR-TW-Z][A-Z]\d{6}[A-D]"),
    _scheme("gb_health", "nhs", r"\d{10}", _health_of_britain),
    _scheme("pl", "pesel", r"\d{11}", _poland),
    _scheme("nl", "bsn|burgerservicenummer|sofinummer", r"\d{9}", _netherlands),
    _scheme(
        "be", "rijksregister|registre national|numéro national|insz|niss", r"\d{11}", _belgium
    ),
    _scheme("se", "personnummer|samordningsnummer", r"(?:\d{2})?\d{10}", _sweden),
    _scheme("no", "fødselsnummer|fodselsnummer|personnummer", r"\d{11}", _norway),
    _scheme("dk", "cpr|personnummer", r"\d{10}", _denmark),
    _scheme("ch", "ahv|avs|svnr", r"\d{13}", _switzerland),
    _scheme("tr", "kimlik|tckn", r"\d{11}", _turkey),
    _scheme("th", "บัตรประชาชน|thai id|citizen id", r"\d{13}", _thailand),
    _scheme("cl", "rut|rol único", r"\d{7,8}[0-9K]", _chile),
    _scheme("ru", "снилс|snils", r"\d{11}", _russia),
    _scheme("ca", "social insurance|sin", r"\d{9}", checksums.luhn),
    _scheme("au", "tfn|tax file", r"\d{9}", _australia),
    _scheme("za", "south african id|sa id|rsa id", r"\d{13}", checksums.luhn),
    _scheme(
        "passport",
        "passport|护照|護照|reisepass|passeport|pasaporte|passaporto|passaporte|паспорт|パスポート|여권",
        r"(?=(?:\D*\d){5})[A-Z0-9]{7,9}",
    ),
    _scheme(
        "driver", "driver's license|drivers license|driver license|driving licence|driving license|"
        "driver's licence|führerschein|permis de conduire|驾驶证|驾照",
        r"(?=(?:\D*\d){5})[A-Z0-9]{7,18}",
    ),
)  # fmt: skip
"""Numbers that are taken for one behind their label, in any grouping."""

_FORMS: tuple[tuple[str, str, str, Callable[[str], bool]], ...] = (
    # rule, literal that occurs, form, check of the signs without separators
    ("it", "", r"[A-Z]{6}[0-9]{2}[A-EHLMPRST][0-9]{2}[A-Z][0-9]{3}[A-Z]", _italy),
    ("mx", "", r"[A-Z]{4}[0-9]{6}[HMX][A-Z]{5}[A-Z0-9][0-9]", _mexico),
    ("fr", " ", r"[12] [0-9]{2} [0-9]{2} [0-9][0-9AB] [0-9]{3} [0-9]{3} [0-9]{2}", _france),
    ("br", "-", r"[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}", _brazil),
    ("be", "-", r"[0-9]{2}\.[0-9]{2}\.[0-9]{2}-[0-9]{3}\.[0-9]{2}", _belgium),
    ("ch", "756.", r"756\.[0-9]{4}\.[0-9]{4}\.[0-9]{2}", _switzerland),
    ("kr", "-", r"[0-9]{6}-[1-8][0-9]{6}", _korea_checked),
    ("th", "-", r"[0-9]-[0-9]{4}-[0-9]{5}-[0-9]{2}-[0-9]", _thailand),
    ("cl", "-", r"[0-9]{1,2}\.[0-9]{3}\.[0-9]{3}-[0-9Kk]", _chile),
    ("ru", "-", r"[0-9]{3}-[0-9]{3}-[0-9]{3} [0-9]{2}", _russia),
    ("hk", "(", r"[A-Z]{1,2}[0-9]{6}\([0-9A]\)", _hong_kong),
    ("fi", "", r"[0-3][0-9][01][0-9]{3}[-+A-FU-Y][0-9]{3}[0-9A-FHJ-NPR-Y]", _finland),
    ("gb", " ", r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] [0-9]{2} [0-9]{2} [0-9]{2} [A-D]", bool),
)
_SIGNS = re.compile(r"[ .\-()]")


def without_signs(text: str) -> str:
    """Return a number in upper case, without what groups it."""
    return _SIGNS.sub("", text).upper()


def _form(rule: str, needs: str, form: str, check: Callable[[str], bool]) -> Shape:
    first, _, rest = form.partition("]") if form[0] == "[" else (form[0], "", form[1:])
    first += "]" if form[0] == "[" else ""
    if rest[:1] == "{":  # the first sign alone, so that a search looks for it before all else
        least, _, rest = rest[1:].partition("}")
        low, _, high = least.partition(",")
        counts = f"{int(low) - 1},{int(high) - 1}" if high else f"{int(low) - 1}"
        rest = f"{first}{{{counts}}}{rest}"
    pattern = rf"({first}(?<![\w\-./].){rest})(?![\w]|[\-./][0-9A-Za-z])"
    plain = (lambda text: text.upper()) if rule == "fi" else without_signs
    return Shape(
        f"national_id_{rule}",
        "NATIONAL_ID",
        needs,
        re.compile(pattern, re.ASCII),
        lambda text: check(plain(text)),
    )


FORMS = tuple(_form(*row) for row in _FORMS)
"""Numbers that need no label."""
