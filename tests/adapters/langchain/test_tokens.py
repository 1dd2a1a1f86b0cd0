"""Tokens that a model tells its handlers on the way, in every form that models tell them in."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import LLM, BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from ce_integrations.langchain import install_ce
from tests.adapters.langchain.rows import rows


class Hearing(BaseCallbackHandler):
    def __init__(self) -> None:
        self.tokens: list[Any] = []

    def on_llm_new_token(self, token: Any, **_: Any) -> None:
        self.tokens.append(token)


class InBlocks(BaseChatModel):
    """Its content is blocks, as Anthropic's and that of OpenAI's responses are; it may break off."""

    breaks: bool = False

    @property
    def _llm_type(self) -> str:
        return "in blocks"

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any
    ) -> ChatResult:
        blocks: list[Any] = [
            {"type": "text", "text": "你好, ", "index": 0},
            {"type": "reasoning", "reasoning": "hm", "index": 1},
            {"type": "text", "text": "you", "index": 2},
        ]
        for token in ([], *([block] for block in blocks)):
            run_manager.on_llm_new_token(token)
        if self.breaks:
            raise ConnectionResetError
        return ChatResult(generations=[ChatGeneration(message=AIMessage(blocks))])


class Tells(LLM):
    """Names the argument, as llama.cpp's does, and tells what is no text."""

    @property
    def _llm_type(self) -> str:
        return "tells"

    def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **_: Any) -> str:
        run_manager.on_llm_new_token(token=prompt, verbose=True)
        for token in (None, 7, {"delta": "x"}):
            run_manager.on_llm_new_token(token)
        return prompt


def ask(model: Any, way: str, runner: asyncio.Runner) -> tuple[Any, list[Any]]:
    hearing = Hearing()
    config: Any = {"callbacks": [hearing], "configurable": {"thread_id": "t"}}
    if way == "invoke":
        answer = model.invoke("hi", config)
    else:
        answer = runner.run(model.ainvoke("hi", config))
    return getattr(answer, "content", answer), hearing.tokens


MODELS = (InBlocks(), Tells())


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model._llm_type))
def test_they_go_by_as_they_are(engine: Any, runner: Any, model: Any, way: str) -> None:
    before = ask(model, way, runner)
    with install_ce(model, engine=engine):
        assert ask(model, way, runner) == before
    assert len(before[1]) >= 4
    assert [turn[2] for turn in rows(engine, "t")["turns"]] == ["committed"]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_of_an_answer_that_breaks_off_the_text_is_kept(engine: Any, runner: Any, way: str) -> None:
    model = InBlocks(breaks=True)
    with install_ce(model, engine=engine), pytest.raises(ConnectionResetError):
        ask(model, way, runner)
    found = rows(engine, "t")
    assert [turn[2] for turn in found["turns"]] == ["failed"]
    assert [each[1] for each in found["messages"] if each[0] == "assistant"] == ["你好, you"]


class Asks(BaseChatModel):
    """Asks another model for a draft, and perhaps itself, before it answers; it breaks off."""

    asks_itself: bool = False

    @property
    def _llm_type(self) -> str:
        return "asks"

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any
    ) -> ChatResult:
        if "draft" in str(messages):
            run_manager.on_llm_new_token("A draft. ")
            return ChatResult(generations=[ChatGeneration(message=AIMessage("A draft. "))])
        (self if self.asks_itself else Asks()).invoke("draft", {"callbacks": []})
        for token in ("An ", "answer"):
            run_manager.on_llm_new_token(token)
        raise ConnectionResetError


@pytest.mark.parametrize("asks_itself", [False, True])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_what_another_model_says_inside_is_no_part_of_the_answer(
    engine: Any, runner: Any, way: str, asks_itself: bool
) -> None:
    model = Asks(asks_itself=asks_itself)
    with install_ce(model, engine=engine), pytest.raises(ConnectionResetError):
        ask(model, way, runner)
    found = rows(engine, "t")["messages"]
    assert [each[1] for each in found if each[0] == "assistant"] == ["An answer"]
