"""The app's own embeddings as the engine's: what they answer, and what they are asked (A-27)."""

from __future__ import annotations

import threading

import pytest
from langchain_core.embeddings import Embeddings

from ce_engine.testing import EmbedderContract
from ce_integrations.langchain import LangChainEmbedder
from tests.hosts.embed_host import FACTS, Subjects, ask, engine_with, sent, talk


class About(Embeddings):
    """What a text is about, for those who are not on an event loop; an empty text is refused, as services do."""

    model = "about-1"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        assert threading.current_thread().name == "ce-llm"
        assert all(texts)
        return [Subjects.vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        raise NotImplementedError


@pytest.mark.req("A-27")
class TestEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> LangChainEmbedder:
        return LangChainEmbedder(About())


def test_it_is_called_as_its_model_is() -> None:
    assert LangChainEmbedder(About()).name == "About about-1"
    assert LangChainEmbedder(About(), name="mine").name == "mine"


def test_a_session_is_asked_by_meaning() -> None:
    engine = engine_with(LangChainEmbedder(About()))
    talk(engine)
    assert FACTS[0] in sent(ask(engine, "Who is she married to?"))
    assert "meaning" in engine.sync.explain("s").brought_in[0].features
    engine.sync.close()
