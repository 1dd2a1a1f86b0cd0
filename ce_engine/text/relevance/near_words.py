"""Words that are used alike, though no dictionary relates them: `accident` and `collision`, `concert` and `stadium`.

`near_words.txt.gz` has a line for each of the most frequent English words: its term, and the words whose GloVe vectors are
nearest to its own, the nearest first. `benchmarks/make_near.py` made it; what it was made from is beside it. No vector and
no model is needed here.
"""

from __future__ import annotations

import gzip
import logging
import zlib
from functools import cache
from importlib.resources import files

from ce_engine.schema.text_cache import text_cache
from ce_engine.text.relevance.terms import terms


FILE = "near_words.txt.gz"

logger = logging.getLogger("ce_engine.text")


@text_cache(maxsize=1 << 12)
def near(term: str) -> tuple[str, ...]:
    """The terms of words that are used like those of a term, the nearest first; of most there are none."""
    return tuple(dict.fromkeys(terms(_table().get(term, ""))))


@cache
def _table() -> dict[str, str]:
    """What is near, by term: read once, by the first search of a process. Without the file nothing is near."""
    try:
        packed = files("ce_engine.text.relevance").joinpath(FILE).read_bytes()
        lines = gzip.decompress(packed).decode("ascii").splitlines()
        return dict(line.split(" ", 1) for line in lines)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        logger.warning(
            "%s cannot be read (%s): what is brought back is found without it", FILE, error
        )
        return {}
