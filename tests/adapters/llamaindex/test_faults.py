"""When we fail, the app goes on: its own input, its own errors, a fault that can be seen."""

from __future__ import annotations

import logging
from contextvars import copy_context
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage

from ce_engine import create_context_engine
from ce_engine.testing.faults import SwitchStore
from ce_integrations.llamaindex import install_ce, mapper
from ce_integrations.testing.answers import error, text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.llamaindex import shelf
from tests.adapters.llamaindex.releases import make_agent


pytestmark = [pytest.mark.scenario(13), pytest.mark.production_guard]


def lookup(word: str) -> str:
    """Look a word up."""
    return word


SCRIPT = [tool_calls([("lookup", {"word": "a"})]), text("fine")]


def app(kind: str, llm: Any) -> Any:
    return make_agent(llm, [lookup], "S") if kind == "agent" else shelf.context(llm)


def drive(kind: str, target: Any, runner: Any) -> str:
    async def run() -> str:
        if kind == "agent":
            return str(await target.run("q", memory=shelf.memory()))
        return str(await target.achat("q"))

    return str(runner.run(run(), context=copy_context()))


@pytest.mark.parametrize("kind", ["agent", "engine"])
def test_without_a_store_the_app_answers_as_before(kind: str, model: Any, runner: Any) -> None:
    engine = create_context_engine(SwitchStore(refuses=True))
    with Wire(SCRIPT if kind == "agent" else "fine") as wire:
        plain = drive(kind, app(kind, model(wire)), runner)
        sent = [each.raw for each in wire.requests]
    with Wire(SCRIPT if kind == "agent" else "fine") as wire:
        target = app(kind, model(wire))
        with install_ce(target, engine=engine):
            assert drive(kind, target, runner) == plain == "fine"
        assert [each.raw for each in wire.requests] == sent
    engine.loop.close()


@pytest.mark.parametrize("kind", ["agent", "engine"])
@pytest.mark.parametrize("phase", ["to_schema", "to_answer", "prepare", "commit", "post_tool_run"])
def test_a_fault_of_ours_is_logged_without_its_text(
    kind: str,
    phase: str,
    model: Any,
    runner: Any,
    engine: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(*args: Any, **kwargs: Any) -> Any:
        raise ValueError("hunter2")

    phase = "post_retrieval" if (kind, phase) == ("engine", "post_tool_run") else phase
    monkeypatch.setattr(mapper if phase.startswith("to_") else engine, phase, fails)
    with (
        Wire(SCRIPT if kind == "agent" else "fine") as wire,
        caplog.at_level(logging.WARNING, logger="ce_integrations"),
    ):
        target = app(kind, model(wire))
        with install_ce(target, engine=engine) as installation:
            assert drive(kind, target, runner) == "fine"
        assert len(wire.requests) == (2 if kind == "agent" else 1)
    assert {fault.kind for fault in installation.faults} == {"ValueError"}
    assert "hunter2" not in caplog.text


def test_an_error_of_the_provider_comes_as_it_was(model: Any, engine: Any, call: Any) -> None:
    with Wire([error(500, "overloaded")] * 2) as wire:
        llm = model(wire)
        with pytest.raises(Exception) as plain:
            call(llm, "chat", [ChatMessage("q")])
        with (
            install_ce(llm, engine=engine, session_id="s"),
            pytest.raises(plain.type) as ours,
        ):
            call(llm, "chat", [ChatMessage("q")])
    assert str(ours.value) == str(plain.value)
