"""Words that mean the like: what a question calls by another name than its answer does.

A question about a wedding is answered by a sentence on a husband, one about sports by one on tennis. For
English, synonyms, opposites, kinds and parts come from WordNet (`related_words.txt.gz`, made by
`benchmarks/make_related.py`; its license is beside it). `related_groups.txt` has words of ours: those before
a colon and those after it are each other's; without one, all of a line. Chinese ones are pairs of characters, as
texts are read in: of a longer word its first pair.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from ce_engine.schema.text_cache import text_cache
from ce_engine.text.relevance.terms import IRREGULAR, terms


ENDINGS = (
    ("s", ""),
    ("es", ""),
    ("ies", "y"),
    ("ed", ""),
    ("ed", "e"),
    ("ing", ""),
    ("ing", "e"),
    ("ied", "y"),
)
"""English endings, and what stands there in the form that a dictionary has."""


@text_cache(maxsize=1 << 12)
def related(word: str) -> frozenset[str]:
    """The terms of words that mean the like of a token of a question; of most there are none."""
    if not terms(word):
        return frozenset()
    table = _table()
    dictionary_form = next((form for form in _forms(word) if form in table), None)
    if dictionary_form is None:
        return frozenset()
    # A single character of a word means too much else.
    return frozenset(term for term in terms(table[dictionary_form]) if len(term) > 1)


def _forms(word: str) -> Iterator[str]:
    """A word as it may stand in a dictionary."""
    yield word
    if not word.isascii():
        return
    if base := IRREGULAR.get(word):
        yield base
    for ending, instead in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) + len(instead) > 2:
            yield word[: -len(ending)] + instead
    base = word.removesuffix("ing").removesuffix("ed")
    if base != word and len(base) > 3 and base[-1] == base[-2]:
        yield base[:-1]


@cache
def _table() -> dict[str, str]:
    """What is related, by word: read once, by the first search of a process."""
    here = files("ce_engine.text.relevance")
    lines = (
        gzip.decompress(here.joinpath("related_words.txt.gz").read_bytes()).decode().splitlines()
    )
    table: dict[str, str] = dict(line.split(" ", 1) for line in lines)
    for line in here.joinpath("related_groups.txt").read_text("utf-8").splitlines():
        names, _, kinds = line.partition(" : ")
        for word, others in ((names, kinds), (kinds, names)) if kinds else ((names, names),):
            for key in word.split():
                table[key] = f"{table.get(key, '')} {others}".replace(f" {key} ", " ")
    return table
