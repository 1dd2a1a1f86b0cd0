"""The offline model as a LlamaIndex model that calls tools: it translates, and `QuotingModel` answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    LLMMetadata,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection

from ce_integrations.demo.quoting import MODEL, Call, QuotingModel, Reply, Said


if TYPE_CHECKING:
    from llama_index.core.tools.types import BaseTool

WINDOW = 1_000_000
"""It reads whatever it is given."""


class OfflineLLM(FunctionCallingLLM):
    """Answers whole, or word by word with calls and usage in the last piece."""

    quoting: QuotingModel = QuotingModel()

    @property
    def metadata(self) -> LLMMetadata:
        """What LlamaIndex wants to know of a model."""
        return LLMMetadata(
            model_name=MODEL,
            context_window=WINDOW,
            is_chat_model=True,
            is_function_calling_model=True,
        )

    @classmethod
    def class_name(cls) -> str:
        return "offline_llm"

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer whole."""
        return _response(self._reply(messages, kwargs), None)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Answer word by word."""
        return _pieces(self._reply(messages, kwargs))

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer whole."""
        return _response(self._reply(messages, kwargs), None)

    @llm_chat_callback()
    async def astream_chat(
        self, messages: Sequence[ChatMessage], **kwargs: Any
    ) -> ChatResponseAsyncGen:
        """Answer word by word."""

        async def pieces() -> ChatResponseAsyncGen:
            for piece in _pieces(self._reply(messages, kwargs)):
                yield piece

        return pieces()

    def _of_text(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("the offline model is asked by messages")

    complete: ClassVar[Any] = _of_text
    acomplete: ClassVar[Any] = _of_text
    stream_complete: ClassVar[Any] = _of_text
    astream_complete: ClassVar[Any] = _of_text

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,  # noqa: ARG002 - LlamaIndex's signature
        allow_parallel_tool_calls: bool = False,  # noqa: ARG002 - as above
        tool_required: bool = False,  # noqa: ARG002 - as above
        **kwargs: Any,
    ) -> dict[str, Any]:
        message = (
            ChatMessage(role="user", content=user_msg) if isinstance(user_msg, str) else user_msg
        )
        schemas = [tool.metadata.to_openai_tool() for tool in tools]
        messages = [*(chat_history or ()), *([message] if message else ())]
        return {"messages": messages, "tools": schemas, **kwargs}

    def get_tool_calls_from_response(
        self,
        response: ChatResponse,
        error_on_no_tool_call: bool = True,
        **_: Any,
    ) -> list[ToolSelection]:
        """The calls of an answer."""
        blocks = [block for block in response.message.blocks if isinstance(block, ToolCallBlock)]
        if error_on_no_tool_call and not blocks:
            raise ValueError(f"expected a call of a tool, found {response.message.content!r}")
        return [
            ToolSelection(
                tool_id=block.tool_call_id or "",
                tool_name=block.tool_name,
                tool_kwargs=dict(_args(block)),
            )
            for block in blocks
        ]

    def _reply(self, messages: Sequence[ChatMessage], options: Mapping[str, Any]) -> Reply:
        return self.quoting.reply(
            [_translate(message) for message in messages], options.get("tools") or ()
        )


def _response(reply: Reply, delta: str | None) -> ChatResponse:
    blocks = [
        TextBlock(text=reply.text),
        *(
            ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=dict(call.args))
            for call in reply.calls
        ),
    ]
    prompt, answer = reply.sent_tokens, reply.got_tokens
    used = {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
    message = ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks)
    raw = {"model": MODEL, "usage": used}
    return ChatResponse(message=message, delta=delta, raw=raw)


def _pieces(reply: Reply) -> ChatResponseGen:
    text = ""
    for piece in reply.pieces:
        text += piece
        message = ChatMessage(role=MessageRole.ASSISTANT, content=text)
        yield ChatResponse(message=message, delta=piece, raw={"model": MODEL})
    yield _response(reply, "")


def _translate(message: ChatMessage) -> Said:
    calls = [
        Call(block.tool_call_id or "", block.tool_name, _args(block))
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    ]
    answers = str(message.additional_kwargs.get("tool_call_id") or "")
    return Said(message.role.value, message.content or "", calls, answers)


def _args(block: ToolCallBlock) -> Mapping[str, Any]:
    return block.tool_kwargs if isinstance(block.tool_kwargs, dict) else {}
