"""What a question quotes, and the texts that say just that."""

from __future__ import annotations

import re
from collections.abc import Sequence


QUOTED = 0.5
"""What a text gains that says word for word all that the question quotes."""

LEAST_BYTES, MOST_CHARS = 4, 200
# A mark that opens ends what another one opened: else each of a row of them would look for its end behind all others.
_QUOTE = re.compile(
    r"\"([^\"\n]*+)\"|“([^“”\n]*+)”|`([^`\n]*+)`|「([^「」\n]*+)」|『([^『』\n]*+)』|《([^《》\n]*+)》"
)


def quotes(query: str) -> list[str]:
    """The texts that stand between quotation marks, in lower case, without those that are too short or too long."""
    texts = (text.strip() for groups in _QUOTE.findall(query) for text in groups if text)
    return [
        t.lower()
        for t in texts
        if len(t.encode(errors="replace")) >= LEAST_BYTES and len(t) <= MOST_CHARS
    ]


def gain(quoted: Sequence[str], text: str) -> float:
    """What a text gains by what it has of them."""
    text = text.lower() if quoted else ""
    return QUOTED * sum(phrase in text for phrase in quoted) / max(1, len(quoted))
