"""Times as texts: ISO 8601, in UTC, with milliseconds where we write them."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse_time(text: object) -> datetime | None:
    """A time of ISO 8601 that begins with a date; without a zone it is UTC. `None` for what is none.

    So is one before the first year or after the last of UTC.
    Python takes all digits with one sign between them for a time, the number of an identity card, too.
    """
    if not _DATE.match(str(text)):
        return None
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(str(text))
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC)
        moment.astimezone(UTC)
        return moment
    return None


def iso(at: datetime) -> str:
    """A time as it is stored: `2026-01-31T12:00:00.000Z`."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
