"""One thread's connection to the server: every command ends within a time, and errors name the cure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any, TypeVar, cast

from redis import Redis, exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from ce_engine.errors import FileDamagedError, StoreUnavailableError
from ce_engine.stores.documents.redis import faults
from ce_engine.stores.documents.redis.server_url import Place


T = TypeVar("T")

_SCANNED = 1000
"""Keys that one command of a scan looks at."""
_AT_ONCE = 32
"""Lists that one command of many reads."""

# Repeated after a lost answer it does nothing: the stamp is there already. A script that fails is not
# rolled back: what is there goes in the last step. A server that is full lets a script go on that has
# written, and so a deletion begins with what takes no memory.
_SWAP = """
local here = redis.call('LINDEX', KEYS[1], 0) or ''
if here ~= ARGV[2] then
  if here ~= ARGV[1] then return 0 end
  if ARGV[6] ~= '' then redis.call('PERSIST', KEYS[1]) end
  if ARGV[4] == 'page' then
    redis.call('RPUSH', KEYS[3], ARGV[2], ARGV[3])
    redis.call('RENAME', KEYS[3], KEYS[1])
  else
    redis.call('LSET', KEYS[1], 0, ARGV[2])
    redis.call('RPUSH', KEYS[1], ARGV[3])
  end
end
if ARGV[5] == '0' then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[5]) end
if ARGV[6] ~= '' then redis.call('SET', KEYS[2], ARGV[6]) end
return 1
"""
_DELETE_IF = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1"


class Link:
    """The connection that one thread works with; it is made with the first command.

    A command waits at most `timeout_s` for a connection and as long for each part of an answer, and is repeated
    once where the connection was lost. While the server is away, what has waited longer than that for its
    turn is refused at once. What a server without end answers is ended by `interrupt`.
    """

    def __init__(self, place: Place, timeout_s: float) -> None:
        self.place = place
        self._timeout_s = timeout_s
        self._client: Redis | None = None
        self._away = ""
        self._is_interrupted = False
        self.answered = 0.0
        """When the server answered last, by `monotonic`."""

    def run(self, work: Callable[[Redis], T], *, of_one: bool = False) -> T:
        """The answer to one command, or to several at once, which may be repeated.

        `of_one` is for keys of one session or owner: one of another type says nothing of the server.
        """
        for is_last in (False, True):
            try:
                answer = work(self._connected())
            except exceptions.RedisError as error:
                is_lost = isinstance(error, exceptions.ConnectionError)
                failure = faults.explain(error, self.place.server, of_one=of_one)
                if is_lost or isinstance(error, exceptions.TimeoutError):
                    self.close()
                    self._away = str(failure)
                if is_last or not is_lost or self._is_interrupted:
                    raise failure from None
            except Exception:
                if self._is_interrupted:  # the client's own parts fell away under it
                    raise StoreUnavailableError(self._away) from None
                raise
            else:
                self._away, self.answered = "", monotonic()
                return answer
        raise AssertionError

    def refuse(self, deadline: float) -> None:
        """Refuse a job whose time has passed while the server was away.

        Raises:
            StoreUnavailableError: it has.
        """
        if self._away and (self._is_interrupted or monotonic() > deadline):
            raise StoreUnavailableError(self._away)

    def texts(self, key: str, start: int = 0) -> list[bytes]:
        """The texts of a list from `start` on; where that is not the first, the first one before them.

        That one is read before the others, which may have been written after it.
        """

        def first_and_rest(client: Redis) -> list[bytes]:
            # No transaction: a full server refuses even those that only read.
            with client.pipeline(transaction=False) as pipe:
                pipe.lindex(key, 0)
                pipe.lrange(key, start, -1)
                first, rest = map(_answer, pipe.execute(raise_on_error=False))
            return [] if first is None else [first, *rest]

        if start:
            return self.run(first_and_rest, of_one=True)
        return self.run(lambda client: cast("list[bytes]", client.lrange(key, 0, -1)), of_one=True)

    def firsts(self, *keys: str) -> list[bytes | None]:
        """The first text of each list."""

        def read(client: Redis) -> list[bytes | None]:
            with client.pipeline(transaction=False) as pipe:
                for key in keys:
                    pipe.lindex(key, 0)
                return [*map(_answer, pipe.execute(raise_on_error=False))]

        return self.run(read, of_one=True)

    def swap(
        self,
        key: str,
        stamps: tuple[bytes, bytes],
        text: bytes,
        *,
        is_page: bool,
        expire_ms: int,
        mark: str,
    ) -> bool:
        """Put a text to a list whose first text is the old stamp, and the new stamp in its place.

        False if another one is there. An empty old stamp is that of no list. The list goes after
        `expire_ms`, 0 is never. `mark`, if not empty, is put under the store's `purge_mark`.
        """
        keys = [key, self.place.purge_mark, self.place.draft]
        args = [*stamps, text, "page" if is_page else "line", str(expire_ms), mark]
        done = self.run(lambda client: client.eval(_SWAP, len(keys), *keys, *args), of_one=True)
        return bool(done)

    def scan(self, pattern: str) -> list[bytes]:
        """All keys that match; it looks at every key of the database."""
        return self.run(lambda client: sorted(set(client.scan_iter(match=pattern, count=_SCANNED))))

    def all_texts(
        self, keys: Sequence[bytes]
    ) -> Iterator[tuple[bytes, list[bytes] | FileDamagedError]]:
        """The texts of many lists; of what is none, what is wrong with it."""
        for n in range(0, len(keys), _AT_ONCE):
            part = keys[n : n + _AT_ONCE]

            def read(
                client: Redis, part: Sequence[bytes] = part
            ) -> list[list[bytes] | FileDamagedError]:
                with client.pipeline(transaction=False) as pipe:
                    for key in part:
                        pipe.lrange(key, 0, -1)
                    return [*map(self._texts_or_damage, pipe.execute(raise_on_error=False))]

            yield from zip(part, self.run(read), strict=True)

    def _texts_or_damage(self, answer: Any) -> list[bytes] | FileDamagedError:
        if isinstance(answer, exceptions.RedisError):
            failure = faults.explain(answer, self.place.server, of_one=True)
            if isinstance(failure, FileDamagedError):
                return failure
        return cast("list[bytes]", _answer(answer))

    def put_if_new(self, key: str, text: bytes) -> bytes:
        """The text under a key, which is this one if there was none."""

        def put(client: Redis) -> bytes:
            client.set(key, text, nx=True)
            return cast("bytes | None", client.get(key)) or b""

        return self.run(put)

    def delete_if(self, key: str, text: bytes) -> None:
        """Delete a key that has this text."""
        self.run(lambda client: client.eval(_DELETE_IF, 1, key, text))

    def _connected(self) -> Redis:
        if self._client is None:
            self._client = Redis(
                **self.place.connecting,
                protocol=2,
                retry=Retry(NoBackoff(), 0),
                socket_connect_timeout=self._timeout_s,
                socket_timeout=self._timeout_s,
                max_connections=1,
                client_name="ce-integrations",
            )
        return self._client

    def interrupt(self) -> None:
        """End what the connection does just now, from another thread, and what is handed over yet: nobody waits for it."""
        self._is_interrupted = True
        self._away = self._away or f"the store on the Redis server {self.place.server} was closed"
        client = self._client
        if client is not None:
            client.connection_pool.disconnect(inuse_connections=True)

    def close(self) -> None:
        """Let go of the connection; the next command makes a new one."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
            client.connection_pool.disconnect()


def _answer(answer: Any) -> Any:
    """One of a pipeline's, which would else put the command, and so ids, before the error's own words."""
    if isinstance(answer, exceptions.RedisError):
        raise answer
    return answer
