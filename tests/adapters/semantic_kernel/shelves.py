"""A collection of pages in memory, each as near to every question as the test says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from semantic_kernel.connectors.ai.embedding_generator_base import EmbeddingGeneratorBase
from semantic_kernel.connectors.in_memory import AttributeDict, InMemoryCollection
from semantic_kernel.data.vector import VectorStoreCollectionDefinition, VectorStoreField

from ce_integrations.testing.framework_apps import Page


SHELF = VectorStoreCollectionDefinition(
    fields=[
        VectorStoreField("key", name="key"),
        VectorStoreField("data", name="text"),
        VectorStoreField("data", name="source"),
        VectorStoreField("vector", name="vector", dimensions=2),
    ]
)
"""Pages of which each has its own text and where it is from."""


class Embedder(EmbeddingGeneratorBase):
    """Every question is the same vector, so that a page's own vector says how near it is."""

    async def generate_embeddings(self, texts: list[str], settings: Any = None, **_: Any) -> Any:
        return np.array([[1.0, 0.0] for _ in texts])


def shelf(pages: Sequence[Page]) -> InMemoryCollection[str, dict[str, Any]]:
    """The pages, each as near to every question as its score says."""
    made: InMemoryCollection[str, dict[str, Any]] = InMemoryCollection(
        record_type=dict,
        collection_name="shelf",
        definition=SHELF,
        embedding_generator=Embedder(ai_model_id="vectors"),
    )
    for page in pages:
        vector = [page.score, math.sqrt(1 - page.score**2)]
        record = {"key": page.uri, "text": page.text, "source": page.uri, "vector": vector}
        made.inner_storage[page.uri] = AttributeDict(record)
    return made
