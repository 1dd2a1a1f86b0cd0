"""Conversations that an app has through `langchain-openai`, with us installed: recorded, replayed, or live."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
)
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    MemoryStore,
    RuntimeConfig,
    Scope,
    SessionDocument,
    create_context_engine,
)
from ce_integrations.langchain import install_ce


MODEL = "smollm2-135m-instruct"
REPLY_TOKENS = 24
TIMEOUT_S = 300.0
SMALL = BudgetConfig(max_input_tokens=240, reserved_reply_tokens=40)
ROOMY = BudgetConfig(max_input_tokens=2000)


@dataclass
class Talk:
    """What the app said and got, and what is in the store."""

    ask: Callable[[Any, list[BaseMessage]], AIMessage]
    history: list[BaseMessage] = field(default_factory=list)
    answers: list[AIMessage] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    document: SessionDocument | None = None

    def say(self, model: Any, *messages: BaseMessage) -> None:
        """The app always sends all that was said."""
        self.history += messages
        self.answers.append(self.ask(model, list(self.history)))
        self.history.append(self.answers[-1])


class Served(ChatOpenAI):
    """For llama-cpp-python 0.3.36, which takes no `null` as the content of an answer that is calls only."""

    def _get_request_payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        payload = super()._get_request_payload(*args, **kwargs)
        for message in payload["messages"]:
            message["content"] = message["content"] or ""
        return payload


class Standing:
    """A clock: what we put into a request has a date, which is to be the same every time."""

    def now_iso(self) -> str:
        return "2026-11-22T00:00:00.000Z"


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: 晴, 21 degrees"


def chat(model: ChatOpenAI, talk: Talk) -> None:
    """Five questions, which soon are too much for the budget."""
    talk.history.append(SystemMessage("You are a guide. Answer in one short sentence."))
    for city in ("Paris", "Rome", "Oslo", "Cairo", "Lima"):
        question = f"I have two days in {city} and like museums, parks and soup. What do I see?"
        talk.say(model, HumanMessage(question))


def chinese(model: ChatOpenAI, talk: Talk) -> None:
    talk.say(model, HumanMessage("你好！请用一句话介绍北京。🙂"))


def tools(model: ChatOpenAI, talk: Talk) -> None:
    """The app runs what the model calls, and shows it the result."""
    bound = model.bind_tools([weather], tool_choice="weather")
    talk.say(bound, HumanMessage("What is the weather in Oslo?"))
    talk.say(model, *(weather.invoke(call) for call in talk.answers[-1].tool_calls))


@dataclass(frozen=True)
class Plan:
    conversation: Callable[[ChatOpenAI, Talk], None]
    budget: BudgetConfig = ROOMY
    streamed: bool = False


TALKS = {
    "chat": Plan(chat, SMALL),
    "chinese": Plan(chinese),
    "stream": Plan(chat, SMALL, streamed=True),
    "tools": Plan(tools),
}


def hold(name: str, base_url: str, *, asynchronous: bool = False) -> Talk:
    """Have a conversation with the model at `base_url`, or with a tape; gives what came of it."""
    plan = TALKS[name]
    with ExitStack() as ending:
        # An estimator that needs no vocabulary: what is sent is the same on every machine.
        engine = create_context_engine(
            MemoryStore(),
            CharBasedEstimator(),
            config=RuntimeConfig(budget=plan.budget),
            clock=Standing(),
        )
        ending.callback(engine.sync.close)
        runner = ending.enter_context(asyncio.Runner())

        def settled(model: Any, messages: list[BaseMessage]) -> AIMessage:
            answer = _ask(model, messages, plan.streamed, runner if asynchronous else None)
            assert engine.sync.flush()  # else what is recalled depends on how fast it was stored
            return answer

        model, talk = _model(base_url, ending, runner), Talk(settled)
        with install_ce(model, engine=engine, session_id=name):
            plan.conversation(model, talk)
        scope = Scope(session_id=name)
        talk.document = engine.loop.run(engine.store.get_session(scope))
        talk.reports = [turn.report for turn in engine.loop.run(engine.store.list_turns(scope))]
    return talk


def _model(base_url: str, ending: ExitStack, runner: asyncio.Runner) -> ChatOpenAI:
    client, async_client = DefaultHttpxClient(), DefaultAsyncHttpxClient()
    ending.callback(client.close)
    ending.callback(lambda: runner.run(async_client.aclose()))
    settings: dict[str, Any] = {
        "model": MODEL,
        "base_url": base_url,
        "api_key": "no key",
        "temperature": 0,
        "max_retries": 0,
        "timeout": TIMEOUT_S,
        "http_client": client,
        "http_async_client": async_client,
        # Not `max_tokens`, which goes out under a name that the recorded server does not know.
        "extra_body": {"max_tokens": REPLY_TOKENS},
    }
    return Served(**settings)


def _ask(
    model: Any, messages: list[BaseMessage], streamed: bool, runner: asyncio.Runner | None
) -> AIMessage:
    answer: AIMessage
    if not streamed:
        answer = runner.run(model.ainvoke(messages)) if runner else model.invoke(messages)
        return answer

    async def collect() -> list[AIMessageChunk]:
        return [chunk async for chunk in model.astream(messages)]

    chunks = runner.run(collect()) if runner else list(model.stream(messages))
    answer = chunks[0]
    for chunk in chunks[1:]:
        answer = answer + chunk
    return answer
