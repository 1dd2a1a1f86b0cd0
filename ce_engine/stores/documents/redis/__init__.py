"""Hot sessions in a Redis server: a list of texts each."""

from __future__ import annotations

from ce_engine.stores.documents.redis.store import RedisStore


__all__ = ["RedisStore"]
