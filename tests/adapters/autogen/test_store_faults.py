"""The store is away or hangs, or we fail: the app sends and gets what it would without us (decision 10)."""

from __future__ import annotations

from typing import Any

import pytest
from autogen_agentchat.teams import RoundRobinGroupChat

from ce_engine import create_context_engine
from ce_engine.testing.faults import SwitchStore
from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.autogen.installer import AutoGenAdapter
from ce_integrations.testing.wire import Wire
from tests.adapters.autogen.configurations import TASK, agents


pytestmark = [pytest.mark.scenario(12), pytest.mark.production_guard]


async def run(client: Any, store: SwitchStore | None, trouble: Any = None) -> Any:
    """A team's two tasks, in trouble from the second on; what it sent and gave."""
    with Wire() as wire:
        team = RoundRobinGroupChat(agents(client(wire)), max_turns=3)
        engine = None if store is None else create_context_engine(store)
        installed = None if engine is None else install_ce(team, engine=engine)
        given: list[Any] = []
        with ce_session("s"):
            given += (await team.run(task=TASK)).messages
            if trouble is not None:
                trouble(store)
            given += (await team.run(task="And a turn?")).messages
        if store is not None:
            store.refuses = store.hangs = False
        if installed is not None:
            installed.uninstall()
        if engine is not None:
            engine.sync.close()
        assert wire.refusals == []
        return [sent.raw for sent in wire.requests], [(m.source, m.to_text()) for m in given]


def refuse(store: SwitchStore) -> None:
    store.refuses = True


def hang(store: SwitchStore) -> None:
    store.hangs = True


@pytest.mark.parametrize("trouble", [refuse, hang])
async def test_the_store(client: Any, trouble: Any) -> None:
    assert await run(client, SwitchStore(), trouble) == await run(client, None)


@pytest.mark.parametrize("method", ["to_schema", "split", "to_answer", "map_model_usage"])
async def test_a_fault_of_the_adapter(
    client: Any, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    plain = await run(client, None)

    def fails(*_: Any) -> Any:
        raise LookupError("a fault of ours")

    monkeypatch.setattr(AutoGenAdapter, method, fails)
    assert await run(client, SwitchStore()) == plain
