"""What was said in the session before goes in where the app asks for it, and into no prompt that stands alone."""

from __future__ import annotations

from contextvars import copy_context
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from pydantic import BaseModel

from ce_engine import ConfigError, RuntimeConfig
from ce_integrations import ce_session
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.answers import tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.llamaindex import shelf


PROMPT = PromptTemplate("Translate: {q}")
MEANS = tool_calls([("Meaning", {"word": "lane", "meaning": "a line"})])


class Meaning(BaseModel):
    """What a word means."""

    word: str
    meaning: str


def lengths(wire: Wire) -> list[int]:
    return [len(body["messages"]) for body in wire.bodies]


@pytest.fixture
def settings() -> Any:
    before = Settings._llm
    yield Settings
    Settings._llm = before


@pytest.mark.parametrize("history", [None, True])
def test_settings_prompts_stand_alone(
    model: Any, engine: Any, settings: Any, history: bool | None
) -> None:
    """`predict`, `complete` and `structured_predict` are one prompt each, in a session, too."""
    with Wire("yes") as wire:
        settings.llm = model(wire)
        with install_ce(settings, engine=engine), ce_session("s", history=history):
            for words in ("one", "two", "three"):
                settings.llm.predict(PROMPT, q=words)
            settings.llm.complete("four")
            settings.llm.chat([ChatMessage("five")])
        assert lengths(wire) == [1] * 5
    with Wire(MEANS) as wire:
        settings.llm = model(wire)
        with install_ce(settings, engine=engine), ce_session("s", history=history):
            settings.llm.structured_predict(Meaning, PROMPT, q="six")
        assert lengths(wire) == [1]


class Talk(Workflow):
    """An app's own workflow, which keeps nothing."""

    llm: Any = None

    @step
    async def answer(self, ev: StartEvent) -> StopEvent:
        said = await self.llm.achat([ChatMessage(ev.q)])
        return StopEvent(str(said.message.content))


class Prompts(Workflow):
    llm: Any = None

    @step
    async def answer(self, ev: StartEvent) -> StopEvent:
        return StopEvent(await self.llm.apredict(PROMPT, q=ev.q))


def asked(runner: Any, kind: Any, llm: Any, engine: Any, **options: Any) -> None:
    made = kind()
    made.llm = llm

    async def run(words: str) -> None:
        with ce_session("s"):
            await made.run(q=words)

    with install_ce(made, engine=engine, **options):
        for words in ("one", "two", "three"):
            runner.run(run(words), context=copy_context())


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, [1, 1, 1]),
        ({"history": True}, [1, 3, 5]),
        ({"config": RuntimeConfig(history="session")}, [1, 3, 5]),
    ],
    ids=["unasked", "option", "config"],
)
def test_a_workflow_of_the_app_s_own(
    model: Any, engine: Any, runner: Any, options: Any, sent: list[int]
) -> None:
    with Wire("yes") as wire:
        asked(runner, Talk, model(wire), engine, **options)
        assert lengths(wire) == sent


def test_a_prompt_in_a_workflow_stands_alone(model: Any, engine: Any, runner: Any) -> None:
    with Wire("yes") as wire:
        asked(runner, Prompts, model(wire), engine, history=True)
        assert lengths(wire) == [1, 1, 1]


@pytest.mark.parametrize("make", [lambda llm: llm, shelf.query, lambda llm: shelf.Shelf()])
def test_what_holds_no_conversation_takes_none(model: Any, engine: Any, make: Any) -> None:
    with Wire("yes") as wire, pytest.raises(ConfigError, match="on the chain or engine that holds"):
        install_ce(make(model(wire)), engine=engine, history=True)


def test_a_chat_engine_that_is_made_anew_goes_on_where_it_is_asked_for(
    model: Any, engine: Any
) -> None:
    """As a server does it that makes one for each request."""
    with Wire("yes") as wire:
        for history in (None, True):
            for words in ("one", "two"):
                chat = shelf.simple(model(wire))
                with install_ce(chat, engine=engine, history=history):
                    chat.chat(words)
        assert lengths(wire) == [2, 2, 6, 8]
