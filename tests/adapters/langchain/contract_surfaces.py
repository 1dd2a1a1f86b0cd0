"""Ways to ask a model of LangChain, for the contract suite: as it is, bound to something, and inside others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel

from ce_integrations.testing.answers import tool_calls
from ce_integrations.testing.framework_apps import Surface
from ce_integrations.testing.wire import Wire


class Meaning(BaseModel):
    """What a word means."""

    word: str
    meaning: str


MEANS = tool_calls([("Meaning", {"word": "lane", "meaning": "a line"})])


def of(ask: Callable[[Any, str], Any], change: Callable[[Any], Any] = lambda model: model) -> Any:
    """A model, changed in a way and asked in a way."""

    def make(apps: Any, wire: Wire) -> tuple[Any, Callable[[str], Any]]:
        model = change(apps.model(wire))
        return model, lambda text: ask(model, text)

    return make


def invoke(model: Any, text: str) -> str:
    return str(model.invoke(text).content)


async def ainvoke(model: Any, text: str) -> str:
    return str((await model.ainvoke(text)).content)


async def astream(model: Any, text: str) -> str:
    return "".join([chunk.content async for chunk in model.astream(text)])


async def events(model: Any, text: str) -> str:
    return "".join(
        [
            event["data"]["chunk"].content
            async for event in model.astream_events(text, version="v2")
            if event["event"] == "on_chat_model_stream"
        ]
    )


SURFACES = {
    "invoke": Surface(of(invoke)),
    "ainvoke": Surface(of(ainvoke)),
    "stream": Surface(of(lambda model, text: "".join(c.content for c in model.stream(text)))),
    "astream": Surface(of(astream)),
    "astream_events": Surface(of(events)),
    "batch": Surface(of(lambda model, text: [m.content for m in model.batch([text])])),
    "generate": Surface(
        of(lambda model, text: model.generate([[HumanMessage(text)]]).generations[0][0].text)
    ),
    "bind_tools": Surface(
        of(
            lambda model, text: str(model.invoke(text).tool_calls),
            lambda m: m.bind_tools([Meaning]),
        ),
        MEANS,
    ),
    "with_structured_output": Surface(
        of(
            lambda model, text: model.invoke(text),
            lambda model: model.with_structured_output(Meaning, method="function_calling"),
        ),
        MEANS,
    ),
    "with_retry": Surface(of(invoke, lambda model: model.with_retry())),
    "with_fallbacks": Surface(of(invoke, lambda model: model.with_fallbacks([model]))),
    "in a function": Surface(
        of(invoke, lambda m: RunnableLambda(lambda text: m.invoke([HumanMessage(text)]))),
        history=True,
    ),
}
