"""How near texts are to a question by the words that they share, where there are too few for an index (D-02)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence


PAGE = 4000
"""Characters of a text that are read; of a longer one its two ends."""


def nearness(
    texts: Mapping[str, str], query: str, terms: Callable[[str], Sequence[str]]
) -> dict[str, float]:
    """By name, the weight of the question's terms in each text: the rarer among the texts, the more."""
    query_terms = frozenset(terms(_page(query)))
    shared = {name: query_terms.intersection(terms(_page(text))) for name, text in texts.items()}
    holding = Counter(term for shared_terms in shared.values() for term in shared_terms)
    weights = {term: math.log1p(len(texts) / count) for term, count in holding.items()}
    return {
        name: math.fsum(weights[term] for term in shared_terms)
        for name, shared_terms in shared.items()
    }


def _page(text: str) -> str:
    return text if len(text) <= PAGE else f"{text[: PAGE // 2]} {text[-PAGE // 2 :]}"
