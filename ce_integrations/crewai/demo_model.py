"""The offline model as a model of CrewAI that calls functions: it translates, and `QuotingModel` answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from crewai.llms.base_llm import BaseLLM
from pydantic import PrivateAttr

from ce_integrations.crewai.mapper import FRAMES, to_schema
from ce_integrations.demo.quoting import MODEL, Call, QuotingModel, Said
from ce_integrations.mapping.content_blocks import call_args


WINDOW = 1_000_000
"""It reads whatever it is given."""


class OfflineModel(BaseLLM):
    """Answers whole: a text, or calls of tools as OpenAI's clients give them."""

    _quoting: QuotingModel = PrivateAttr(default_factory=QuotingModel)

    @classmethod
    def of(cls, quoting: QuotingModel) -> OfflineModel:
        """The model that answers with this one."""
        model = cls(model=MODEL)
        model._quoting = quoting
        return model

    def call(
        self,
        messages: str | Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None = None,
        *_: Any,
        **__: Any,
    ) -> Any:
        """Answer, and tell what it took."""
        listed = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        reply = self._quoting.reply([_translate(message) for message in listed], tools or ())
        prompt, answer = reply.sent_tokens, reply.got_tokens
        used = {
            "prompt_tokens": prompt,
            "completion_tokens": answer,
            "total_tokens": prompt + answer,
        }
        self._track_token_usage_internal(used)
        if not reply.calls:
            return reply.text
        return [
            {
                "id": call.id,
                "function": {"name": call.name, "arguments": json.dumps(dict(call.args))},
            }
            for call in reply.calls
        ]

    async def acall(self, *args: Any, **named: Any) -> Any:
        """The same, awaited."""
        return self.call(*args, **named)

    def supports_function_calling(self) -> bool:
        """Whether it calls tools by itself."""
        return True

    def get_context_window_size(self) -> int:
        """What it reads."""
        return WINDOW

    def get_input_tokens_count(self, *_: Any, **__: Any) -> int:
        """Nothing is too long for it."""
        return 0


def _translate(message: Mapping[str, Any]) -> Said:
    calls = [
        Call(call["id"], call["function"]["name"], call_args(call["function"]))
        for call in message.get("tool_calls") or ()
    ]
    answers = str(message.get("tool_call_id") or "")
    return Said(message["role"], _unframe(to_schema(message).message.content), calls, answers)


def _unframe(text: str) -> str:
    """Of an agent's question what it was asked, without CrewAI's words around it, behind what is quoted before them."""
    for before, behind in FRAMES:
        quoted, separator, question = text.rpartition(before)
        if separator and quoted.endswith("]\n\n") and question.endswith(behind):
            return f"{quoted}{question.removesuffix(behind)}"
    return text
