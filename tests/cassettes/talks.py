"""Conversations with a model, with us installed, the same in every framework: recorded, replayed, or live."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    MemoryStore,
    RuntimeConfig,
    Scope,
    SessionDocument,
    create_context_engine,
)
from ce_engine.testing import IdsInOrder
from tests.cassettes.line import Body, Line


MODEL = "smollm2-135m-instruct"
REPLY_TOKENS = 24
TIMEOUT_S = 300.0
SMALL = BudgetConfig(max_input_tokens=240, reserved_reply_tokens=40)
ROOMY = BudgetConfig(max_input_tokens=2000)


@dataclass(frozen=True)
class Plan:
    """What a person says in a conversation, and what the app is made with."""

    questions: tuple[str, ...]
    budget: BudgetConfig = ROOMY
    system: str | None = None
    streamed: bool = False
    tools: bool = False


GUIDE = "You are a guide. Answer in one short sentence."
TRAVELS = tuple(  # which soon are too much for the budget
    f"I have two days in {city} and like museums, parks and soup. What do I see?"
    for city in ("Paris", "Rome", "Oslo", "Cairo", "Lima")
)
PLANS = {
    "chat": Plan(TRAVELS, SMALL, GUIDE),
    "chinese": Plan(("你好！请用一句话介绍北京。🙂",)),
    "stream": Plan(TRAVELS, SMALL, GUIDE, streamed=True),
    "tools": Plan(("What is the weather in Oslo?",), tools=True),
}


def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: 晴, 21 degrees"


class App(ABC):
    """An app of a framework; it keeps its conversation as apps of that framework do."""

    framework: ClassVar[str]
    install: ClassVar[Callable[..., Any]]
    """The framework's `install_ce`."""
    target: Any
    """What we are installed on."""

    @abstractmethod
    def __init__(self, line: Line, plan: Plan) -> None: ...

    @abstractmethod
    def say(self, text: str) -> str:
        """The answer; tools that the model calls are run before."""


@dataclass(frozen=True)
class Talk:
    """What was said, what was on the wire, and what is in the store."""

    questions: tuple[str, ...]
    answers: list[str]
    asked: list[Body]
    answered: list[Body | None]
    document: SessionDocument
    reports: list[dict[str, Any]]


class Standing:
    """A clock: what we put into a request has a date, which is to be the same every time."""

    def now_iso(self) -> str:
        return "2026-11-22T00:00:00.000Z"


def hold(app_class: type[App], name: str, base_url: str, *, asynchronous: bool = False) -> Talk:
    """Have a conversation with the model at `base_url`, or with a tape; gives what came of it."""
    plan, answers = PLANS[name], []
    with ExitStack() as ending:
        # An estimator that needs no vocabulary: what is sent is the same on every machine.
        engine = create_context_engine(
            MemoryStore(),
            CharBasedEstimator(),
            config=RuntimeConfig(budget=plan.budget),
            clock=Standing(),
            id_generator=IdsInOrder(),
        )
        ending.callback(engine.sync.close)
        line = Line(base_url, ending, asynchronous=asynchronous)
        app = app_class(line, plan)
        with app_class.install(app.target, engine=engine, session_id=name):
            for question in plan.questions:
                answers.append(app.say(question))
                # Else what is recalled depends on how fast it was stored.
                assert engine.sync.flush()
        scope = Scope(session_id=name)
        document = engine.loop.run(engine.store.get_session(scope))
        assert document is not None
        reports = [turn.report for turn in engine.loop.run(engine.store.list_turns(scope))]
    return Talk(plan.questions, answers, line.asked, line.answered, document, reports)
