"""What a PostgreSQL URL says: for SQLAlchemy, and for people, without a password."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ce_engine.errors import StoreUrlError


if TYPE_CHECKING:
    from sqlalchemy.engine import URL


def psycopg_url(url: str) -> URL:
    """The URL with the one driver that we know; what follows `?` goes to libpq, `sslmode` among it.

    Raises:
        StoreUrlError: it is no URL, or names another driver or no database.
    """
    from sqlalchemy.engine import make_url  # noqa: PLC0415 - URLs are looked at without it
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415

    cure = "Write postgresql+psycopg://user:password@host:5432/database?sslmode=verify-full"
    try:
        parsed_url = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreUrlError(f"a postgresql: URL is not understood. {cure}") from None
    if "@" in (parsed_url.host or ""):
        raise StoreUrlError(
            "a postgresql: URL has more '@' than the one before its host: in a user or password write %40 for it, "
            "%2F for '/', %3F for '?' and %23 for '#'"
        )
    if parsed_url.drivername.lower() not in ("postgres", "postgresql", "postgresql+psycopg"):
        raise StoreUrlError(f"the driver of {parsed_url.drivername}:// is not known here. {cure}")
    if not parsed_url.database:
        raise StoreUrlError(f"{place_of(url)} names no database. {cure}")
    return parsed_url.set(drivername="postgresql+psycopg")


def place_of(url: str) -> str:
    """Host and database, as sentences name them: neither user nor password nor options."""
    place, _, options = url.partition("://")[2].partition("?")
    if "@" in options and (":" in place or "/" not in place):
        # Nobody knows whether the `?` is one of a password that was not escaped.
        place = "***"
    return f"postgresql://{place.rpartition('@')[2]}"
