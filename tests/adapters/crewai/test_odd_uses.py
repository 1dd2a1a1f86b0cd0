"""Uses of CrewAI that few apps have."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, ClassVar

import pytest
from crewai.flow.flow import Flow, start
from crewai.llms.base_llm import BaseLLM

from tests.adapters.crewai.apps import agent, crew, task
from tests.adapters.crewai.natives import CrewAI
from tests.adapters.odd_uses import Mute, OddUseTests, Use, once


class Echo(BaseLLM):
    """Says what it was told."""

    def call(self, messages: Any, *_: Any, **kwargs: Any) -> str:
        return str(kwargs.get("subject") or " ".join(each["content"] for each in messages))


def said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def echo() -> Echo:
    return Echo(model="m")


KEYWORDS = {
    "a model's `subject`": Use(echo, lambda llm: llm.call([said("x")], subject="s"), "s"),
}


ITERATORS = once(echo, said, lambda llm, messages: llm.call(messages))


class Greeting(Flow[dict[str, Any]]):
    @start()
    def begin(self) -> str:
        return str(echo().call([said("hi")]))


class Shown(Mute):
    """CrewAI 1.14 asks a flow's id for its text itself."""

    __str__ = object.__str__


def greeting() -> Greeting:
    return Greeting(suppress_flow_events=True)


def refusal(crew: Any, inputs: dict[str, Any]) -> str:
    """What the framework says of inputs that it does not take."""
    with pytest.raises(ValueError) as raised:
        crew.kickoff(inputs=inputs)
    return " ".join(re.findall("Unsupported type [A-Z][a-z]+", str(raised.value)))


IDS = {
    **{
        f"a flow's {name}": Use(greeting, partial(Flow.kickoff, inputs={name: Shown()}), "hi")
        for name in ("user_id", "session_id", "id")
    },
    "a crew's user_id": Use(
        lambda: crew(task(agent(echo()))),
        lambda crew: refusal(crew, {"user_id": Mute()}),
        "Unsupported type Mute",
    ),
}


class TestOddUses(CrewAI, OddUseTests):
    uses: ClassVar[dict[str, Use]] = {**KEYWORDS, **ITERATORS, **IDS}
