"""When we fail, the app goes on: its own input, its own errors, a fault that can be seen."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from ce_engine import (
    BudgetConfig,
    BudgetExceededError,
    CharBasedEstimator,
    ContextEngineError,
    Event,
    EventType,
    MemoryStore,
    RuntimeConfig,
    Scope,
    ScopeViolationError,
    create_context_engine,
)
from ce_engine.testing.faults import SwitchStore
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire


SECRET = "a foreign exception quotes: hunter2"


@tool
def double(n: int) -> int:
    """Double."""
    return 2 * n


@pytest.mark.scenario(13)
@pytest.mark.production_guard
def test_without_a_store_the_app_answers_as_before(twins: Any, chat: Any, call: Any) -> None:
    engine = create_context_engine(SwitchStore(refuses=True))
    with Wire() as wire:
        plain = call(chat(wire), [HumanMessage("q")]).content
        sent = wire.requests[0].raw
    with Wire() as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s"):
            assert call(model, [HumanMessage("q")]).content == plain
        assert wire.requests[0].raw == sent
    engine.loop.close()


@pytest.mark.scenario(13)
@pytest.mark.production_guard
@pytest.mark.parametrize("phase", ["prepare", "commit", "post_tool_run"])
def test_a_fault_of_ours_is_logged_without_its_text_and_remembered(
    engine: Any,
    chat: Any,
    call: Any,
    phase: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(*args: Any, **kwargs: Any) -> Any:
        raise ValueError(SECRET)

    monkeypatch.setattr(engine, phase, fails)
    with Wire("fine") as wire, caplog.at_level(logging.WARNING, logger="ce_integrations"):
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s") as installation:
            assert call(model, "q").content == "fine"
        with install_ce(double, engine=engine, session_id="s") as of_tool:
            assert double.invoke({"n": 2}) == 4
        assert [len(body["messages"]) for body in wire.bodies] == [1]
    (fault,) = installation.faults or of_tool.faults
    assert (fault.code, fault.kind) == ("CONTEXT_INTERNAL", "ValueError")
    (record,) = [r for r in caplog.records if r.name == "ce_integrations"]
    assert "CONTEXT_INTERNAL ValueError" in record.getMessage()
    assert "hunter2" not in record.getMessage()
    assert record.exc_info is None
    if phase == "commit":
        report = installation.last_report("s")
        assert report is not None
        assert report.errors == ["CONTEXT_INTERNAL"]


def test_in_tests_the_same_fault_raises(
    engine: Any, chat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*args: Any, **kwargs: Any) -> Any:
        raise ValueError(SECRET)

    monkeypatch.setattr(engine, "prepare", fails)
    with Wire("fine") as wire:
        model = chat(wire)
        with install_ce(model, engine=engine), pytest.raises(ValueError, match="hunter2"):
            model.invoke("q")
        assert wire.requests == []


@pytest.mark.production_guard
@pytest.mark.req("D-10")
def test_a_scope_violation_never_injects(
    engine: Any, chat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def violated(*args: Any, **kwargs: Any) -> Any:
        raise ScopeViolationError("another user's")

    monkeypatch.setattr(engine, "prepare", violated)
    with Wire() as wire:
        model = chat(wire)
        with install_ce(model, engine=engine) as installation:
            model.invoke("q")
        assert [m["content"] for m in wire.bodies[0]["messages"]] == ["q"]
    assert [fault.code for fault in installation.faults] == ["CONTEXT_SCOPE_VIOLATION"]


@pytest.mark.production_guard
def test_closed_raises_our_errors_and_only_ours(
    engine: Any, chat: Any, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = RuntimeConfig(budget=BudgetConfig(max_input_tokens=20))
    with Wire() as wire:
        model = chat(wire)
        closed = install_ce(model, engine=engine, config=small, session_id="s", fail="closed")
        with closed, pytest.raises(BudgetExceededError):
            call(model, "word " * 200)
        assert wire.requests == []
        with install_ce(model, engine=engine, config=small, session_id="s"):
            call(model, "word " * 200)
        assert len(wire.requests) == 1

    async def fails(*args: Any, **kwargs: Any) -> Any:
        raise ValueError(SECRET)

    monkeypatch.setattr(engine, "prepare", fails)
    with Wire("fine") as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, fail="closed") as installation:
            assert call(model, "q").content == "fine"
    assert len(installation.faults) == 1


@pytest.mark.production_guard
@pytest.mark.parametrize("gives", [["s"], Exception("no")], ids=["a list", "raises"])
def test_a_callable_that_fails_costs_us_the_call_not_the_app(
    engine: Any, chat: Any, call: Any, gives: Any, sessions: Any
) -> None:
    def whose(info: Any) -> Any:
        if isinstance(gives, Exception):
            raise gives
        return gives

    with Wire("fine") as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id=whose) as installation:
            assert call(model, "q").content == "fine"
    assert len(installation.faults) == 1
    assert sessions() == []


@pytest.mark.production_guard
def test_wrong_input_gets_langchain_s_own_error(
    engine: Any, chat: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with Wire() as wire:
        plain, model = chat(wire), chat(wire)
        with install_ce(model, engine=engine) as installation:
            with pytest.raises(TypeError):
                model.generate(5)
            for wrong in (5, [object()], [{"no": "role"}]):
                with pytest.raises(Exception) as expected:
                    plain.invoke(wrong)
                with pytest.raises(expected.type) as found:
                    model.invoke(wrong)
                assert str(found.value) == str(expected.value)
                with pytest.raises(expected.type) as found:
                    list(model.stream(wrong))
                assert str(found.value) == str(expected.value)
    assert list(installation.faults) == []
    assert [record for record in caplog.records if record.name.startswith("ce")] == []


def test_our_errors_are_one_tree() -> None:
    assert issubclass(ScopeViolationError, ContextEngineError)


@pytest.mark.production_guard
@pytest.mark.req("A-20")
@pytest.mark.scenario(13)
@pytest.mark.parametrize("broken", ["store", "engine"])
def test_a_failure_of_ours_is_an_event(
    chat: Any, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    engine = create_context_engine(SwitchStore(refuses=broken == "store"))
    heard: list[Event] = []
    engine.bus.on_all(heard.append)

    async def fails(*args: Any, **kwargs: Any) -> Any:
        raise ValueError(SECRET)

    if broken == "engine":
        monkeypatch.setattr(engine, "prepare", fails)
    with Wire("fine") as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s"):
            assert model.invoke("q").content == "fine"
    engine.sync.close()
    told = [e for e in heard if e.event_type in (EventType.DEGRADED, EventType.ERROR)]
    assert {e.tags["framework"] for e in told} == {"langchain"}
    codes = {"store": "CONTEXT_STORE_UNAVAILABLE", "engine": "CONTEXT_INTERNAL"}
    assert codes[broken] in {e.payload["code"] for e in told}
    assert "hunter2" not in str(heard)


@pytest.mark.production_guard
def test_an_estimator_that_fails_costs_no_answer(chat: Any) -> None:
    class Broken(CharBasedEstimator):
        def estimate_text(self, text: str, model_hint: str | None = None) -> int:
            raise ValueError(SECRET)

    engine = create_context_engine(MemoryStore(), token_estimator=Broken())
    with Wire("fine") as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s"):
            assert "".join(chunk.content for chunk in model.stream("q")) == "fine"
    document = engine.loop.run(engine.store.get_session(Scope(session_id="s")))
    engine.sync.close()
    assert document is not None
    assert [m.content for m in document.session.messages] == ["q", "fine"]
    (usage,) = document.session.model_usage
    assert usage.params == {"estimated": True}
    assert usage.completion_tokens > 0
