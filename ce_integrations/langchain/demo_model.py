"""The offline model as a chat model of LangChain: it translates, and `QuotingModel` answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

from ce_integrations.demo.quoting import MODEL, Call, QuotingModel, Reply, Said
from ce_integrations.mapping.content_blocks import text_of


ROLES = {"system": "system", "human": "user", "ai": "assistant", "tool": "tool"}


class OfflineChatModel(BaseChatModel):
    """Answers whole, or word by word with calls and usage in the last piece; to await it takes a thread."""

    model_name: str = MODEL
    quoting: QuotingModel = QuotingModel()

    @property
    def _llm_type(self) -> str:
        return self.model_name

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name}

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Send the tools' schemas with every request, as providers' models do."""
        schemas = [convert_to_openai_tool(tool) for tool in tools]
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=schemas, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - LangChain's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - as above
        **kwargs: Any,
    ) -> ChatResult:
        reply = self._reply(messages, kwargs.get("tools") or ())
        message = AIMessage(content=reply.text, **self._beside(reply))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - as above
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - as above
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = self._reply(messages, kwargs.get("tools") or ())
        for piece in reply.pieces:
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        last = AIMessageChunk(content="", chunk_position="last", **self._beside(reply))
        yield ChatGenerationChunk(message=last)

    def _reply(self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]]) -> Reply:
        return self.quoting.reply([_translate(message) for message in messages], tools)

    def _beside(self, reply: Reply) -> dict[str, Any]:
        """What a message of LangChain has beside its text."""
        prompt, answer = reply.sent_tokens, reply.got_tokens
        return {
            "tool_calls": [
                ToolCall(name=call.name, args=dict(call.args), id=call.id, type="tool_call")
                for call in reply.calls
            ],
            "usage_metadata": UsageMetadata(
                input_tokens=prompt, output_tokens=answer, total_tokens=prompt + answer
            ),
            "response_metadata": {
                "model_name": self.model_name,
                "finish_reason": "tool_calls" if reply.calls else "stop",
            },
        }


def _translate(message: BaseMessage) -> Said:
    answers = message.tool_call_id if isinstance(message, ToolMessage) else ""
    calls = [
        Call(call["id"] or "", call["name"], call["args"])
        for call in getattr(message, "tool_calls", ())
    ]
    return Said(ROLES.get(message.type, message.type), text_of(message.content), calls, answers)
