"""Check digits and numbering plans: what tells a card, an identity number or an IBAN from any number.

Everything here takes plain ASCII digits (and letters) without separators and answers yes or no.
"""

from __future__ import annotations

from datetime import date


_LUHN_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)

_CARD_PREFIXES: tuple[tuple[int, int, frozenset[int]], ...] = (
    # first prefix, last prefix, lengths in digits
    (4, 4, frozenset({13, 16, 19})),  # Visa
    (51, 55, frozenset({16})),  # Mastercard
    (2221, 2720, frozenset({16})),  # Mastercard
    (34, 34, frozenset({15})),  # American Express
    (37, 37, frozenset({15})),  # American Express
    (62, 62, frozenset(range(16, 20))),  # UnionPay
    (81, 81, frozenset(range(16, 20))),  # UnionPay
    (6011, 6011, frozenset({16, 19})),  # Discover
    (644, 659, frozenset({16, 19})),  # Discover
    (3528, 3589, frozenset({16, 19})),  # JCB
    (300, 305, frozenset({14})),  # Diners Club
    (36, 36, frozenset({14, 16})),  # Diners Club
    (38, 39, frozenset({14, 16})),  # Diners Club
    (9558, 9558, frozenset({16, 19})),  # ICBC, before UnionPay numbers
)

_ID_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_ID_CHECKS = "10X98765432"
_PROVINCES = frozenset(
    map(str, (*range(11, 16), *range(21, 24), *range(31, 38), *range(41, 47), *range(50, 55)))
) | frozenset(map(str, (*range(61, 66), 71, 81, 82, 83, 91)))

IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22,
    "BI": 27, "BR": 29, "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27,
    "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27,
    "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22,
    "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32,
    "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19,
    "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24,
    "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24, "SC": 31,
    "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25, "SV": 28, "TL": 23,
    "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}  # fmt: skip
"""Country -> length of its IBAN in characters, check digits included."""


def luhn(digits: str) -> bool:
    """Say whether the last digit is the Luhn check digit of those before it."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = ord(digit) - 48
        total += _LUHN_DOUBLED[value] if place % 2 else value
    return total % 10 == 0


def bank_card(digits: str) -> bool:
    """Say whether a network that issues cards has this prefix at this length, and Luhn holds."""
    is_issued = any(
        len(digits) in lengths and first <= int(digits[: len(str(first))]) <= last
        for first, last, lengths in _CARD_PREFIXES
    )
    return is_issued and luhn(digits)


def chinese_identity(number: str) -> bool:
    """Say whether the region, the birth date and the check character of 18 characters are right."""
    if len(number) != 18 or not chinese_identity_shape(number):
        return False
    total = sum(int(digit) * weight for digit, weight in zip(number, _ID_WEIGHTS, strict=False))
    return _ID_CHECKS[total % 11] == number[17].upper()


def chinese_identity_shape(number: str) -> bool:
    """Say whether region and birth date are possible: of 18 characters, or of the 15 used to 1999."""
    if number[:2] not in _PROVINCES:
        return False
    born = number[6:14] if len(number) == 18 else f"19{number[6:12]}"
    if not "1880" <= born[:4] <= "2099":
        return False
    return calendar_date(born)


def calendar_date(digits: str) -> bool:
    """Say whether `YYYYMMDD` is a day that exists."""
    try:
        date(int(digits[:4]), int(digits[4:6]), int(digits[6:8]))
    except ValueError:
        return False
    return True


def us_social_security(digits: str) -> bool:
    """Say whether nine digits can be a US social security number: area, group and serial are issued."""
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    return area not in {"000", "666"} and area < "900" and group != "00" and serial != "0000"


def iban(text: str) -> bool:
    """Say whether the length is the country's and the remainder by 97 is 1 (ISO 13616)."""
    if IBAN_LENGTHS.get(text[:2]) != len(text):
        return False
    return int("".join(str(int(letter, 36)) for letter in text[4:] + text[:4])) % 97 == 1
