"""What the engine puts in goes into the leading system message, whatever the client bears."""

from __future__ import annotations

from typing import Any

import pytest

from ce_engine import Scope
from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.autogen.configurations import TASK, agent


@pytest.mark.scenario(5)
@pytest.mark.req("D-06", "E-03")
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("system", ["You are ann.", None])
async def test_rules_go_into_the_leading_system_message(
    client: Any, engine: Any, several: bool, system: str | None
) -> None:
    engine.sync.constraints.create(Scope(session_id="any"), "Answer in English.")
    with Wire(single_system=True) as wire:
        ann = agent("ann", client(wire, multiple_system_messages=several), system_message=system)
        own = list(ann._system_messages)
        with install_ce(ann, engine=engine), ce_session("s"):
            await ann.run(task=TASK)
            await ann.run(task="And a turn?")
        assert wire.refusals == []
        for body in wire.bodies:
            first, *others = body["messages"]
            assert first["role"] == "system"
            assert first["content"].startswith(system or "")
            assert "1. Answer in English." in first["content"]
            assert {other["role"] for other in others} <= {"user", "assistant"}
        assert ann._system_messages == own
        assert "Answer in English." not in str(await ann.model_context.get_messages())
