"""Times as a user of the command writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from ce_engine.errors import ConfigError
from ce_engine.schema.times import iso, parse_time


_AGO = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def time_of(text: str) -> str:
    """A time as stored ones are written, UTC; `""` of nothing.

    Args:
        text: a date, a time, or how long ago: `24h`.

    Raises:
        ConfigError: it is none.
    """
    if not text:
        return ""
    try:
        if ago := _AGO.fullmatch(text.removesuffix(" ago")):
            return iso(datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])}))
        if (then := parse_time(text)) is not None:
            return iso(then)
    except OverflowError:  # before the first year, or after the last
        pass
    raise ConfigError(
        f"{text!r} is no time. Write 2026-11-23, 2026-11-23T14:30Z, or 90m, 24h, 7d (ago)."
    )
