"""Puts the engine in front of every call of a marked model, at the last place that sees messages and caller."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import LLMResult
from langchain_core.prompt_values import StringPromptValue
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import RunnableConfig, ensure_config

from ce_engine import Usage
from ce_integrations.base import CallInfo, Hooks, Turn, governing, is_inside
from ce_integrations.langchain.mapper import text_of
from ce_integrations.langchain.runs import Mark, info_of, link_of, mark_of, with_mark


Model = BaseChatModel | BaseLLM
Make = Callable[[Any], Any]

RETRIEVER_MARK = "__ce_mark__"
"""Retrievers have no `callbacks` of their own; this key of their `__dict__` is copied with them."""

_asked: ContextVar[tuple[object, object, str] | None] = ContextVar("ce_asked", default=None)
"""The model, configuration and entry point of a call on its way down: `generate` no longer sees them."""


def patches_for(model: type) -> Iterator[tuple[type, str, Make]]:
    """The methods to wrap for a class of models or retrievers: where they are defined, up to the base."""
    for base, makers in _MAKERS.items():
        if issubclass(model, base):
            for cls in model.__mro__:
                for name, make in makers.items():
                    if name in vars(cls) and issubclass(cls, base):
                        yield cls, name, make


# Entry points: they see the configuration, and hand it down


def _entry(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Model, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 - theirs
        token = _asked.set((self, config, original.__name__))
        try:
            return original(self, input, config, **kwargs)
        finally:
            _asked.reset(token)

    return call


def _entry_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def call(self: Model, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002 - theirs
        token = _asked.set((self, config, original.__name__))
        try:
            return await original(self, input, config, **kwargs)
        finally:
            _asked.reset(token)

    return call


# A governed call


@dataclass(slots=True)
class _Call:
    """One call of `generate`, with a turn for each of its prompts."""

    hooks: Hooks[BaseMessage]
    natives: list[list[BaseMessage]]
    infos: list[CallInfo]
    turns: list[Turn | None] = field(default_factory=list)
    sent: list[list[BaseMessage]] = field(default_factory=list)

    def prepare(self) -> None:
        for natives, info in zip(self.natives, self.infos, strict=True):
            self._add(*self.hooks.before_model(natives, info))

    async def aprepare(self) -> None:
        for natives, info in zip(self.natives, self.infos, strict=True):
            self._add(*await self.hooks.abefore_model(natives, info))

    def _add(self, sent: list[BaseMessage], turn: Turn | None) -> None:
        self.sent.append(sent)
        self.turns.append(turn)

    def governing(self, model: Model) -> governing:
        only = self.turns[0] if len(self.turns) == 1 else None
        return governing(self.hooks.adapter.name, model, only)

    def answers(self, result: LLMResult) -> Iterator[tuple[Turn | None, BaseMessage, Usage | None]]:
        usage = _usage_of_text(result) if len(self.turns) == 1 else None
        for turn, generations in zip(self.turns, result.generations, strict=False):
            if generations:
                message = getattr(generations[0], "message", None)
                yield turn, message or AIMessage(content=generations[0].text), usage


def _usage_of_text(result: LLMResult) -> Usage | None:
    """Usage of a model for texts, whose answers carry none; nothing ran at all on a cache hit."""
    told = (result.llm_output or {}).get("token_usage")
    if isinstance(told, Mapping) and told.get("total_tokens"):
        return Usage(
            told.get("prompt_tokens", 0), told.get("completion_tokens", 0), told["total_tokens"]
        )
    return Usage(cached=True) if result.llm_output == {} and result.run is None else None


def _begin(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], mode: str
) -> tuple[_Call, tuple[Any, ...], dict[str, Any]] | None:
    """The call, if it is governed and not inside itself; with prompts as the first argument."""
    if is_inside(model):
        return None
    prompts, rest, named = _prompts_first(args, kwargs)
    callbacks = rest[1] if len(rest) > 1 else named.get("callbacks")
    mark = _mark_for(model, callbacks)
    if mark is None:
        return None
    with mark.hooks.guard("call"):
        natives = [_natives(prompt) for prompt in prompts]
        told = {**named, "callbacks": callbacks}
        infos = [_info(model, told, mode, i, len(prompts)) for i in range(len(prompts))]
        return _Call(mark.hooks, natives, infos), (prompts, *rest), named
    return None


def _prompts_first(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    if args:
        return args[0], args[1:], kwargs
    name = "messages" if "messages" in kwargs else "prompts"
    return kwargs.get(name), (), {key: value for key, value in kwargs.items() if key != name}


def _natives(prompt: str | list[BaseMessage]) -> list[BaseMessage]:
    return [HumanMessage(content=prompt)] if isinstance(prompt, str) else prompt


def _as_prompt(prompt: Any, before: list[BaseMessage], sent: list[BaseMessage]) -> Any:
    """What goes on for a prompt: itself where nothing changed, one text where it was one."""
    if sent is before:
        return prompt
    return "\n\n".join(text_of(m.content) for m in sent) if isinstance(prompt, str) else sent


def _mark_for(model: Model, callbacks: Any) -> Mark | None:
    """The installation that governs a call: the outermost explicit one, else the model's own."""
    parents = [callbacks]
    if isinstance(callbacks, list) and any(isinstance(c, BaseCallbackManager) for c in callbacks):
        parents = callbacks  # one for each prompt
    for each in parents:
        link = link_of(getattr(each, "parent_run_id", None), each)
        found = link.mark if link is not None else mark_of(each)
        if found is not None:
            return found
    return mark_of(model.callbacks)


def _info(model: Model, told: Mapping[str, Any], mode: str, i: int, n: int) -> CallInfo:
    """What is known of prompt `i` of `n`; a model for texts is given lists, one item a prompt."""

    def one(value: Any, kind: type) -> Any:
        several = isinstance(value, list) and len(value) == n and isinstance(value[i], kind)
        return value[i] if several else value

    asked = _asked.get()
    config = None
    if asked is not None and asked[0] is model:
        config, mode = one(asked[1], dict), asked[2]
    callbacks = one(told.get("callbacks"), BaseCallbackManager)
    metadata, tags = one(told.get("metadata"), dict), one(told.get("tags"), list)
    run_id = told.get("run_id") if i == 0 else None
    info = info_of(
        config,
        parent=getattr(callbacks, "parent_run_id", None),
        run_id=None if isinstance(run_id, list) else run_id,
        metadata=metadata if isinstance(metadata, dict) else None,
        tags=tags,
    )
    info.mode = mode
    _describe(info, model, told)
    return info


def _describe(info: CallInfo, model: Model, kwargs: Mapping[str, Any]) -> None:
    """Add what the model and the call's own arguments say."""
    own = {key: kwargs[key] for key in ("model",) if key in kwargs}
    params = model._get_ls_params(**own)  # noqa: SLF001 - the one place where providers name a model
    info.model, info.provider = params.get("ls_model_name"), params.get("ls_provider") or ""
    profile = getattr(model, "profile", None)
    info.context_window = profile.get("max_input_tokens") if isinstance(profile, dict) else None
    tools = [*(kwargs.get("tools") or ()), *(kwargs.get("functions") or ())]
    info.tools = [tool for tool in tools if isinstance(tool, Mapping)]
    wanted = kwargs.get("response_format")
    if isinstance(wanted, type) and hasattr(wanted, "model_json_schema"):
        wanted = wanted.model_json_schema()
    info.response_format = wanted if isinstance(wanted, Mapping) else None


def _generate(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def generate(self: Model, *args: Any, **kwargs: Any) -> Any:
        begun = _begin(self, args, kwargs, "generate")
        if begun is None:
            return original(self, *args, **kwargs)
        call, (prompts, *rest), named = begun
        call.prepare()
        goes = [*map(_as_prompt, prompts, call.natives, call.sent)]
        try:
            with call.governing(self):
                result = original(self, goes, *rest, **named)
        except BaseException as error:
            for turn in call.turns:
                call.hooks.failed(turn, error)
            raise
        for turn, native, usage in call.answers(result):
            call.hooks.after_model(turn, native, usage)
        return result

    return generate


def _agenerate(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def agenerate(self: Model, *args: Any, **kwargs: Any) -> Any:
        begun = _begin(self, args, kwargs, "agenerate")
        if begun is None:
            return await original(self, *args, **kwargs)
        call, (prompts, *rest), named = begun
        await call.aprepare()
        goes = [*map(_as_prompt, prompts, call.natives, call.sent)]
        try:
            with call.governing(self):
                result = await original(self, goes, *rest, **named)
        except BaseException as error:
            for turn in call.turns:
                await call.hooks.afailed(turn, error)
            raise
        for turn, native, usage in call.answers(result):
            await call.hooks.aafter_model(turn, native, usage)
        return result

    return agenerate


# Streams


@dataclass(slots=True)
class _Stream:
    """One governed stream, from its input to what came of it."""

    hooks: Hooks[BaseMessage]
    model: Model
    given: Any
    natives: list[BaseMessage]
    info: CallInfo
    turn: Turn | None = None
    chunks: list[Any] = field(default_factory=list)

    def goes(self, sent: list[BaseMessage]) -> Any:
        """The input that goes on: the very same where nothing changed."""
        if sent is self.natives:
            return self.given
        is_text = isinstance(self.given, str | StringPromptValue)
        return "\n\n".join(text_of(m.content) for m in sent) if is_text else sent

    def governing(self) -> governing:
        return governing(self.hooks.adapter.name, self.model, self.turn)

    def note(self) -> None:
        self.hooks.chunk(self.turn, len(self.chunks) - 1, _text(self.chunks[-1]))

    def text(self) -> str:
        return "".join(map(_text, self.chunks))

    def answer(self) -> BaseMessage:
        first, *rest = self.chunks or [""]
        if isinstance(first, AIMessageChunk):
            return add_ai_message_chunks(first, *rest) if rest else first
        return first if isinstance(first, BaseMessage) else AIMessage(content=self.text())


def _text(chunk: Any) -> str:
    return text_of(chunk.content if isinstance(chunk, BaseMessage) else chunk)


def _begin_stream(
    model: Model, given: Any, config: RunnableConfig | None, kwargs: Mapping[str, Any], mode: str
) -> _Stream | None:
    if is_inside(model):
        return None
    callbacks = ensure_config(config).get("callbacks")
    mark = _mark_for(model, callbacks)
    if mark is None:
        return None
    with mark.hooks.guard("call"):
        natives = model._convert_input(given).to_messages()  # noqa: SLF001 - what stream itself does
        token = _asked.set((model, config, mode))
        try:
            run_id = (config or {}).get("run_id")
            told = {**kwargs, "callbacks": callbacks, "run_id": run_id}
            info = _info(model, told, mode, 0, 1)
        finally:
            _asked.reset(token)
        return _Stream(mark.hooks, model, given, natives, info)
    return None


def _stream(original: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(original)
    def stream(self: Model, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:  # noqa: A002 - theirs
        begun = _begin_stream(self, input, config, kwargs, "stream")
        if begun is None:
            yield from original(self, input, config, **kwargs)
            return
        hooks = begun.hooks
        sent, begun.turn = hooks.before_model(begun.natives, begun.info)
        chunks = original(self, begun.goes(sent), config, **kwargs)
        try:
            while True:
                with begun.governing():
                    chunk = next(chunks, None)
                if chunk is None:
                    break
                begun.chunks.append(chunk)
                yield chunk
                begun.note()
        except BaseException as error:
            hooks.failed(begun.turn, error, begun.text())
            raise
        finally:
            chunks.close()  # type: ignore[attr-defined] - a generator, as all of LangChain's streams
        hooks.after_model(begun.turn, begun.answer())

    return stream


def _astream(original: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    @functools.wraps(original)
    async def astream(
        self: Model,
        input: Any,  # noqa: A002 - theirs
        config: Any = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        begun = _begin_stream(self, input, config, kwargs, "astream")
        if begun is None:
            ...
        yield None

    return astream
