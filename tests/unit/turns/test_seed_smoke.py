"""The end-to-end smoke test of the context SDK, as its document writes it (A-27, A-13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ce_engine import (
    CharBasedEstimator,
    MemoryStore,
    Message,
    Role,
    RuntimeConfig,
    create_context_engine,
    open_store,
)
from ce_engine.testing import MockLlmAdapter


@pytest.mark.req("A-27", "A-13", "A-26")
async def test_e2e_smoke() -> None:
    engine = create_context_engine(
        store=MemoryStore(),
        token_estimator=CharBasedEstimator(),
        llm_adapter=MockLlmAdapter(),
    )
    result = await engine.prepare_turn(
        "s1", Message(role=Role.USER, content="hello"), RuntimeConfig()
    )
    assert result.assembled_input.total_tokens > 0
    assert result.report.errors == []
    await engine.commit_assistant_message("s1", Message(role=Role.ASSISTANT, content="hi"))
    await engine.close()


@pytest.mark.req("A-27", "A-26")
@pytest.mark.parametrize("url", ["memory://", "file:{}/sessions", "sqlite:///{}/ce.db"])
async def test_the_same_in_order_of_position_on_any_store(url: str, tmp_path: Path) -> None:
    store = open_store(url.format(tmp_path))
    engine = create_context_engine(store, CharBasedEstimator(), MockLlmAdapter(), RuntimeConfig())
    await engine.prepare_turn("s1", Message(role=Role.USER, content="hello"))
    put = await engine.commit_assistant_message("s1", Message(role=Role.ASSISTANT, content="hi"))
    assert put.success
    await engine.close()
