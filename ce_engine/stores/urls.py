"""Which store a URL means."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from ce_engine.errors import StoreUrlError
from ce_engine.schema import environment


VARIABLE = environment.STORE_URL
ORIGINALS_VARIABLE = environment.ORIGINALS_URL
DEFAULT = "sqlite:///ce.db"
MEMORY = "memory://"

_KNOWN = (
    "Known here: memory://, sqlite:///relative.db and sqlite:////absolute.db (three slashes, then "
    "the path), file:folder and file:///absolute/folder, postgresql+psycopg://user@host/database, "
    "redis://host:6379/0."
)
_POSTGRES = ("postgres", "postgresql")
_REDIS = ("redis", "rediss")
_PORT = 6379
PREFIX = "ce"
"""What the keys in a Redis server begin with."""
_OPTION = re.compile(r"([^&=]*)=([^&]*)")
_SHOWN = frozenset(
    [
        "prefix",
        "expire",
        "ca_certs",
        "certfile",
        "keyfile",
        "sslmode",
        "sslrootcert",
        "sslcert",
        "sslkey",
        "sslcrl",
        "sslnegotiation",
        "options",
        "connect_timeout",
        "application_name",
        "target_session_attrs",
        "tcp_user_timeout",
        "keepalives",
        "host",
        "hostaddr",
        "port",
        "dbname",
    ]
)
"""Options whose values no password is written to: one that nobody knows may be a password's."""
_DRIVE = re.compile(r"/+[A-Za-z]:[/\\]")


def scheme_of(url: str) -> str:
    """`memory`, `sqlite`, `file`, `postgresql` or `redis`.

    Raises:
        StoreUrlError: another scheme, or none.
    """
    if url.lower().startswith("file:"):
        return "file"
    scheme, mark, rest = url.partition("://")
    scheme = scheme.lower()
    if mark and scheme == "sqlite":
        return scheme
    if mark and scheme == "memory":
        if rest.strip("/"):
            raise StoreUrlError(f"memory:// takes no path; found {masked(url)!r}")
        return scheme
    if mark and scheme in _REDIS:
        return "redis"
    if mark and scheme.partition("+")[0] in _POSTGRES:
        return "postgresql"
    hint = "" if mark or "@" in url else f" For a file, write sqlite:///{url or 'ce.db'}."
    raise StoreUrlError(f"no store is known for {masked(url)!r}. {_KNOWN}{hint}")


def is_server(url: str) -> bool:
    """Whether the URL names a server: what is kept there has no file here, and no key file beside it.

    Raises:
        StoreUrlError: the URL is not understood.
    """
    return scheme_of(url) in ("redis", "postgresql")


def server_place(url: str) -> str:
    """What a Redis server's URL leads to, whoever asks: host, port, database and prefix.

    Raises:
        StoreUrlError: the URL is not understood.
    """
    try:
        parts = urlsplit(url)
        where = f"{parts.hostname}:{parts.port or _PORT}/{parts.path.strip('/') or 0}"
    except ValueError:
        raise StoreUrlError("the URL's host or port is not understood") from None
    return f"{where}?prefix={dict(parse_qsl(parts.query)).get('prefix', PREFIX)}"


def local_path(url: str) -> Path:
    """The file or folder that a `sqlite:` or `file:` URL means, absolute.

    Raises:
        StoreUrlError: the URL names none.
    """
    if is_server(url):
        raise StoreUrlError(f"{masked(url)!r} names a server, and no file or folder")
    return folder_path(url) if scheme_of(url) == "file" else sqlite_path(url)


def folder_path(url: str) -> Path:
    """The folder that a `file:` URL means, absolute; `%20` and the like are decoded.

    Raises:
        StoreUrlError: the URL names no folder.
    """
    rest = url.partition(":")[2]
    if rest.startswith("//") and not rest.startswith("///"):
        name = "sessions" if "@" in rest else rest.lstrip("/") or "sessions"
        raise StoreUrlError(
            f"{masked(url)!r} names a host, which a file store has not. Write file:{name} for a folder from "
            f"here, or file:///{name} for one from the root."
        )
    if "?" in rest:
        raise StoreUrlError(f"options after '?' are not known here; found {url!r}")
    text = unquote(rest)
    if text.startswith("/"):
        text = text.lstrip("/") if _DRIVE.match(text) else f"/{text.lstrip('/')}"
    path = Path(text).absolute()
    if not text or "\x00" in text or path.name in ("", ".."):
        raise StoreUrlError(f"{url!r} names no folder. Write file:sessions, for example.")
    return path


def sqlite_path(url: str) -> Path:
    """The file that a `sqlite:` URL means, absolute: a later change of folder does not move it.

    Raises:
        StoreUrlError: the URL names no file.
    """
    rest = url.partition("://")[2]
    if not rest.startswith("/"):
        name = "ce.db" if "@" in rest else rest or "ce.db"
        raise StoreUrlError(
            f"{masked(url)!r} names no file: a path follows three slashes. Write sqlite:///{name}, or "
            "memory:// for a store that is not kept."
        )
    path = rest[1:]
    if not path or path.endswith("/") or path == ":memory:":
        raise StoreUrlError(
            f"{url!r} names no file. Write sqlite:///ce.db, or memory:// for a store that is not kept."
        )
    if "?" in path:
        raise StoreUrlError(f"options after '?' are not known here; found {url!r}")
    return Path(path).absolute()


def _is_shown(name: str, value: str) -> bool:
    return name in _SHOWN and (name == "options" or not {";", "="} & {*value})


def masked(url: str) -> str:
    """The URL without what may be a password, in front of the host or among the options."""
    scheme, mark, rest = url.partition("://")
    if not mark:  # no URL, but maybe half of one
        return f"***@{url.rpartition('@')[2]}" if "@" in url else url
    if rest.startswith("/") and scheme.lower() in ("sqlite", "memory"):
        return url
    place, question, options = rest.partition("?")
    if "@" in options:  # nobody knows whether the `?` is one of a password that was not escaped
        return f"{scheme}://***"
    credentials, at, host = place.rpartition("@")
    user, colon, _ = credentials.partition(":")
    if at and not colon and scheme.lower().startswith("redis"):
        user = "***"  # many write the password there, where Redis has a user's name
    if ":" in user:
        return f"{scheme}://***@{host}"
    options = _OPTION.sub(
        lambda each: each[0] if _is_shown(*each.groups()) else f"{each[1]}=***", options
    )
    return f"{scheme}://{user}{':***' if colon else ''}{at}{host}{question}{options}"
