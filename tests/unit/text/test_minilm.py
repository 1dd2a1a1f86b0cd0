"""The small model of the extra `[embed]`: what its package says is true, and it reads what it learned."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from ce_engine import MiniLmEmbedder, MissingDependencyError
from ce_engine.testing import EmbedderContract
from ce_engine.text.relevance.minilm import WEIGHTS
from tests.hosts.embed_host import FACTS, ask, engine_with, sent, talk


@pytest.mark.req("A-27")
class TestMiniLm(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> MiniLmEmbedder:
        pytest.importorskip(WEIGHTS)
        return MiniLmEmbedder()


@pytest.mark.anyio
async def test_what_it_never_learned_has_no_vector() -> None:
    pytest.importorskip(WEIGHTS)
    texts = [
        "猫在沙发上睡觉。",
        "Кошка спит на диване.",
        "42",
        "",
        "The cat 猫 sleeps.",
        "Ça va, señor?",
    ]
    found = await MiniLmEmbedder().embed(texts)
    assert [len(vector) for vector in found] == [0, 0, 0, 0, 384, 384]


def test_it_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec

    def find_spec(name: str) -> Any:
        return None if name == WEIGHTS else there(name)

    monkeypatch.setattr("ce_engine.text.relevance.minilm.find_spec", find_spec)
    with pytest.raises(MissingDependencyError, match=r"ce-integrations\[embed\]"):
        MiniLmEmbedder()


def test_a_session_is_asked_by_meaning() -> None:
    pytest.importorskip(WEIGHTS)
    engine = engine_with(MiniLmEmbedder())
    talk(engine)
    assert FACTS[1] in sent(ask(engine, "Has she taken up amateur astronomy?"))
    assert "meaning" in engine.sync.explain("s").brought_in[0].features
    engine.sync.close()
