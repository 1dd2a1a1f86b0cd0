"""What a review found: clients that know each other are governed like any."""

from __future__ import annotations

from typing import Any

from autogen_core.models import SystemMessage, UserMessage

from ce_integrations.autogen import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.autogen.contract_apps import AgentApps


def test_clients_that_know_each_other_are_governed(runner: Any, engine: Any) -> None:
    apps = AgentApps()
    with Wire("ok") as wire:
        one: Any = apps.client(wire)
        other: Any = apps.client(wire)
        one.fallback, other.primary = other, one
        said: list[Any] = [SystemMessage(content="S")]
        said += [UserMessage(content=f"{n} " + "word " * 40, source="user") for n in range(20)]
        with install_ce(one, engine=engine, session_id="s", budget=200) as installation:
            runner.run(one.create(said))
            assert installation.faults == ()
        assert len(wire.bodies[0]["messages"]) < len(said)
        runner.run(apps.aclose())
