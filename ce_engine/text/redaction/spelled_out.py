"""A placeholder that somebody wrote out is stored so that it is none: `[EMAIL_1]` as `[EMAIL_A]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from ce_engine.text.redaction.plain_form import readable, substitute


ANY = re.compile(r"\[(?P<label>[^\W\d_]\w*)_(?P<number>[0-9]{1,12})\]")
"""A placeholder of whatever label."""

LETTERS = "[A-Z]{1,9}"
"""What stands in place of a number of twelve digits, or less."""

_ROUNDS = 8
"""Disguises in one another that are seen through."""

_BEGINS = ("[", "\\u", "&#")
# What a quote leaves out beside signs without width (`text.quote`), and a store may.
_UNSEEN = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ufff0-\ufffb]"
)
_DISGUISE = re.compile(
    r"\\u|&#|[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def lettered(text: str, pattern: re.Pattern[str] = ANY) -> str:
    """A text of others: its placeholders have letters in place of numbers. Doing it again changes nothing.

    `[EMAIL_1]` would else be taken for the session's first address when live values are put in. What
    hides one, signs that nobody sees or escapes of JSON, may be gone by then: it is seen through.
    """
    pieces: list[str] = []
    done = 0
    for start, end, found in _found(text, pattern):
        pieces += (text[done:start], f"[{found['label']}_{_letters(int(found['number']))}]")
        done = end
    return "".join((*pieces, text[done:])) if pieces else text


def spelled_out(text: str, pattern: re.Pattern[str] = ANY) -> list[str]:
    """The placeholders that stand in a text, in disguise too."""
    return [found[0] for _, _, found in _found(text, pattern)]


def each_lettered(value: Any, letter: Callable[[str], str]) -> Any:
    """Plain data with `letter` done to its texts and keys, in place: it is a copy that is to be stored."""
    root = [value]
    todo: list[Any] = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            told = list(item.items())
            item.clear()
            for key, each in told:
                name = letter(key) if isinstance(key, str) else key
                while name in item:
                    name = f"{name}'"  # neither entry may be lost
                item[name] = each
        for place, each in item.items() if isinstance(item, dict) else enumerate(item):
            if isinstance(each, str):
                item[place] = letter(each)
            elif isinstance(each, dict | list):
                todo.append(each)
    return root[0]


def _found(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int, re.Match[str]]]:
    """Each placeholder with its place in the text. No number begins with 0."""
    if not any(map(text.__contains__, _BEGINS)):
        return
    view, origin = _seen_through(text)
    for found in pattern.finditer(view):
        if found["number"][0] != "0":
            yield origin(found.start()), origin(found.end()), found


def _seen_through(text: str) -> tuple[str, Callable[[int], int]]:
    """The text without disguise, and what leads from an offset in it to the one in `text`."""
    view, steps = text, list[Callable[[int], int]]()
    for _ in range(_ROUNDS):
        if not _DISGUISE.search(view):
            break
        seen, back = substitute(view, ((*cut.span(), "") for cut in _UNSEEN.finditer(view)))
        fresh, further = readable(seen)
        if fresh == view:
            break
        view = fresh
        steps += (back, further)

    def origin(offset: int) -> int:
        for step in reversed(steps):
            offset = step(offset)
        return offset

    return view, origin


def _letters(number: int) -> str:
    """1 is `A`, 26 is `Z`, 27 is `AA`."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
