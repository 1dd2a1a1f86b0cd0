"""Keeps sessions behind one port, in memory, in files, in Redis or in SQL; a store decides nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ce_engine.errors import MissingDependencyError
from ce_engine.stores.urls import DEFAULT, VARIABLE, scheme_of


if TYPE_CHECKING:
    from ce_engine.ports.store import Store


def open_store(
    url: str | None = None, *, encryption: Any = None, lock_timeout_s: float = 0.2
) -> Store:
    """The store that `url` names.

    - `memory://`: in this process only;
    - `sqlite:///relative.db`, `sqlite:////absolute.db`: an SQLite file;
    - `file:folder`, `file:///absolute/folder`: a folder with readable files a session;
    - `redis://host:6379/0?prefix=ce&expire=7d`, `rediss://` with TLS: hot sessions in a Redis server.
    - `postgresql+psycopg://user@host/database`: PostgreSQL, with the extra `postgres`.

    Without one it is `CE_STORE_URL`, else `sqlite:///ce.db`. No file is touched before the first
    read or write. Content is sealed at rest with `encryption` (see `StoreConfig`), or with the key in
    `CE_ENCRYPTION_KEY`; `memory://` keeps nothing at rest. What another process holds, of files and of rows, is waited for
    `lock_timeout_s` seconds.

    Raises:
        StoreUrlError: the URL is not understood.
        ConfigError: `encryption` is no key, or a short one.
        MissingDependencyError: what the store, or the encryption, is made of is not installed.
    """
    from ce_engine.stores.base import BaseStore  # noqa: PLC0415
    from ce_engine.stores.encryption import cipher_of  # noqa: PLC0415

    store = _opened(url, lock_timeout_s)
    if isinstance(store, BaseStore):
        store.encryption = cipher_of(encryption)
    return store


def _opened(url: str | None, lock_timeout_s: float) -> Store:
    url = url or os.environ.get(VARIABLE) or DEFAULT
    scheme = scheme_of(url)
    # Each is imported where it is used: SQLAlchemy alone takes longer than all else.
    if scheme == "memory":
        from ce_engine.stores.documents.memory import MemoryStore  # noqa: PLC0415

        return MemoryStore()
    if scheme == "file":
        from ce_engine.stores.documents.file import FileStore  # noqa: PLC0415

        return FileStore(url, lock_timeout_s=lock_timeout_s)
    if scheme == "redis":
        return _redis_store(url)
    cure = (
        "Install it: pip install 'ce-integrations[postgres]'"
        if scheme == "postgresql"
        else "Install SQLAlchemy in a Python that has SQLite, or name a store that needs neither, such "
        "as file:sessions."
    )
    try:
        from ce_engine.stores.tables import SqlStore  # noqa: PLC0415

        return SqlStore(url, lock_timeout_s=lock_timeout_s)
    except ImportError as missing:
        raise MissingDependencyError(
            f"{scheme}:// stores need {missing.name}, which is not installed here. {cure}"
        ) from missing


def _redis_store(url: str) -> Store:
    try:
        from ce_engine.stores.documents.redis import RedisStore  # noqa: PLC0415
    except ImportError as missing:
        raise MissingDependencyError(
            f"redis:// stores need {missing.name}, which is not installed here: pip install "
            "'ce-integrations[redis]'"
        ) from missing
    return RedisStore(url)


__all__ = ["open_store"]
