"""What a server's operator should know before sessions are kept there."""

from __future__ import annotations

from redis import Redis

from ce_engine.stores.documents.redis.link import Link


_LOG = (
    "its append-only log is off: a crash of the server loses all since its last snapshot",
    "Set appendonly yes in redis.conf, and appendfsync always where not a second may be lost.",
)
_EVICTION = (
    "it drops keys when it is full (maxmemory-policy {}), sessions with their event logs too",
    "Set maxmemory-policy noeviction.",
)


def weaknesses(link: Link) -> list[tuple[str, str]]:
    """What may take sessions away that did not expire, each with its cure."""

    def look(client: Redis) -> list[tuple[str, str]]:
        weak = [] if client.info("persistence")["aof_enabled"] else [_LOG]
        policy = client.info("memory")["maxmemory_policy"]
        safe_policies = "noeviction" if link.place.expire_ms else ("noeviction", "volatile")
        if not str(policy).startswith(safe_policies):
            weak.append((_EVICTION[0].format(policy), _EVICTION[1]))
        return weak

    return link.run(look)
