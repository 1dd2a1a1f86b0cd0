"""The app's own embeddings as the engine's: what they answer, and what they are asked (A-27)."""

from __future__ import annotations

import threading

import pytest
from llama_index.core.base.embeddings.base import BaseEmbedding

from ce_engine.testing import EmbedderContract
from ce_integrations.llamaindex import LlamaIndexEmbedder
from tests.hosts.embed_host import FACTS, Subjects, ask, engine_with, sent, talk


class About(BaseEmbedding):
    """What a text is about, for those who are not on an event loop; an empty text is refused, as services do."""

    def _get_text_embedding(self, text: str) -> list[float]:
        assert threading.current_thread().name == "ce-llm"
        assert text
        return Subjects.vector(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        raise NotImplementedError

    async def _aget_query_embedding(self, query: str) -> list[float]:
        raise NotImplementedError


@pytest.mark.req("A-27")
class TestEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> LlamaIndexEmbedder:
        return LlamaIndexEmbedder(About(model_name="about-1"))


def test_it_is_called_as_its_model_is() -> None:
    assert LlamaIndexEmbedder(About(model_name="about-1")).name == "About about-1"
    assert LlamaIndexEmbedder(About(), name="mine").name == "mine"


def test_a_session_is_asked_by_meaning() -> None:
    engine = engine_with(LlamaIndexEmbedder(About()))
    talk(engine)
    assert FACTS[0] in sent(ask(engine, "Who is she married to?"))
    assert "meaning" in engine.sync.explain("s").brought_in[0].features
    engine.sync.close()
