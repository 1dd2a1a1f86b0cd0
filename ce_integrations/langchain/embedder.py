"""The app's own LangChain embeddings as the engine's, for choosing by meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ce_integrations.calls.embedding import embedded, name_of


if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


class LangChainEmbedder:
    """An `Embedder` that asks `Embeddings` of LangChain.

    They are asked on a thread, through `embed_documents`: the connections of their async client belong to
    the app's event loop. A question is embedded as a text is.

    Args:
        embeddings: the app's own.
        name: of the model; else its class with what it calls its model.
    """

    def __init__(self, embeddings: Embeddings, *, name: str = "") -> None:
        self._embeddings = embeddings
        self.name = name or name_of(embeddings)

    async def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """Ask the model."""
        return await embedded(texts, self._embeddings.embed_documents)
