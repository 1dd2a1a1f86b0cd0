"""The app's own LlamaIndex embedding model as the engine's, for choosing by meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ce_integrations.calls.embedding import embedded, name_of


if TYPE_CHECKING:
    from llama_index.core.base.embeddings.base import BaseEmbedding


class LlamaIndexEmbedder:
    """An `Embedder` that asks a `BaseEmbedding` of LlamaIndex.

    It is asked on a thread, through `get_text_embedding_batch`: the connections of its async client belong
    to the app's event loop. A question is embedded as a text is.

    Args:
        embed_model: the app's own.
        name: of the model; else its class with what it calls its model.
    """

    def __init__(self, embed_model: BaseEmbedding, *, name: str = "") -> None:
        self._embed_model = embed_model
        self.name = name or name_of(embed_model)

    async def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """Ask the model."""
        return await embedded(texts, self._embed_model.get_text_embedding_batch)
