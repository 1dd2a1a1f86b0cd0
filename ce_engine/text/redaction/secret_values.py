"""Whether what stands under the name of a secret is one, rather than words, a number with its unit, code or a place."""

from __future__ import annotations

import re

from ce_engine.text.redaction.patterns import DIGITS, has_any, looks_random, password_value, words


_LEAST = 6
"""Signs of a secret, at least: the pieces of words that models read have digits or letters, and are shorter."""
_LEAST_OF_PARTS = 8
"""The same without digits, or with `-` and the like in it, where chance and names look alike."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ]|\Z)")
_PLACE = re.compile(
    r"[.~]?/(?:[a-z]+|[A-Z][a-z]+)[0-9]{0,3}(?:/|\Z)|[./~]{1,2}/|[a-z][a-z0-9+.\-]{1,15}://|[A-Za-z]:\\"
)
"""The beginning of a path or a URL."""
_CODE = re.compile(r"[<>{}]|\$\(|\w[(\[]|%[sd](?![0-9A-Za-z])")
_TECHNICAL = re.compile(
    r"(?i:sha|md|base|utf|aes|rsa|hmac|pbkdf|argon|bcrypt|https?|oauth|ipv)[0-9]{1,5}(?:[a-z]{2,12})?\Z|(?i:x|ed)25519\Z"
)
"""What names a method."""
_MEASURE = re.compile(r"[0-9]{1,4}[a-z]+\Z")
"""A number with its unit."""
_JOINT = re.compile(r"[_\-./:@#]")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SIGN_BETWEEN = re.compile(r"[A-Za-z][!$%^&*?~+][A-Za-z]")
_PAIRS = frozenset(
    letters[0] + second
    for letters in words(
        "abcdfgiklmnprstuvy baeilorsu cacehiklmorstuy dadegilorsu eabcdefgilmnpqrstvwxy faefilortuy "
        "gaceghilnorsu haeiortuy iabcdefglmnoprstvxz jaeou kaeis ladeilostuy mabeilmopsu nacdefgiklnostuvy "
        "oabcdfgiklmnoprstuvwy pacehiloprstuy qu racdefgiklmnoprstuvy sacefhiklmnopstuwy tacehilmoprstuwyt "
        "uabcdegilmnprst vaeio waehinors xaceipt yeimnpst zaez"
    )
    for second in letters[1:]
)
"""Two letters that often stand beside each other in words and names of code: these are 97 of 100 there, and 43 by chance."""


def looks_secret(text: str) -> bool:
    """Say whether a text without spaces is a secret of any form."""
    if len(text) < _LEAST or not text.isascii() or not password_value(text, explicit=True):
        return False
    if _PLACE.match(text) or _CODE.search(text) or _DATE.match(text):
        return False
    if text.isdigit():
        return True
    if not has_any(text, DIGITS) or _JOINT.search(text):
        by_chance = _letters_by_chance(text) or _SIGN_BETWEEN.search(text) is not None
        by_chance = by_chance or (has_any(text, DIGITS) and looks_random(text))
        return len(text) >= _LEAST_OF_PARTS and _HUMP.search(text) is not None and by_chance
    if _TECHNICAL.match(text) or (_MEASURE.match(text) and not _letters_by_chance(text)):
        return False
    return _HUMP.search(text) is not None


def _letters_by_chance(text: str) -> bool:
    """Say whether letters change their case, or stand beside each other, as they do in no words: `VonUgcPRZFFnlh`.

    Names that are joined by their case have to be the likelier words, since few stand where this is asked.
    """
    humps = _HUMP.findall(text)
    odd = sum(map(_odd, humps))
    letters = sum(map(len, humps))
    if len(humps) == 1:
        return 3 * odd > letters
    return 5 * odd >= letters or (len(humps) > 2 and 7 * len(humps) > 2 * letters)


def _odd(hump: str) -> int:
    """Count the places of a word where it reads like none."""
    if len(hump) == 1:
        return 1
    return sum(hump[at : at + 2].lower() not in _PAIRS for at in range(len(hump) - 1))
