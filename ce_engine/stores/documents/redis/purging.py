"""Deleted bytes leave the server's own files: its log is written anew, and so is its snapshot."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, cast

from redis import Redis

from ce_engine.errors import FileDamagedError, StoreError
from ce_engine.stores.documents.redis import faults
from ce_engine.stores.documents.redis.link import Link


_PAUSE_S = 0.02
_START_S = 1
"""A server that starts says that it has saved just now."""
_UNDER_WAY = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")


def purge(link: Link, timeout_s: float) -> None:
    """Have the files written anew if something was deleted since the last time.

    Raises:
        StoreUnavailableError: the server cannot, may not, or takes longer; it is still to be done.
    """
    place, deadline = link.place, monotonic() + timeout_s
    if (mark := _mark(link)) is None:
        return
    try:
        _wait(link, deadline)  # what began before the deletion has its bytes
        if _info(link)["aof_enabled"]:
            _write_anew(
                link, lambda client: client.bgrewriteaof(), "aof_last_bgrewrite_status", deadline
            )
        if link.run(_has_snapshot):
            _write_anew(link, lambda client: client.bgsave(), "rdb_last_bgsave_status", deadline)
    except StoreError as error:
        raise faults.not_purged(place.server, str(error)) from None
    link.delete_if(place.purge_mark, mark)


def _mark(link: Link) -> bytes | None:
    """The mark of the last deletion; what somebody else put there is none: a deletion would have replaced it."""
    mark = link.place.purge_mark
    try:
        return link.run(lambda client: cast("bytes | None", client.get(mark)), of_one=True)
    except FileDamagedError:
        return None


def _has_snapshot(client: Redis) -> bool:
    """Whether the server has written a snapshot or may: by its configuration, for a replica or a person, or before it started."""
    settings = cast("dict[Any, Any]", client.config_get("save"))
    info: dict[str, Any] = client.info("persistence")
    server: dict[str, Any] = client.info("server")
    began = server.get("server_time_usec", 0) // 1_000_000 - server.get("uptime_in_seconds", 0)
    has_saved = info.get("rdb_last_bgsave_time_sec", -1) >= 0 or info.get("rdb_saves", 0) > 0
    has_saved |= 0 < began < info.get("rdb_last_save_time", 0) - _START_S
    # A log may begin with a snapshot, too, whose keys are counted here (7.0).
    was_loaded = not info.get("aof_enabled") and info.get("rdb_last_load_keys_loaded", 0) > 0
    return any(settings.values()) or has_saved or was_loaded


def _write_anew(link: Link, write: Callable[[Redis], object], status: str, deadline: float) -> None:
    link.run(write)
    _wait(link, deadline)
    if (answer := _info(link)[status]) != "ok":
        raise StoreError(f"{status} is {answer}")


def _wait(link: Link, deadline: float) -> None:
    while any(_info(link)[name] for name in _UNDER_WAY):
        if monotonic() > deadline:
            raise StoreError("it is not done yet")
        sleep(_PAUSE_S)


def _info(link: Link) -> dict[str, Any]:
    return link.run(lambda client: client.info("persistence"))
