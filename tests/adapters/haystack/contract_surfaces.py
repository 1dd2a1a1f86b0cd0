"""Ways to ask a model of Haystack, for the contract suite: its own methods, and what asks it in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from haystack import Pipeline, SuperComponent, component
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import LLM, FallbackChatGenerator
from haystack.components.query import QueryExpander
from haystack.components.rankers import LLMRanker
from haystack.dataclasses import ChatMessage, Document
from haystack.tools.component_tool import ComponentTool
from haystack.tools.from_function import create_tool_from_function
from pydantic import BaseModel

from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.framework_apps import Surface
from ce_integrations.testing.wire import Wire


class Meaning(BaseModel):
    """What a word means."""

    word: str
    meaning: str


MEANS = '{"word": "lane", "meaning": "a line"}'


def lookup(word: str) -> str:
    """Look a word up."""
    return word.upper()


TOOL = create_tool_from_function(lookup)
LOOKS = [tool_calls([("lookup", {"word": "lane"})]), text("A line.")]


def of(ask: Callable[[Any, str], Any], change: Callable[[Any], Any] = lambda model: model) -> Any:
    """A model, or what is made of it, asked in a way."""

    def make(apps: Any, wire: Wire) -> tuple[Any, Callable[[str], Any]]:
        asked = change(apps.model(wire))
        return asked, lambda text: ask(asked, text)

    return make


def said(text: str) -> list[ChatMessage]:
    return [ChatMessage.from_user(text)]


def replied(given: Any) -> list[str | None]:
    return [each.text for each in given["replies"]]


async def areplied(given: Any) -> list[str | None]:
    return replied(await given)


def told(model: Any, text: str) -> list[str]:
    pieces: list[str] = []
    model.run(said(text), lambda chunk: pieces.append(chunk.content))
    return pieces


async def atold(model: Any, text: str) -> list[str]:
    pieces: list[str] = []

    async def push(chunk: Any) -> None:
        pieces.append(chunk.content)

    await model.run_async(said(text), streaming_callback=push)
    return pieces


def streaming(model: Any) -> Any:
    """It was made with a callback."""
    model.streaming_callback = print_nothing
    return model


def print_nothing(chunk: Any) -> None:
    """An app's callback."""


def prompting(model: Any) -> Pipeline:
    made = Pipeline()
    made.add_component("prompt", ChatPromptBuilder(template=said("In a word: {{question}}")))
    made.add_component("llm", model)
    made.connect("prompt", "llm")
    return made


def asked(text: str) -> dict[str, Any]:
    return {"prompt": {"question": text}}


async def arun(pipeline: Any, text: str) -> Any:
    return replied((await pipeline.run_async(asked(text)))["llm"])


async def agenerate(pipeline: Any, text: str) -> list[Any]:
    return [sorted(each) async for each in pipeline.run_async_generator(asked(text))]


async def astream(pipeline: Any, text: str) -> list[str]:
    return [chunk.content async for chunk in pipeline.stream(asked(text))]


def last(given: Any) -> str | None:
    reply: str | None = given["last_message"].text
    return reply


async def alast(given: Any) -> str | None:
    return last(await given)


def expanding(model: Any) -> Pipeline:
    made = Pipeline()
    made.add_component("expander", QueryExpander(chat_generator=model))
    return made


def ranking(model: Any) -> Pipeline:
    made = Pipeline()
    made.add_component("ranker", LLMRanker(chat_generator=model))
    return made


DOCUMENTS = [Document(content="A lane is a line."), Document(content="A cut.")]


@component
class Own:
    """An app's own component, which asks a model."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @component.output_types(answer=str)
    def run(self, question: str) -> dict[str, str]:
        return {"answer": self.model.run(messages=said(question))["replies"][0].text}


def owning(model: Any) -> Pipeline:
    made = Pipeline()
    made.add_component("own", Own(model))
    return made


def holding(model: Any) -> Agent:
    """An agent with a pipeline's component as a tool."""
    tool = ComponentTool(component=Own(model), name="lookup", description="Look a word up.")
    return Agent(chat_generator=model, tools=[tool])


HOLDS = [tool_calls([("lookup", {"question": "lane"})]), text("A line."), text("It is a line.")]

SURFACES = {
    "run": Surface(of(lambda model, text: replied(model.run(messages=said(text))))),
    "run_async": Surface(of(lambda model, text: areplied(model.run_async(said(text))))),
    "run by place": Surface(of(lambda model, text: replied(model.run(said(text), None, {})))),
    "run with a text": Surface(of(lambda model, text: replied(model.run(text)))),
    "run with a callback": Surface(of(told)),
    "run_async with a callback": Surface(of(atold)),
    "a callback of its own": Surface(
        of(lambda model, text: replied(model.run(said(text))), streaming)
    ),
    "tools": Surface(
        of(lambda model, text: str(model.run(said(text), tools=[TOOL])["replies"])), LOOKS
    ),
    "structured output": Surface(
        of(
            lambda model, text: replied(
                model.run(said(text), generation_kwargs={"response_format": Meaning})
            )
        ),
        MEANS,
    ),
    "fallback": Surface(
        of(
            lambda model, text: replied(model.run(said(text))),
            lambda model: FallbackChatGenerator([model]),
        )
    ),
    "pipeline": Surface(
        of(lambda pipeline, text: replied(pipeline.run(asked(text))["llm"]), prompting),
        history=True,
    ),
    "pipeline, awaited": Surface(of(arun, prompting), history=True),
    "pipeline, step by step": Surface(of(agenerate, prompting), history=True),
    "pipeline, streamed": Surface(of(astream, prompting), history=True),
    "super component": Surface(
        of(
            lambda held, text: replied(held.run(question=text)),
            lambda model: SuperComponent(prompting(model)),
        ),
        history=True,
    ),
    "agent": Surface(
        of(
            lambda agent, text: last(agent.run(messages=said(text))),
            lambda model: Agent(chat_generator=model, tools=[TOOL]),
        ),
        LOOKS,
        history=True,
    ),
    "agent, awaited": Surface(
        of(
            lambda agent, text: alast(agent.run_async(messages=said(text))),
            lambda model: Agent(chat_generator=model, tools=[TOOL]),
        ),
        LOOKS,
        history=True,
    ),
    "LLM": Surface(
        of(
            lambda llm, text: last(llm.run(question=text)),
            lambda model: LLM(chat_generator=model, user_prompt="In a word: {{question}}"),
        ),
        history=True,
    ),
    "query expander": Surface(
        of(
            lambda pipeline, text: pipeline.run({"expander": {"query": text}})["expander"],
            expanding,
        ),
        '{"queries": ["line"]}',
    ),
    "ranker": Surface(
        of(
            lambda pipeline, text: str(
                pipeline.run({"ranker": {"query": text, "documents": DOCUMENTS}})
            ),
            ranking,
        ),
        '{"documents": [{"index": 1}]}',
    ),
    "a component of the app's own": Surface(
        of(lambda pipeline, text: pipeline.run({"own": {"question": text}})["own"], owning)
    ),
    "a component as a tool": Surface(
        of(lambda agent, text: last(agent.run(messages=said(text))), holding), HOLDS
    ),
}
