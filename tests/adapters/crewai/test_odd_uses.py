"""Uses of CrewAI that few apps have."""

from __future__ import annotations

from typing import Any, ClassVar

from crewai.llms.base_llm import BaseLLM

from tests.adapters.crewai.natives import CrewAI
from tests.adapters.odd_uses import OddUseTests, Use, once


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


class TestOddUses(CrewAI, OddUseTests):
    uses: ClassVar[dict[str, Use]] = {**KEYWORDS, **ITERATORS}
