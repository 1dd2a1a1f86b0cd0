"""The beginning of a text, in the place of all of it."""

from __future__ import annotations

import re


_LEFT_OUT = {"en": "[… {chars} characters left out]", "zh": "[… 略去 {chars} 个字符]"}
_END = re.compile(r"[\n。！？；]|[.!?](?=\s)")


def cut(text: str, most: int, locale: str) -> str:
    """The beginning of a text, to the end of a sentence or a line, and what is left out; `most` characters."""
    if len(text) <= most:
        return text
    form = _LEFT_OUT[locale]
    room = most - len(form.format(chars=len(text))) - 1
    if room <= 0:
        return text[: max(0, most)]
    ends = [match.end() for match in _END.finditer(text[: room + 1]) if match.end() <= room]
    head = text[: ends[-1] if ends and ends[-1] > room // 2 else room]
    return f"{head.rstrip()}\n{form.format(chars=len(text) - len(head))}"
