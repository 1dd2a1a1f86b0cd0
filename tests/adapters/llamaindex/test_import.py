"""A history that LlamaIndex wrote as JSON is imported; the app that goes on with it is recognised."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms import types
from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.storage.chat_store import SimpleChatStore

from ce_engine import RuntimeConfig, Scope, StoreConfig, create_context_engine
from ce_integrations import ce_session
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.wire import Wire
from tests.hosts.cli_host import ce, url_of


PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=30))  # a busy machine is no fault here


def asking() -> ChatMessage:
    if not hasattr(types, "ToolCallBlock"):  # before 0.14
        call = {"id": "call_1", "function": {"name": "find", "arguments": '{"n": 2}'}}
        told = {"tool_calls": [{**call, "type": "function"}]}
        return ChatMessage(role="assistant", content="Let me see.", additional_kwargs=told)
    block = types.ToolCallBlock(tool_call_id="call_1", tool_name="find", tool_kwargs={"n": 2})
    return ChatMessage(role="assistant", blocks=[TextBlock(text="Let me see."), block])


HISTORY = [
    ChatMessage(role="system", content="You help."),
    ChatMessage(role="user", content="我的钥匙在哪里?"),
    asking(),
    ChatMessage(role="tool", content="书架上", additional_kwargs={"tool_call_id": "call_1"}),
    ChatMessage(role="assistant", content="你的钥匙在书架上。"),
    ChatMessage(role="user", blocks=[TextBlock(text="Thank you."), TextBlock(text="Bye.")]),
    ChatMessage(
        role="assistant",
        content='Thought: I need a tool.\nAction: add\nAction Input: {"a": 1}',
    ),
    ChatMessage(role="user", content="Observation: 2"),
    ChatMessage(role="assistant", content="Bye."),
]


def dumped(messages: list[ChatMessage]) -> Any:
    return [message.model_dump(mode="json") for message in messages]


def chat_store(messages: list[ChatMessage]) -> Any:
    store = SimpleChatStore()
    store.set_messages("s", messages)
    return json.loads(store.json())


FORMS: dict[str, Callable[[list[ChatMessage]], Any]] = {"dumped": dumped, "a store": chat_store}


@pytest.mark.parametrize(
    "form", ["dumped", pytest.param("a store", marks=pytest.mark.needs("chat_stores_as_json"))]
)
def test_an_app_that_goes_on_stores_nothing_twice(form: str, tmp_path: Path, model: Any) -> None:
    file, url = tmp_path / "s.json", url_of(tmp_path / "ce.db")
    file.write_text(json.dumps(FORMS[form](HISTORY)), encoding="utf-8")
    done = ce("import", str(file), "--store", url)  # the store names it `s`, and so does the file
    assert done.exit_code == 0, done.stderr
    assert "s: 8 new, 0 known, 1 of the system" in done.stdout
    engine = create_context_engine(url, config=PATIENT)
    with Wire("再见。") as wire:
        llm = model(wire)
        with install_ce(llm, engine=engine), ce_session("s"):
            llm.chat([*HISTORY, ChatMessage(role="user", content="See you.")])
    assert engine.sync.flush()
    document = engine.loop.run(engine.store.get_session(Scope(session_id="s")))
    assert document is not None
    said = [(str(m.role), m.content) for m in document.session.messages]
    assert len(said) == 10
    assert said[8:] == [("user", "See you."), ("assistant", "再见。")]
    assert [call.tool for call in document.session.tool_state.tool_calls] == ["find", "add"]
    engine.sync.close()
