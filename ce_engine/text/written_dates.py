"""Dates as people and programs write them, in one form: `2026-06-05`, `5 June 2026` and `2026年6月5日` are the same."""

from __future__ import annotations

import re
from collections.abc import Iterator


NO_YEAR = "0000-"
"""How a date begins that is told without its year."""

FULL_DATE = re.compile(r"(?!0000)\d{4}-(?P<day>\d\d-\d\d)")

_NAMES = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_NAME = (
    r"(?P<name{n}>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?P<{n}>\d{{1,2}})(?:st|nd|rd|th)?"
_DATE = re.compile(
    r"(?<![\d.,:/-])(?:"
    r"(?P<y1>\d{4})(?P<mark>[-/.])(?P<m1>\d{1,2})(?P=mark)(?P<d1>\d{1,2})(?![\d/-]|\.\d)"
    r"|(?P<d2>\d{1,2})\.(?P<m2>\d{1,2})\.(?P<y2>\d{4})(?![\d/-]|\.\d)"
    r"|(?:(?P<y3>\d{4}) ?[年년] ?)?(?P<m3>\d{1,2}) ?[月월] ?(?P<d3>\d{1,2}) ?[日号號일]"
    rf"|{_DAY.format(n='d4')} (?:of )?{_NAME.format(n=4)}(?:,? (?P<y4>\d{{4}})(?!\d))?"
    rf"|{_NAME.format(n=5)} {_DAY.format(n='d5')}(?![\d.:])(?:,? (?P<y5>\d{{4}})(?!\d))?"
    r")"
)


def dated(plain: str) -> str:
    """A text in small letters, its dates in one form; one without a year begins with `NO_YEAR`."""
    return _DATE.sub(_one_form, plain)


def dated_places(plain: str) -> Iterator[tuple[int, int, str]]:
    """Where dates stand in a text in small letters, from and to, and their one form."""
    for match in _DATE.finditer(plain):
        if (form := _one_form(match)) != match[0]:
            yield *match.span(), form.strip()


def _one_form(match: re.Match[str]) -> str:
    parts = {name: value for name, value in match.groupdict().items() if value is not None}
    number = next(name[1:] for name in parts if name[0] == "d")
    day, year = int(parts[f"d{number}"]), parts.get(f"y{number}", NO_YEAR[:-1])
    name = parts.get(f"name{number}")
    month = _NAMES.index(name[:3]) + 1 if name else int(parts[f"m{number}"])
    if not (0 < month <= 12 and 0 < day <= 31):
        return match[0]
    return f" {year}-{month:02}-{day:02} "


__all__ = ["FULL_DATE", "NO_YEAR", "dated", "dated_places"]
