"""Uses of LlamaIndex that few apps have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms.mock import MockLLM
from llama_index.core.tools import FunctionTool

from tests.adapters.llamaindex.natives import LlamaIndex
from tests.adapters.odd_uses import OddUseTests, Use, once


def said(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


class Echo(MockLLM):
    """Says what it was told."""

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        text = kwargs.get("subject") or " ".join(str(each.content) for each in messages)
        return ChatResponse(message=ChatMessage(role="assistant", content=text))


def send_email(to: str, subject: str) -> str:
    """Send it."""
    return f"{subject!r} to {to}"


def mailing() -> FunctionTool:
    return FunctionTool.from_defaults(send_email)


async def mail_later(tool: FunctionTool) -> str:
    return str(await tool.acall(to="ann", subject="hi"))


KEYWORDS = {
    "a tool's `subject`": Use(
        mailing, lambda tool: str(tool.call(to="ann", subject="hi")), "'hi' to ann"
    ),
    "a tool's `subject`, awaited": Use(mailing, mail_later, "'hi' to ann"),
    "a model's `subject`": Use(
        Echo, lambda llm: llm.chat([said("x")], subject="s").message.content, "s"
    ),
}


ITERATORS = once(Echo, said, lambda llm, messages: llm.chat(messages).message.content)


class TestOddUses(LlamaIndex, OddUseTests):
    uses: ClassVar[dict[str, Use]] = {**KEYWORDS, **ITERATORS}
