"""A history that LangChain wrote as JSON is imported; the app that goes on with it is recognised."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)
from langchain_core.prompts import ChatPromptTemplate

from ce_engine import BudgetConfig, RuntimeConfig, Scope, StoreConfig, create_context_engine
from ce_integrations import ce_session
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire
from tests.hosts.cli_host import ce, url_of


PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=30))  # a busy machine is no fault here
PICTURE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNg"
ASKED = [{"name": "find", "args": {"what": "钥匙", "n": 2}, "id": "call_1"}]
HISTORY: list[BaseMessage] = [
    SystemMessage("You help."),
    HumanMessage("Where is my key?", name="Ann", id="h1"),
    AIMessage("Let me see.", tool_calls=ASKED),
    ToolMessage("on the shelf", tool_call_id="call_1"),
    AIMessage("Your key is on the shelf.", id="run-1"),
    HumanMessage(
        [
            {"type": "text", "text": "And what is this?"},
            {"type": "image_url", "image_url": {"url": PICTURE}},
        ]
    ),
    AIMessage([{"type": "text", "text": "一只青花瓷的猫。"}]),
]
FORMS: dict[str, Callable[[list[BaseMessage]], Any]] = {
    "messages_to_dict": messages_to_dict,
    "dumpd": lambda messages: [dumpd(message) for message in messages],
    "an object": lambda messages: {"messages": messages_to_dict(messages)},
}


@pytest.fixture(params=FORMS)
def imported(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store into which the history was imported, as session `s`."""
    file, url = tmp_path / "history.json", url_of(tmp_path / "ce.db")
    file.write_text(json.dumps(FORMS[request.param](HISTORY), ensure_ascii=False), encoding="utf-8")
    done = ce("import", str(file), "--session", "s", "--store", url)
    assert done.exit_code == 0, done.stderr
    assert "s: 6 new, 0 known, 1 of the system" in done.stdout
    return url


def contents(engine: Any) -> list[tuple[str, str]]:
    assert engine.sync.flush()
    document = engine.loop.run(engine.store.get_session(Scope(session_id="s")))
    assert document is not None
    return [(str(m.role), m.content) for m in document.session.messages]


def test_an_app_that_goes_on_stores_nothing_twice(imported: str, chat: Any) -> None:
    engine = create_context_engine(imported, config=PATIENT)
    before = contents(engine)
    with Wire("It stands on the shelf, too.") as wire:
        model = chat(wire)
        with install_ce(model, engine=engine), ce_session("s"):
            model.invoke([*HISTORY, HumanMessage("Where does it stand?")])
        assert len(wire.bodies[0]["messages"]) == 8
    assert contents(engine)[:6] == before
    assert contents(engine)[6:] == [
        ("user", "Where does it stand?"),
        ("assistant", "It stands on the shelf, too."),
    ]
    document = engine.loop.run(engine.store.get_session(Scope(session_id="s")))
    assert document is not None
    (call,) = document.session.tool_state.tool_calls
    assert (call.tool, call.args_digest) == ("find", ASKED[0]["args"])
    engine.sync.close()


def test_what_was_imported_is_recalled(imported: str, chat: Any) -> None:
    engine = create_context_engine(imported, config=PATIENT)
    config = PATIENT.model_copy(update={"budget": BudgetConfig(max_input_tokens=1000)})
    with Wire("On the shelf.") as wire:
        chain = ChatPromptTemplate.from_messages([("human", "{q}")]) | chat(wire)
        with install_ce(chain, engine=engine, config=config, history=True), ce_session("s"):
            chain.invoke({"q": "Once more: where is the key?"})
        assert "Your key is on the shelf." in json.dumps(wire.bodies[0], ensure_ascii=False)
    engine.sync.close()
