"""Lets so many into a session at once, and one into each of its lanes; the others queue, for a time (D-12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ce_engine.errors import BackpressureError
from ce_engine.runtime.fork import renew_after_fork


@dataclass(slots=True)
class _Room:
    inside: set[Hashable] = field(default_factory=set)
    queue: list[tuple[Hashable, int, asyncio.Future[None]]] = field(default_factory=list)


class Gate:
    """First come, first served, but nobody waits for a lane that is not its own. Of one event loop."""

    def __init__(self) -> None:
        self._reset()
        renew_after_fork(self._reset)

    def _reset(self) -> None:
        self._rooms: dict[Hashable, _Room] = {}

    @asynccontextmanager
    async def enter(
        self, key: Hashable, lane: Hashable, most: int, timeout_s: float
    ) -> AsyncIterator[None]:
        """Be inside as one of at most `most`; who is inside has all the time it needs.

        Raises:
            BackpressureError: there was no room in time.
        """
        room = self._rooms.setdefault(key, _Room())
        if lane in room.inside or len(room.inside) >= most:
            await self._wait(key, room, lane, most, timeout_s)
        else:
            room.inside.add(lane)
        try:
            yield
        finally:
            self._leave(key, room, lane)

    async def _wait(
        self, key: Hashable, room: _Room, lane: Hashable, most: int, timeout_s: float
    ) -> None:
        place = lane, most, asyncio.get_running_loop().create_future()
        room.queue.append(place)
        try:
            await asyncio.wait_for(place[-1], timeout_s)
        except BaseException as error:
            if place in room.queue:
                room.queue.remove(place)
            else:  # let in and given up in the same moment
                self._leave(key, room, lane)
            if isinstance(error, TimeoutError):
                raise BackpressureError(
                    f"{len(room.inside)} assemblies of this session are under way, and {len(room.queue)} "
                    f"more waited; there was no room within {timeout_s} s"
                ) from None
            raise

    def _leave(self, key: Hashable, room: _Room, lane: Hashable) -> None:
        room.inside.discard(lane)
        for place in list(room.queue):
            waiting_lane, most, turn = place
            if waiting_lane not in room.inside and len(room.inside) < most:
                room.queue.remove(place)
                room.inside.add(waiting_lane)
                if not turn.done():
                    turn.set_result(None)
        if not room.inside and not room.queue and self._rooms.get(key) is room:
            del self._rooms[key]
