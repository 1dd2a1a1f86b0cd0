"""What a callback of LangChain's begins during a call of a model is a call of its own, with the same model too."""

from __future__ import annotations

import asyncio
import threading
from contextvars import copy_context
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler

from ce_engine import MemoryStore, create_context_engine
from ce_integrations.langchain import install_ce
from ce_integrations.testing.contract_case import echo
from ce_integrations.testing.wire import Wire
from tests.adapters.langchain.conftest import Model


def whose(name: str) -> dict[str, Any]:
    return {"metadata": {"session_id": name}}


class Beginning(AsyncCallbackHandler):
    """Begins a task for another user, once."""

    def __init__(self, model: Any, event: str) -> None:
        self.begun: list[asyncio.Task[Any]] = []

        async def begin(*_: Any, **__: Any) -> None:
            if not self.begun:
                asked = model.ainvoke("bob's", whose("bob"))
                self.begun.append(asyncio.create_task(asked))

        setattr(self, event, begin)


class BeginningAThread(BaseCallbackHandler):
    """The same, for calls that block."""

    def __init__(self, model: Any, event: str) -> None:
        self.begun: list[threading.Thread] = []

        def begin(*_: Any, **__: Any) -> None:
            if not self.begun:
                run = copy_context().run
                thread = threading.Thread(
                    target=run, args=(model.invoke, "bob's", whose("bob")), daemon=True
                )
                self.begun.append(thread)
                thread.start()
                thread.join(60)

        setattr(self, event, begin)


EVENTS = ["on_chat_model_start", "on_llm_new_token", "on_llm_end"]
SAID = {name: [f"{name}'s", f"heard: {name}'s"] for name in ("ann", "bob")}


def recorded(engine: Any) -> dict[str, list[str]]:
    assert engine.sync.flush()
    ids = [each.session_id for each in engine.sync.list_sessions(user_id=None, ephemeral=True)]
    read = {each: engine.sync.get_session(each) for each in ids}
    return {each: [m.content for m in found.session.messages] for each, found in read.items()}


@pytest.mark.parametrize("event", EVENTS)
def test_a_task(chat: Model, runner: asyncio.Runner, event: str) -> None:
    engine = create_context_engine(MemoryStore())
    with Wire(echo) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine):
            handler = Beginning(model, event)

            async def ask() -> None:
                config: Any = {**whose("ann"), "callbacks": [handler]}
                async for _ in model.astream("ann's", config):
                    pass
                await asyncio.gather(*handler.begun)

            runner.run(ask())
        assert recorded(engine) == SAID
    engine.sync.close()


@pytest.mark.parametrize("event", EVENTS)
def test_a_thread(chat: Model, event: str) -> None:
    engine = create_context_engine(MemoryStore())
    with Wire(echo) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine):
            config: Any = {**whose("ann"), "callbacks": [BeginningAThread(model, event)]}
            assert [*model.stream("ann's", config)]
        assert recorded(engine) == SAID
    engine.sync.close()
