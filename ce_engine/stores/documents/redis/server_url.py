"""What a `redis:` URL means: a server, and what this store does there."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, unquote_to_bytes, urlsplit

from ce_engine.errors import StoreUrlError
from ce_engine.stores.documents.base import Key
from ce_engine.stores.owner_settings import Owner
from ce_engine.stores.urls import PREFIX, masked


_EXAMPLE = "Write redis://localhost:6379/0?prefix=ce&expire=7d, for example."
_PORT = 6379
_SAFE_PREFIX = re.compile(r"[0-9A-Za-z_.-]{1,64}")
_TIME = re.compile(r"([0-9]{1,12})([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_S = 100 * 365 * 86400
_TLS = {"ca_certs": "ssl_ca_certs", "certfile": "ssl_certfile", "keyfile": "ssl_keyfile"}
_OPTIONS = ("prefix", "expire", *_TLS)


@dataclass(frozen=True, slots=True)
class Place:
    """A database of a server, and the keys in it that are this store's.

    Attributes:
        url: the URL without the password.
        server: host, port and number of the database, for people.
        connecting: the arguments of `redis.Redis`.
        prefix: what all keys begin with, before a colon.
        expire_ms: milliseconds from a session's last write until it goes; 0 is never.
    """

    url: str
    server: str
    connecting: dict[str, Any] = field(repr=False)  # the password is in it
    prefix: str
    expire_ms: int

    @property
    def sessions(self) -> str:
        """What the keys of sessions begin with."""
        return f"{self.prefix}:s:"

    @property
    def purge_mark(self) -> str:
        """The key that is there while deleted bytes may stand in the server's files."""
        return f"{self.prefix}:purge"

    @property
    def secret_mark(self) -> str:
        """The key that tells whose secret sessions were written with."""
        return f"{self.prefix}:secret"

    @property
    def draft(self) -> str:
        """The key of a list that is being made; each time another one."""
        return f"{self.prefix}:draft:{secrets.token_hex(8)}"

    def session(self, key: Key) -> str:
        """The key of a session: three names of nothing but letters, digits, `%`, `_.-~`."""
        return self.sessions + ":".join(map(_encoded, key))

    def owner(self, owner: Owner) -> str:
        """The key of an owner's settings."""
        return self.owners + ":".join(map(_encoded, owner))

    @property
    def owners(self) -> str:
        """What the keys of owners' settings begin with."""
        return f"{self.prefix}:o:"

    def owner_of(self, name: bytes) -> Owner | None:
        """The owner whose settings a key is of; `None` if it is none of ours."""
        ids = _ids(name.removeprefix(self.owners.encode()), 2)
        return (ids[0], ids[1]) if ids else None

    def pattern(self, *names: str) -> str:
        """What the keys of all sessions of an account, or of a user of it, match."""
        return self.sessions + "".join(f"{_encoded(name)}:" for name in names) + "*"

    def key_of(self, name: bytes) -> Key | None:
        """The session that a key is of; `None` if it is none of ours."""
        ids = _ids(name.removeprefix(self.sessions.encode()), 3)
        return (ids[0], ids[1], ids[2]) if ids else None


def _encoded(name: str) -> str:
    return quote(name.encode("utf-8", "surrogatepass"), safe="")


def _ids(text: bytes, count: int) -> list[str]:
    """The ids that a key ends with; none where this store would not have written them so."""
    try:
        ids = [*map(_decoded, text.split(b":"))]
    except UnicodeDecodeError:
        return []
    return ids if len(ids) == count and ":".join(map(_encoded, ids)).encode() == text else []


def _decoded(part: bytes) -> str:
    return unquote_to_bytes(part).decode("utf-8", "surrogatepass")


def place_of(url: str) -> Place:
    """Read a `redis:` or `rediss:` URL.

    Raises:
        StoreUrlError: the URL is not understood; a password in it is not repeated.
    """
    try:
        parts = urlsplit(url)
        port, host = parts.port or _PORT, parts.hostname or ""
    except ValueError:
        raise StoreUrlError(
            f"the redis:// URL is not understood: its host or port. {_EXAMPLE}"
        ) from None
    masked_url = masked(url)
    if not host:
        raise StoreUrlError(f"{masked_url!r} names no host. {_EXAMPLE}")
    database = parts.path.strip("/") or "0"
    if not (database.isascii() and database.isdigit()) or parts.fragment:
        raise StoreUrlError(
            f"{masked_url!r}: after the host comes the number of a database. {_EXAMPLE}"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(options.keys() - set(_OPTIONS)):
        raise StoreUrlError(
            f"{masked_url!r}: options after '?' are {', '.join(_OPTIONS)}; found {', '.join(unknown)}"
        )
    prefix = options.get("prefix", PREFIX)
    if not _SAFE_PREFIX.fullmatch(prefix):
        raise StoreUrlError(f"{masked_url!r}: a prefix has letters, digits, '_', '.' and '-' alone")
    connecting = {"host": host, "port": port, "db": int(database)}
    connecting |= _security(parts, options, masked_url)
    expire_ms = 1000 * _expire_s(options["expire"], masked_url) if "expire" in options else 0
    return Place(masked_url, f"{host}:{port}/{database}", connecting, prefix, expire_ms)


def _security(parts: SplitResult, options: dict[str, str], masked_url: str) -> dict[str, Any]:
    """User, password and TLS."""
    names = {"username": parts.username, "password": parts.password}
    security: dict[str, Any] = {name: unquote(text) for name, text in names.items() if text}
    if parts.scheme == "rediss":
        # The client compares the name by itself from release 6 on; before, any host's certificate would do.
        security |= {"ssl": True, "ssl_check_hostname": True}
        return security | {_TLS[n]: options[n] for n in _TLS if n in options}
    if tls := [name for name in _TLS if name in options]:
        raise StoreUrlError(f"{masked_url!r}: {tls[0]} is for TLS; write rediss://")
    return security


def _expire_s(text: str, masked_url: str) -> int:
    match = _TIME.fullmatch(text)
    seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
    if not 0 < seconds <= _LONGEST_S:
        raise StoreUrlError(
            f"{masked_url!r}: expire is a number of seconds, or one with s, m, h or d: expire=7d"
        )
    return seconds
