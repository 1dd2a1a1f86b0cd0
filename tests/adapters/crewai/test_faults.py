"""When we fail, and when others stop a call: the crew notices nothing of us."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import pytest
from crewai.hooks import llm_hooks

from ce_engine import create_context_engine
from ce_engine.testing.faults import SwitchStore
from ce_integrations import ce_session
from ce_integrations.testing.answers import error, text
from ce_integrations.testing.side_by_side import PATIENT
from ce_integrations.testing.wire import Wire
from tests.adapters.crewai.apps import agent, crew, model, task


@pytest.mark.scenario(8)
@pytest.mark.production_guard
@pytest.mark.parametrize("trouble", ["refuses", "hangs"])
@pytest.mark.req("A-25")
def test_without_its_store_a_crew_gives_what_it_gave(
    install: Any, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = SwitchStore()
    engine = create_context_engine(store, config=PATIENT)
    with Wire(["Found.", "Written."]) as wire:
        made = crew(task(agent(model(wire))), task(agent(model(wire), "writer"), "Write."))
        with install(made, engine=engine), ce_session("s1"):
            setattr(store, trouble, True)
            assert str(made.kickoff(inputs={"text": "lane"})) == "Written."
            setattr(store, trouble, False)
    assert len(wire.bodies) == 2
    told = [each for each in caplog.records if each.name.startswith("ce_")]
    assert len({each.getMessage() for each in told}) <= 2
    engine.sync.close()


def refuse(_: Any) -> bool:
    return False


@pytest.mark.scenario(9)
@pytest.mark.req("A-16")
def test_a_hook_of_the_app_that_blocks_a_call_blocks_it_as_before(
    install: Any, engine: Any, stored: Any
) -> None:
    """The call was prepared; that it was refused is in its turn."""
    heard = []
    for governed in (False, True):
        with Wire("So.") as wire:
            llm = model(wire)
            llm_hooks.register_before_llm_call_hook(refuse)
            try:
                with ce_session("s1"), suppress(ValueError):
                    if governed:
                        install(llm, engine=engine)
                    llm.call([{"role": "user", "content": "lane"}])
                    heard.append("answered")
            finally:
                llm_hooks.unregister_before_llm_call_hook(refuse)
            heard.append(str(len(wire.bodies)))
    assert heard == ["0", "0"]
    assert engine.sync.flush()
    from ce_engine import Scope

    (turn,) = engine.loop.run(engine.store.list_turns(Scope(session_id="s1")))
    assert str(turn.status) == "failed"
    assert turn.report["errors"][0] in ("LLMCallBlockedError", "ValueError")


@pytest.mark.scenario(10)
@pytest.mark.req("A-16")
def test_a_provider_s_refusal_of_its_length_reaches_crewai_s_own_cure(
    install: Any, engine: Any
) -> None:
    script = [
        error(400, "maximum context length is 8192 tokens", "context_length_exceeded"),
        text("A summary."),
        text("So."),
    ]
    found = []
    for governed in (False, True):
        with Wire(script) as wire:
            made = crew(task(agent(model(wire))))
            if governed:
                install(made, engine=engine)
            with ce_session("s1"):
                found.append((str(made.kickoff(inputs={"text": "lane"})), len(wire.bodies)))
    assert found[0] == found[1]


@pytest.mark.scenario(11)
@pytest.mark.req("A-16")
def test_nobody_is_called_but_the_model(
    install: Any, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the switches that the page on CrewAI names."""
    called: set[Any] = set()
    connect = socket.socket.connect

    def noted(self: Any, address: Any) -> Any:
        called.add(address)
        return connect(self, address)

    with Wire("So.") as wire:
        port = int(wire.base_url.rpartition(":")[2].partition("/")[0])
        monkeypatch.setattr(socket.socket, "connect", noted)
        made = crew(task(agent(model(wire))))
        with install(made, engine=engine), ce_session("s1"):
            made.kickoff(inputs={"text": "lane"})
    assert {address[1] for address in called if isinstance(address, tuple)} == {port}
