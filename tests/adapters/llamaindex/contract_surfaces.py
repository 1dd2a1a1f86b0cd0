"""Ways to ask a model of LlamaIndex, for the contract suite: its own methods, and what asks it in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core import PromptTemplate
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.program import FunctionCallingProgram
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from ce_integrations.testing.answers import tool_calls
from ce_integrations.testing.framework_apps import Surface
from ce_integrations.testing.wire import Wire


PROMPT = PromptTemplate("Answer in a word: {question}")


class Meaning(BaseModel):
    """What a word means."""

    word: str
    meaning: str


MEANS = tool_calls([("Meaning", {"word": "lane", "meaning": "a line"})])


def lookup(word: str) -> str:
    """Look a word up."""
    return word.upper()


TOOL = FunctionTool.from_defaults(lookup)
LOOKS = tool_calls([("lookup", {"word": "lane"})])


def of(ask: Callable[[Any, str], Any], change: Callable[[Any], Any] = lambda model: model) -> Any:
    """A model, or what is made of it, asked in a way."""

    def make(apps: Any, wire: Wire) -> tuple[Any, Callable[[str], Any]]:
        model = apps.model(wire)
        asked = change(model)
        return model, lambda text: ask(asked, text)

    return make


def said(text: str) -> list[ChatMessage]:
    return [ChatMessage(text)]


async def achat(model: Any, text: str) -> str:
    return str(await model.achat(said(text)))


async def astream_chat(model: Any, text: str) -> list[str]:
    return [piece.delta async for piece in await model.astream_chat(said(text))]


async def acomplete(model: Any, text: str) -> str:
    return str(await model.acomplete(text))


async def astream_complete(model: Any, text: str) -> list[str]:
    return [piece.delta async for piece in await model.astream_complete(text)]


async def achat_with_tools(model: Any, text: str) -> str:
    return str(await model.achat_with_tools([TOOL], user_msg=text))


async def apredict(model: Any, text: str) -> str:
    return str(await model.apredict(PROMPT, question=text))


def synthesized(model: Any, text: str) -> str:
    pages = [NodeWithScore(node=TextNode(text="A lane is a line."), score=0.5)]
    return str(get_response_synthesizer(llm=model).synthesize(text, pages))


SURFACES = {
    "chat": Surface(of(lambda model, text: str(model.chat(said(text))))),
    "achat": Surface(of(achat)),
    "stream_chat": Surface(
        of(lambda model, text: [p.delta for p in model.stream_chat(said(text))])
    ),
    "astream_chat": Surface(of(astream_chat)),
    "complete": Surface(of(lambda model, text: str(model.complete(text)))),
    "acomplete": Surface(of(acomplete)),
    "stream_complete": Surface(
        of(lambda model, text: [piece.delta for piece in model.stream_complete(text)])
    ),
    "astream_complete": Surface(of(astream_complete)),
    "chat_with_tools": Surface(
        of(lambda model, text: str(model.chat_with_tools([TOOL], user_msg=text)))
    ),
    "achat_with_tools": Surface(of(achat_with_tools)),
    "predict_and_call": Surface(
        of(lambda model, text: str(model.predict_and_call([TOOL], text))), LOOKS
    ),
    "predict": Surface(of(lambda model, text: model.predict(PROMPT, question=text))),
    "apredict": Surface(of(apredict)),
    "structured_predict": Surface(
        of(lambda model, text: model.structured_predict(Meaning, PROMPT, question=text)), MEANS
    ),
    "as_structured_llm": Surface(
        of(
            lambda model, text: str(model.chat(said(text))),
            lambda model: model.as_structured_llm(Meaning),
        ),
        MEANS,
    ),
    "program": Surface(
        of(
            lambda program, text: program(question=text),
            lambda model: FunctionCallingProgram.from_defaults(Meaning, prompt=PROMPT, llm=model),
        ),
        MEANS,
    ),
    "response synthesizer": Surface(of(synthesized)),
    "chat engine": Surface(
        of(
            lambda engine, text: str(engine.chat(text)),
            lambda model: SimpleChatEngine.from_defaults(llm=model),
        )
    ),
}
