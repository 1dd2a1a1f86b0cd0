"""A small chat model without a network: it calls `lookup` for what is named, else quotes its input."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

from ce_integrations.blocks import text_of


TOOL = "lookup"
NOTHING = "I find nothing about that in what I was given."

_NAMED = re.compile(r"`([^`\s]+)`")
_WORD = re.compile(r"[a-z0-9]+(?:[._+/-][a-z0-9]+)*|[\u3400-\u9fff]+")
_HAN = re.compile(r"[\u3400-\u9fff]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")
_STOP = frozenset(
    ["a", "about", "an", "and", "are", "as", "at", "be", "by", "can", "did", "do", "does", "for", "from", "has", "have", "how", "i", "in", "is", "it", "its", "me", "my", "of", "on", "or", "our", "that", "the", "their", "this", "to", "us", "was", "we", "were", "what", "when", "which", "who", "will", "with", "you", "your"]
)  # fmt: skip


class _Quote(NamedTuple):
    """A sentence and how well it answers: shared words, their letters, and how late it stands."""

    shared: int
    letters: int
    position: int
    text: str


def words(text: str) -> list[str]:
    """The words that say something: no function words; of Chinese the pairs of characters."""
    found: list[str] = []
    for run in _WORD.findall(text.lower()):
        if not _HAN.match(run) or len(run) == 1:
            found.append(run)
        else:
            found += [run[i : i + 2] for i in range(len(run) - 1)]
    return [_singular(word) for word in found if word not in _STOP]


def _singular(word: str) -> str:
    """`requires` and `require` are one word, and so are `licences` and `licence`."""
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] not in "su" else word


def sentences(text: str) -> list[str]:
    """The sentences of a text; a line's end ends one as well."""
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


class OfflineChatModel(BaseChatModel):
    """Sees nothing but the request, and follows one rule.

    If the tool `lookup` is bound and the newest user message names, in backticks, an installed
    distribution for which no result of `lookup` stands in the request, the model asks for exactly
    these. Else it answers with the sentence of the request (system text, earlier messages, tool
    results; not the newest user message itself) that shares most words with the question; of equals
    the one whose shared words are longest, then the latest. The question is what ends with a question
    mark in the newest user message, else all of it; what was a question itself answers nothing.

    Attributes:
        known: canonical names of what is installed: a word in backticks may be anything.
        count: tokens of a text, for the usage that the answer reports.
    """

    model_name: str = "offline-quotes"
    known: frozenset[str] = frozenset()
    count: Callable[[str], int] = lambda text: len(text.encode()) // 4 + 1

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
        answer = self._answer(messages, kwargs.get("tools") or ())
        return ChatResult(generations=[ChatGeneration(message=answer)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002 - as above
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages, stop, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - as above
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in self._chunks(messages, kwargs.get("tools") or ()):
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - as above
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._chunks(messages, kwargs.get("tools") or ()):
            if run_manager is not None:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _chunks(
        self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]]
    ) -> Iterator[ChatGenerationChunk]:
        """The answer word by word; usage comes with the last piece."""
        answer = self._answer(messages, tools)
        for piece in re.findall(r"\S+\s*", text_of(answer.content)):
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        last = AIMessageChunk(
            content="",
            tool_calls=answer.tool_calls,
            usage_metadata=answer.usage_metadata,
            response_metadata=answer.response_metadata,
            chunk_position="last",
        )
        yield ChatGenerationChunk(message=last)

    def _answer(
        self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]]
    ) -> AIMessage:
        asked = next((m for m in reversed(messages) if isinstance(m, HumanMessage)), None)
        calls = self._calls(messages, asked, tools) if asked is not None else []
        text = "" if calls else quote(messages, asked)
        sent = self._tokens(messages, tools)
        got = self.count(text) + sum(self.count(str(call["args"])) for call in calls)
        return AIMessage(
            content=text,
            tool_calls=calls,
            usage_metadata=UsageMetadata(
                input_tokens=sent, output_tokens=got, total_tokens=sent + got
            ),
            response_metadata={
                "model_name": self.model_name,
                "finish_reason": "tool_calls" if calls else "stop",
            },
        )

    def _calls(
        self, messages: Sequence[BaseMessage], asked: HumanMessage, tools: Sequence[dict[str, Any]]
    ) -> list[ToolCall]:
        schema = next((t["function"] for t in tools if t["function"]["name"] == TOOL), None)
        if schema is None:
            return []
        argument = next(iter(schema["parameters"]["properties"]))
        done = _looked_up(messages, argument)
        names = [canonical(name) for name in _NAMED.findall(text_of(asked.content))]
        wanted = dict.fromkeys(name for name in names if name in self.known and name not in done)
        return [
            ToolCall(
                name=TOOL,
                args={argument: name},
                id=f"call_{secrets.token_hex(8)}",
                type="tool_call",
            )
            for name in wanted
        ]

    def _tokens(self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]]) -> int:
        tokens = sum(self.count(str(tool)) for tool in tools)
        for message in messages:
            tokens += self.count(text_of(message.content)) + 4
            for call in getattr(message, "tool_calls", ()):
                tokens += self.count(f"{call['name']}{call['args']}") + 4
        return tokens


def canonical(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def quote(messages: Sequence[BaseMessage], asked: BaseMessage | None) -> str:
    """The sentence of the messages that shares most words with the question."""
    if asked is None:
        return NOTHING
    text = text_of(asked.content)
    said = sentences(text)
    wanted = set(words(" ".join(filter(_is_question, said)) or text))
    given = [s for m in messages if m is not asked for s in sentences(text_of(m.content))]
    quotes = (_quote(wanted, s, n) for n, s in enumerate(given) if not _is_question(s))
    best = max(quotes, default=None)
    return best.text if best is not None and best.shared else NOTHING


def _is_question(sentence: str) -> bool:
    return sentence.rstrip("\"')”’）").endswith(("?", "？"))


def _quote(wanted: set[str], sentence: str, position: int) -> _Quote:
    shared = wanted.intersection(words(sentence))
    return _Quote(len(shared), sum(map(len, shared)), position, sentence)


def _looked_up(messages: Sequence[BaseMessage], argument: str) -> set[str]:
    """What stands in the request with its result, whatever became of the text of the result."""
    results = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    return {
        canonical(str(call["args"].get(argument, "")))
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
        if call["name"] == TOOL and call["id"] in results
    }
