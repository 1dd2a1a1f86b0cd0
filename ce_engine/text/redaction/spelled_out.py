"""A placeholder that somebody wrote out is stored so that it is none: `[EMAIL_1]` as `[EMAIL_A]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from ce_engine.text.redaction.plain_form import decoded, readable, substitute
from ce_engine.text.unseen import SEQUENCE, SIGNS


ANY = re.compile(r"\[(?P<label>[^\W\d_]\w*)_(?P<number>[0-9]{1,12})\]")
"""A placeholder of whatever label."""

LETTERS = "[A-Z]{1,9}"
"""What stands in place of a number of twelve digits, or less."""

_ROUNDS = 8
"""Disguises in one another that are seen through."""

_BEGINS = ("[", "\\u", "&#")
# What a quote leaves out beside signs without width (`text.quote`), and a store may.
_UNSEEN = re.compile(f"{SEQUENCE}|{SIGNS}")
_DISGUISE = re.compile(rf"\\|&|{SIGNS}")


def lettered(text: str, pattern: re.Pattern[str] = ANY) -> str:
    """A text of others: its placeholders have letters in place of numbers. Doing it again changes nothing.

    `[EMAIL_1]` would else be taken for the session's first address when live values are put in. What
    hides one, signs that nobody sees or escapes of JSON, may be gone by then: it is seen through.
    """
    pieces: list[str] = []
    done = 0
    for start, end, match in _find(text, pattern):
        pieces += (text[done:start], f"[{match['label']}_{_letters(int(match['number']))}]")
        done = end
    return "".join((*pieces, text[done:])) if pieces else text


def spelled_out(text: str, pattern: re.Pattern[str] = ANY) -> list[str]:
    """The placeholders that stand in a text, in disguise too."""
    return [match[0] for _, _, match in _find(text, pattern)]


def each_lettered(value: Any, letter: Callable[[str], str]) -> Any:
    """Plain data with `letter` done to its texts and keys, in place: it is a copy that is to be stored."""
    root = [value]
    todo: list[Any] = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            entries = list(item.items())
            item.clear()
            for key, child in entries:
                name = letter(key) if isinstance(key, str) else key
                while name in item:
                    name = f"{name}'"  # neither entry may be lost
                item[name] = child
        for place, child in item.items() if isinstance(item, dict) else enumerate(item):
            if isinstance(child, str):
                item[place] = letter(child)
            elif isinstance(child, dict | list):
                todo.append(child)
    return root[0]


def _find(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int, re.Match[str]]]:
    """Each placeholder with its place in the text. No number begins with 0."""
    if not any(map(text.__contains__, _BEGINS)):
        return
    spans: dict[tuple[int, int], re.Match[str]] = {}
    for view, origin in _views(text):
        for match in pattern.finditer(view):
            if match["number"][0] != "0":
                spans.setdefault((origin(match.start()), origin(match.end())), match)
    done = 0
    for (start, end), match in sorted(spans.items(), key=lambda item: item[0]):
        if start >= done:
            yield start, end, match
            done = end


def _views(text: str) -> Iterator[tuple[str, Callable[[int], int]]]:
    """The text as it is, with less and less disguise, and what leads from an offset there to the one in `text`.

    Each is looked at: `ESC [ P` is a sequence to a terminal, and the beginning of a placeholder to who restores one.
    """
    steps: list[Callable[[int], int]] = []

    def origin(offset: int) -> int:
        for step in reversed(steps):
            offset = step(offset)
        return offset

    view = text
    yield view, origin
    for _ in range(_ROUNDS):
        if not _DISGUISE.search(view):
            break
        before = view
        for plainer in (_strip_unseen, decoded, readable):
            fresh, back = plainer(view)
            if fresh != view and plainer is readable:
                yield fresh, lambda offset, back=back: origin(back(offset))  # type: ignore[misc]
            elif fresh != view:
                view = fresh
                steps.append(back)
                yield view, origin
        if view == before:
            break


def _strip_unseen(text: str) -> tuple[str, Callable[[int], int]]:
    """As a quote leaves it."""
    return substitute(text, ((*cut.span(), "") for cut in _UNSEEN.finditer(text)))


def _letters(number: int) -> str:
    """1 is `A`, 26 is `Z`, 27 is `AA`."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
