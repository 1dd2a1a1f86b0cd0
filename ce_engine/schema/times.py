"""Times as texts: ISO 8601, in UTC, with milliseconds where we write them."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse_time(text: object) -> datetime | None:
    """A time of ISO 8601 that begins with a date; without a zone it is UTC. `None` for what is none.

    Python takes all digits with one sign between them for a time, the number of an identity card, too.
    """
    if not _DATE.match(str(text)):
        return None
    with suppress(ValueError, OverflowError):
        found = datetime.fromisoformat(str(text))
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        found.astimezone(UTC)  # which the first and the last day of all may have not
        return found
    return None


def iso(at: datetime) -> str:
    """A time as it is stored: `2026-01-31T12:00:00.000Z`."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
