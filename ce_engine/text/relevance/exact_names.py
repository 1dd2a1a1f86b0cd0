"""What a question names exactly: numbers, ids and codes, which say the same in no other words."""

from __future__ import annotations

import re
from collections.abc import Callable


LEAST_CHARS, MOST_NAMES = 3, 8
"""A shorter number stands anywhere; a question of more names is a list."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._/-]*(?<=[a-z0-9])", re.ASCII)


def exact_names(text: str) -> list[str]:
    """The words of a text that have a digit in them, in lower case, without those that are too short."""
    found = dict.fromkeys(_NAME.findall(text.lower()))
    names = [n for n in found if len(n) >= LEAST_CHARS and any(map(str.isdigit, n))]
    return names if len(names) <= MOST_NAMES else []


def says(name: str) -> Callable[[str], bool]:
    """Whether a text says a name, as a word or as a part of a longer name: `4711` stands in `TCK-4711`."""
    search = re.compile(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", re.IGNORECASE | re.ASCII)
    return lambda text: search.search(text) is not None
