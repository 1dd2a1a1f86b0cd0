"""What the benchmarks talk about, and with whom: sentences of Python's own manual, and a model that answers at once."""

from __future__ import annotations

import random
import re
from pydoc_data.topics import topics
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr


_END = re.compile(r"(?<=[.:])\s+")
SENTENCES = [
    sentence
    for name in sorted(topics)
    for sentence in _END.split(" ".join(topics[name].split()))
    if len(sentence) > 20
]


class Talk:
    """Questions of 100 to 200 characters and answers of about 300, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self, length: int) -> str:
        """That many characters of sentences that follow each other."""
        start, found = self._random.randrange(len(SENTENCES)), ""
        while len(found) < length:
            found += f"{SENTENCES[start % len(SENTENCES)]} "
            start += 1
        return found[:length].strip()

    def question(self) -> str:
        return self.text(self._random.randint(100, 200))

    def answer(self) -> str:
        return self.text(300)


class Instant(BaseChatModel):
    """Answers at once, with the usage that a provider would tell."""

    seed: int = 1
    _talk: Talk | None = PrivateAttr(default=None)

    @property
    def _llm_type(self) -> str:
        return "instant"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self._talk = self._talk or Talk(self.seed)
        text = self._talk.answer()
        counted = sum(len(message.text) for message in messages) // 4, len(text) // 4
        usage = {"input_tokens": counted[0], "output_tokens": counted[1]}
        answer = AIMessage(
            text,
            usage_metadata={**usage, "total_tokens": sum(counted)},
            response_metadata={"model_name": "gpt-4o-mini", "finish_reason": "stop"},
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)
