"""An answer that comes in pieces: when the first came, what they say so far, and its record at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from ce_integrations.calls.hooks import Hooks
from ce_integrations.calls.open_turn import Turn


Native = TypeVar("Native")
Chunk = TypeVar("Chunk")


class StreamedAnswer(Generic[Native, Chunk]):
    """The pieces of one call's answer, as they go to the app.

    Args:
        hooks: those of the installation that governs the call.
        turn: that of the call; `None` where it is not recorded, or has several.
        text: what a piece says.
        answer: the message that the pieces make; `None` where they make none: then their texts are joined.
        is_last: whether the app need not ask for another piece after this one.
    """

    def __init__(
        self,
        hooks: Hooks[Native],
        turn: Turn | None,
        text: Callable[[Chunk], str],
        answer: Callable[[list[Chunk]], Native | None],
        is_last: Callable[[Chunk], bool],
    ) -> None:
        self._hooks, self._turn = hooks, turn
        self._text_of, self._answer, self._is_last = text, answer, is_last
        self._pieces: list[Chunk] = []
        self._texts: list[str] = []
        if turn is not None:
            turn.is_streamed = True

    @property
    def text(self) -> str:
        """What was said so far."""
        return "".join(self._texts)

    def add(self, piece: Chunk) -> bool:
        """Note a piece before the app gets it; true for the last one."""
        text, last = "", False
        with self._hooks.guard("chunk"):
            text, last = self._text_of(piece), self._is_last(piece)
        self._pieces.append(piece)
        self._texts.append(text)
        if text and self._turn is not None and self._turn.first is None:
            self._turn.first = time.perf_counter()
        return last

    def tell(self) -> None:
        """Tell the latest piece on, which the app has by now."""
        self._hooks.chunk(self._turn, len(self._texts) - 1, self._texts[-1])

    def record(self) -> None:
        """Record the answer; a second time does nothing."""
        whole = self._whole()
        if whole is None:
            self._hooks.finalize(self._turn)
        else:
            self._hooks.after_model(self._turn, whole)

    async def arecord(self) -> None:
        """As `record`."""
        whole = self._whole()
        if whole is None:
            await self._hooks.afinalize(self._turn)
        else:
            await self._hooks.aafter_model(self._turn, whole)

    def _whole(self) -> Native | None:
        with self._hooks.guard("answer"):
            return self._answer([*self._pieces])
        return None
