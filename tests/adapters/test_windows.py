"""Without a budget a call keeps to the window of its model, where that is known (A-17)."""

from __future__ import annotations

import pytest

from ce_engine import MemoryStore, create_context_engine
from ce_integrations import CallInfo
from tests.adapters.test_base import ADAPTER, Bot, Note


TALK = [
    Note(("user", "assistant")[n % 2], f"{n}: the harbour 港口 was quiet that day. " * 60)
    for n in range(25)
]


@pytest.mark.req("A-17")
@pytest.mark.parametrize(
    ("model", "window", "is_cut"),
    [
        ("gpt-4", None, True),
        ("gpt-4o-mini", None, False),
        ("never-heard-of", None, False),
        ("never-heard-of", 8_000, True),
        ("gpt-4", 1_000_000, False),  # the framework knows better
    ],
)
def test_the_table_of_windows_is_asked_where_the_framework_does_not_know(
    model: str, window: int | None, is_cut: bool
) -> None:
    engine = create_context_engine(MemoryStore())
    with ADAPTER.install_ce(Bot(), engine=engine, session_id="s") as installation:
        info = CallInfo(model=model, context_window=window)
        sent, _ = installation.hooks.before_model(TALK, info)
        assert (len(sent) < len(TALK)) is is_cut
    engine.sync.close()
