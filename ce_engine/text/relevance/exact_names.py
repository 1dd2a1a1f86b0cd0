"""What a question names exactly: numbers, ids and codes, which say the same in no other words."""

from __future__ import annotations

import re
from collections.abc import Callable


LEAST_CHARS, MOST_NAMES = 3, 8
"""A shorter number stands anywhere; a question of more names is a list."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._/-]*(?<=[a-z0-9])", re.ASCII)


def exact_names(text: str) -> list[str]:
    """The words of a text that have a digit in them, in lower case, without those that are too short."""
    words = dict.fromkeys(_NAME.findall(text.lower()))
    names = [n for n in words if len(n) >= LEAST_CHARS and any(map(str.isdigit, n))]
    return names if len(names) <= MOST_NAMES else []


def says(name: str) -> Callable[[str], bool]:
    """Whether a text says a name, as a word or as a part of a longer name: `4711` stands in `TCK-4711`.

    No pattern is made of it: Python keeps patterns, also when what was said is deleted.
    """
    name = name.lower()

    def is_said(text: str) -> bool:
        text, at = text.lower(), -1
        while (at := text.find(name, at + 1)) >= 0:
            sides = text[at - 1 : at] + text[at + len(name) : at + len(name) + 1]
            if not any(sign.isascii() and sign.isalnum() for sign in sides):
                return True
        return False

    return is_said
