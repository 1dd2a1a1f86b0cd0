"""What an app does with an engine as a whole: check it, flush it, close it."""

from __future__ import annotations

import asyncio

from ce_engine.errors import StoreUnavailableError
from ce_engine.schema.ids import check_secret
from ce_engine.stores import secret
from ce_engine.stores.base import BaseStore
from ce_engine.turns.engine_base import EngineBase


CHECK_S = 15.0


class LifecycleMethods(EngineBase):
    """Waits for what the engine has under way, within bounds."""

    async def check(self) -> None:
        """Open the store and prove that it works; it may take its time, once (`CHECK_S`).

        Raises:
            StoreUnavailableError: it does not; the message names the cure.
        """
        try:
            await asyncio.wait_for(self._originals.check_with(self.store), CHECK_S)
        except TimeoutError:
            raise StoreUnavailableError(
                f"the store {self.store.url} did not answer within {CHECK_S:.0f} s; see that it runs"
            ) from None

    def check_possible(self) -> None:
        """See, without touching anything, that calls can be governed: what no later moment cures.

        Raises:
            ConfigError: `CE_SECRET` is too short.
            StoreUrlError: the store can never be where its URL says.
        """
        if isinstance(self.store, BaseStore):  # others have places and secrets of their own
            self.store.check_place()
            if (value := secret.from_environment()) is not None:
                check_secret(value)

    @property
    def has_unstored(self) -> bool:
        """Whether something handed over is not stored yet."""
        return self._posted.pending or self._journal.waiting > 0

    async def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything handed over is stored; false if it is not in time, or some was dropped since the last time."""
        done = await self._land_all(timeout_s)
        return not self._journal.pop_loss() and done

    async def _land_all(self, timeout_s: float = 5.0) -> bool:
        done = await self._background.settle(timeout_s)
        done = await self._posted.settle_all(timeout_s) and done
        return await self._journal.flush(timeout_s) and done

    async def close(self, timeout_s: float = 5.0) -> None:
        """Store what was accepted, give up a summary that takes longer, and let go of threads and files."""
        await self._land_all(timeout_s)
        self._background.stop()
        self._embedding.stop()
        await self.store.close()
        await self._originals.close()
        self._sessions.clear()
        await self._announcer.close()
        if not self.loop.is_current():
            self.loop.close()
