"""The estimator for machines without a vocabulary: an upper bound by kinds of characters (A-08).

Outside ASCII a character pays for itself, by its number of tokens in cl100k_base or o200k_base,
whichever is more. ASCII pays by two tables: one has a price for each pair of neighbours, the other
for what four neighbours look like, so that `the ration` is cheap and `xq7Zk` is not. The prices are
the solution of a linear program: as little as possible on English and Chinese prose, code and JSON,
under the constraint of being 6 % above the true count on 42,000 texts of 250 kinds (100 languages,
code, logs, identifiers, random letters, ...). Prices are averages over neighbours, so a text of few
words again and again could be priced below its count: a word never costs less than its floor.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from ce_engine.schema.text_cache import text_cache
from ce_engine.schema.time_limits import breathe
from ce_engine.text.tokens.char_prices import (
    ACCENTED,
    BEFORE,
    KINDS,
    ONE_EACH,
    ONE_EACH_LETTERS,
    PAIR_CLASSES,
    PAIR_PRICES,
    QUAD_PRICES,
    TWO_EACH_BLOCKS,
    UNITS,
    WIDE,
)
from ce_engine.text.tokens.framing import FramedEstimator


_PIECE_CHARS = 512
_LONG_PIECE_CHARS = 65_536


class CharBasedEstimator(FramedEstimator):
    """Counts by kinds of characters, calibrated against cl100k_base and o200k_base.

    An upper bound for texts of all languages, code, JSON, hex, base64, emoji and random characters;
    on prose of 200 characters and more in English or Chinese at most 1.6 times the true count.
    """

    @property
    def name(self) -> str:
        return "characters"

    def exact_for(self, model_hint: str | None = None) -> bool:
        """Never: characters are no tokens."""
        del model_hint
        return False

    def describe(self, model_hint: str | None = None) -> str:
        """What is counted, in words, for reports."""
        del model_hint
        return "characters (upper bound; no vocabulary found)"

    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        del model_hint
        if not text:
            return 0
        return max(self._by_prices(text), _floor(text))

    def _by_prices(self, text: str) -> int:
        if text.isascii():
            data = text.encode("ascii")
            return min(len(data), 1 + _price(data))
        # Lone surrogates become three bytes, as many as what tokenizers put in their place.
        size = len(text.encode("utf-8", "surrogatepass"))
        # Most pieces of most texts are ASCII alone.
        pieces = (text[i : i + _PIECE_CHARS] for i in range(0, len(text), _PIECE_CHARS))
        paid = [_pay_for_wide(piece) for piece in pieces]
        rest = b"".join(data for data, _ in paid)
        return min(size, 1 + sum(tokens for _, tokens in paid) + _price(rest))


_RARE = re.compile(r"[^\x00-\x7f]+")
_SIGN = r"[!-/:-@\[-`{-~]"
# A run of signs is looked at from its beginning alone: else it would take the square of its length.
_WORD = re.compile(rf"[A-Za-z]+|[0-9]{{1,3}}|(?<!{_SIGN}){_SIGN}++(?=\s|$)")


def _floor(text: str) -> int:
    """What words, digits and signs cost at least: every tokenizer here begins a token at each."""
    total, start = 0.0, 0
    while len(text) - start > _LONG_PIECE_CHARS:  # one search of a long text holds up all threads
        breathe()
        end = text.rfind(" ", start, start + _LONG_PIECE_CHARS)
        end = end if end > start else start + _LONG_PIECE_CHARS
        total += sum(map(_word, _WORD.findall(text, start, end)))
        start = end
    return int(total + sum(map(_word, _WORD.findall(text, start))))


@text_cache(maxsize=20_000)
def _word(word: str) -> float:
    """One token, and more for what is longer than most words that are one."""
    return 1.0 + max(0, len(word) - 7) * 0.2


def _price(data: bytes) -> int:
    """Price text of which everything outside ASCII that is known was paid for, in tokens.

    Bytes are combined with their neighbours as the digits of one long number: linear, and without
    a Python loop. Byte n of `pairs` is (group of byte n-1) * 32 + (kind of byte n), byte n of
    `quads` is (class of pair n-2) * 16 + (class of pair n).
    """
    size = len(data)
    kinds = int.from_bytes(data.translate(_KIND_OF), "little")
    before = int.from_bytes(data.translate(_GROUP_OF), "little")
    pairs = (kinds | before << 8 + 5).to_bytes(size + 2, "little")[:size]
    classes = int.from_bytes(pairs.translate(PAIR_CLASSES), "little")
    quads = (classes | classes << 16 + 4).to_bytes(size + 3, "little")[:size]
    return -(-(_PAIR_PRICES.total(pairs) + _QUAD_PRICES.total(quads)) // UNITS)


class _Prices:
    """A price for each value of a byte, and their total over bytes.

    A price of 9 * n + m stands as n bits in one table and m in another: counting bits takes a third
    of the time of `sum`.
    """

    def __init__(self, prices: bytes) -> None:
        self._nines = bytes((1 << price // 9) - 1 for price in prices)
        self._ones = bytes((1 << price % 9) - 1 for price in prices)

    def total(self, codes: bytes) -> int:
        nines = int.from_bytes(codes.translate(self._nines), "little").bit_count()
        ones = int.from_bytes(codes.translate(self._ones), "little").bit_count()
        return 9 * nines + ones


_PAIR_PRICES = _Prices(PAIR_PRICES)
_QUAD_PRICES = _Prices(QUAD_PRICES)


def _by_byte(groups: tuple[str, ...], other: int) -> bytes:
    table = bytearray([other]) * 256
    for number, group in enumerate(groups):
        for char in group:
            table[ord(char)] = number
    return bytes(table)


_KIND_OF = _by_byte(KINDS, other=31)
_GROUP_OF = _by_byte(BEFORE, other=0)


class _Wide(NamedTuple):
    letters: re.Pattern[str]
    one_token: re.Pattern[str]
    two_tokens: re.Pattern[str]


@cache
def _wide() -> _Wide:
    blocks = []
    for span in TWO_EACH_BLOCKS.split():
        first, _, last = span.partition("-")
        blocks.append(f"{chr(int(first, 16) * 64)}-{chr(int(last or first, 16) * 64 + 63)}")
    return _Wide(
        re.compile(f"[{ONE_EACH_LETTERS}]+"),
        re.compile(f"[{re.escape(ONE_EACH)}]+"),
        re.compile(f"[{WIDE}{''.join(blocks)}]+"),
    )


def _pay_for_wide(text: str) -> tuple[bytes, int]:
    """Replace runs of characters outside ASCII by a sign each, and count what they cost.

    A sign is priced as a token by the tables, so each run costs one token less here. Bytes that
    are left outside ASCII are priced as a token each.
    """
    if text.isascii():
        return text.encode("ascii"), 0
    wide = _wide()
    letters = wide.letters.sub(ACCENTED, text)
    ones, signs = wide.one_token.subn(WIDE, letters)
    tokens = len(text) - len(ones)  # one a character, less one a run
    rest, runs = wide.two_tokens.subn(WIDE, ones)
    twos = len(ones) - len(rest) + runs - signs  # the signs that are there were taken along
    tokens += signs + 2 * twos - runs
    data = rest.encode("utf-8", "surrogatepass")
    # What stands beside a rare character is a token of its own, whatever the tables say.
    tokens += len(_RARE.findall(rest))
    # Emoji and mathematical letters are four bytes, of which no vocabulary makes more than three.
    return data, tokens - data.count(b"\xf0\x9f") - data.count(b"\xf0\x9d")
