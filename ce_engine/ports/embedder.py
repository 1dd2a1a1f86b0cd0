"""The interface of what turns texts into vectors; its docstrings are the specification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Embedder(Protocol):
    """Gives texts vectors, so that a question finds what it shares no word with.

    It is given what is stored, redacted; each text once, and a question once. It is asked on the engine's own
    loop, which it must not block. A call waits for it no longer than `RuntimeConfig.collect.deadline_s`:
    one that raises, is late or answers anything else than this goes on by words alone, and
    its report has `CONTEXT_EMBED_FAILED`.
    """

    @property
    def name(self) -> str:
        """Names the model: vectors of two that are called the same compare."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector for each text, in their order; all of one size, of finite numbers.

        The same text has the same vector, whatever it is embedded with. An empty vector says that the
        model cannot read the text, such as a language that it never learned: its words alone count.
        """
        ...
