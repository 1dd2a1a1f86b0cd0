"""Puts the engine in front of every call of a marked model, at the last place that sees messages and caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    BaseCallbackManager,
    CallbackManagerForLLMRun,
)
from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import LLMResult
from langchain_core.prompt_values import StringPromptValue
from langchain_core.runnables.config import ensure_config

from ce_engine import Usage
from ce_engine.runtime.context_variables import unset
from ce_integrations.calls.model_methods import as_one_text, schema_of
from ce_integrations.calls.open_turn import outside
from ce_integrations.install.adapter import (
    CallInfo,
    GovernedCall,
    begun_call,
    call_around,
    is_inside,
)
from ce_integrations.langchain.marks import ENDS, STARTS, Mark, mark_of, new_run_id, tree
from ce_integrations.langchain.session import info_of
from ce_integrations.mapping.content_blocks import text_of
from ce_integrations.mapping.usage import usage_of
from ce_integrations.wrapping.function_kinds import MutedMethod, first_argument, same_kind, within
from ce_integrations.wrapping.patches import Make


Model = BaseChatModel | BaseLLM

_asked: ContextVar[tuple[object, Any, str] | None] = ContextVar("ce_asked", default=None)
"""The model, configuration and entry point of a call on its way down: `generate` sees them no more."""


@contextmanager
def _entry(entry: Any, model: Model, /, *args: Any, **kwargs: Any) -> Iterator[None]:
    config = args[1] if len(args) > 1 else kwargs.get("config")
    token = _asked.set((model, config, entry.__name__))
    try:
        yield
    finally:
        unset(_asked, token)


# Whole answers


def _generate(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    def generate(self: Model, *args: Any, **kwargs: Any) -> Any:
        prompts, rest, named = first_argument(args, kwargs, "messages", "prompts")
        call = _call(self, prompts, rest, named, original.__name__)
        if call is None:
            return original(self, *args, **kwargs)
        run = call.arun if original.__name__ == "agenerate" else call.run
        return run(lambda goes: original(self, goes, *rest, **named), _answers)

    return generate


def _call(
    model: Model, prompts: Any, rest: tuple[Any, ...], named: Mapping[str, Any], mode: str
) -> GovernedCall[BaseMessage] | None:
    """The call, if somebody governs it and it is not inside itself."""
    callbacks = rest[1] if len(rest) > 1 else named.get("callbacks")
    mark = None if is_inside(model) else _mark_for(model, callbacks)
    if mark is None or not isinstance(prompts, list):
        return None
    asked, told = _asked.get(), {**named, "callbacks": callbacks}
    config = None
    if asked is not None and asked[0] is model:
        _, config, mode = asked

    def describe() -> list[tuple[list[BaseMessage], CallInfo]]:
        n, natives = len(prompts), list[list[BaseMessage]]()
        natives += ([HumanMessage(p)] if isinstance(p, str) else p for p in prompts)
        return [
            (natives[i], _info(model, _of(i, n, told), _one(config, i, n, dict), mode))
            for i in range(n)
        ]

    return GovernedCall(mark.hooks, model, prompts, describe, partial(_replaced, model))


def _replaced(model: Model, given: Any, sent: list[BaseMessage]) -> Any:
    """An input with other messages; for a model for texts, one text stays one text."""
    if isinstance(model, BaseLLM) and isinstance(given, str | StringPromptValue):
        return as_one_text(sent, lambda message: text_of(message.content))
    return sent


def _of(i: int, n: int, told: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for prompt `i` of `n`: a model for texts is given lists, one item a prompt."""
    kinds = {"callbacks": BaseCallbackManager | list, "metadata": dict, "tags": list}
    own = {name: _one(told.get(name), i, n, kind) for name, kind in kinds.items()}
    run_id = told.get("run_id") if i == 0 else None
    return {**told, **own, "run_id": None if isinstance(run_id, list) else run_id}


def _one(value: Any, i: int, n: int, kind: Any) -> Any:
    several = isinstance(value, list) and len(value) == n and isinstance(value[i], kind)
    return value[i] if several else value


def _mark_for(model: Model, callbacks: Any) -> Mark | None:
    """The installation that governs a call: the outermost explicit one, else the model's own."""
    several = isinstance(callbacks, list) and isinstance(
        next(iter(callbacks), ()), list | BaseCallbackManager | None
    )
    for each in callbacks if several else [callbacks]:
        parent = getattr(each, "parent_run_id", None)
        own = mark_of(each)
        found = tree.of(parent, own)[1] if parent is not None else own
        if found is not None:
            return found
    return mark_of(model.callbacks)


def _info(model: Model, told: Mapping[str, Any], config: Any, mode: str) -> CallInfo:
    """What is known of a call: of its run, and of what goes out with the messages."""
    info = info_of(
        config,
        parent=getattr(told.get("callbacks"), "parent_run_id", None),
        run_id=told.get("run_id"),
        metadata=told.get("metadata"),
        tags=told.get("tags"),
    )
    info.mode, info.opaque = mode, isinstance(model, BaseLLM)
    info.takes_history = info.takes_history and not _has_cache(model)
    asked = {"model": told["model"]} if "model" in told else {}
    params = model._get_ls_params(**asked)  # noqa: SLF001 - the one place where providers name a model
    info.model, info.provider = params.get("ls_model_name"), params.get("ls_provider") or ""
    profile = vars(model).get("profile")  # core 1.0: a property that may raise, and warns
    info.context_window = profile.get("max_input_tokens") if isinstance(profile, dict) else None
    tools = [*(told.get("tools") or ()), *(told.get("functions") or ())]
    info.tools = [tool for tool in tools if isinstance(tool, Mapping)]
    info.response_format = schema_of(told.get("response_format"))
    return info


def _has_cache(model: Model) -> bool:
    """Whether a cache is asked before the model: its key is to be what the app sends."""
    return bool(model.cache) or (model.cache is None and get_llm_cache() is not None)


def _answers(result: LLMResult) -> Iterator[tuple[BaseMessage, Usage | None]]:
    usage = _usage_of_text(result) if len(result.generations) == 1 else None
    for first, *_ in result.generations:
        yield getattr(first, "message", None) or AIMessage(content=first.text), usage


def _usage_of_text(result: LLMResult) -> Usage | None:
    """Usage of a model for texts, whose answers carry none; nothing ran at all on a cache hit."""
    if result.llm_output == {} and result.run is None:
        return Usage(cached=True)
    return usage_of((result.llm_output or {}).get("token_usage"))


# Streams


def _stream(start: Callable[[GovernedCall[BaseMessage], Any], Any]) -> Make:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @same_kind(original)
        def stream(self: Model, *args: Any, **kwargs: Any) -> Any:
            given, rest, named = first_argument(args, kwargs, "input")
            config = rest[0] if rest else named.get("config")
            call = _stream_call(self, given, config, named, original.__name__)
            if call is None:
                return original(self, *args, **kwargs)
            return start(call, lambda goes: original(self, goes[0], *rest, **named))

        return stream

    return make


def _stream_call(
    model: Model, given: Any, config: Any, kwargs: dict[str, Any], mode: str
) -> GovernedCall[BaseMessage] | None:
    around = ensure_config(config)
    mark = None if is_inside(model) else _mark_for(model, around.get("callbacks"))
    if mark is None or (mode.endswith("_events") and kwargs.get("version") != "v3"):
        return None  # events of other versions are made of a `stream` inside
    told = {**kwargs, "callbacks": around.get("callbacks"), "run_id": around.get("run_id")}
    with suppress(Exception):  # an input that LangChain refuses: its own call says so
        natives = model._convert_input(given).to_messages()  # noqa: SLF001 - what stream itself does

        def describe() -> list[tuple[list[BaseMessage], CallInfo]]:
            return [(natives, _info(model, told, config, mode))]

        return GovernedCall(mark.hooks, model, [given], describe, partial(_replaced, model))
    return None


def _events(original: Callable[..., Any]) -> Callable[..., Any]:
    """Drives a stream of events. Its reader hears of the end when the answer is recorded, not before."""

    @same_kind(original)
    def events(self: Model, *args: Any, stream: Any, **kwargs: Any) -> Any:
        call = begun_call(stream)
        if call is None:  # nobody governs it, or `generate` does
            return original(self, *args, stream=stream, **kwargs)
        drive = call.astream if original.__name__ == "_aiter_v2_events" else call.stream
        return drive(
            lambda _: original(self, *args, stream=MutedMethod(stream, "dispatch"), **kwargs),
            lambda event: str((event.get("delta") or {}).get("text", "")),
            partial(_assembled, type(stream)(message_id=stream.message_id)),
            lambda event: event.get("event") == "message-finish",
            stream.dispatch,
        )

    return events


def _assembled(stream: Any, events: list[Any]) -> Any:
    for event in (*events, {"event": "message-finish"}):  # some models leave it to LangChain
        if not stream.done:
            stream.dispatch(event)
    return stream.output_message


def _chunk_text(chunk: Any) -> str:
    return text_of(chunk.content if isinstance(chunk, BaseMessage) else chunk)


def _merged(chunks: list[Any]) -> BaseMessage:
    """The whole answer; a model that cannot stream gives it as its only chunk."""
    whole = chunks[0] if chunks else ""
    if isinstance(whole, AIMessageChunk):
        return add_ai_message_chunks(*chunks)
    return whole if isinstance(whole, BaseMessage) else AIMessage("".join(chunks))


def _begins(original: Callable[..., Any]) -> Callable[..., Any]:
    """Note the run of a governed call, which is the first in it: a model may ask others, and itself."""
    told = within(outside)(original)

    @same_kind(original)
    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        around = call_around()
        turn = around.turn if around is not None else None
        if turn is not None and turn.run_id is None and len(args) < 3:
            turn.run_id = kwargs["run_id"] = kwargs.get("run_id") or new_run_id()
        return told(self, *args, **kwargs)

    return start


def _hearing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Note what a whole answer's pieces tell other handlers: of one that is cancelled they are all there is."""
    told = within(outside)(original)

    @same_kind(original)
    def tell(self: Any, *args: Any, **kwargs: Any) -> Any:
        around = call_around()
        if around is not None and around.turn is not None and around.turn.run_id == self.run_id:
            around.turn.hear(_said(first_argument(args, kwargs, "token", "event")[0]))
        return told(self, *args, **kwargs)

    return tell


def _said(piece: object) -> str:
    """The text of a token, which is content and thus a list perhaps, or of an event; of others none."""
    if isinstance(piece, Mapping):
        delta = piece.get("delta")
        piece = delta.get("text") if isinstance(delta, Mapping) else None
    return text_of(piece) if isinstance(piece, str | list) else ""


_MODEL: dict[str, Make] = {
    **dict.fromkeys(("invoke", "ainvoke"), within(_entry)),
    **dict.fromkeys(("generate", "agenerate"), _generate),
    "stream": _stream(lambda call, start: call.stream(start, _chunk_text, _merged)),
    "astream": _stream(lambda call, start: call.astream(start, _chunk_text, _merged)),
    "stream_events": _stream(lambda call, start: call.run(start, call.begun)),
    "astream_events": _stream(lambda call, start: call.arun(start, call.begun)),
    **dict.fromkeys(("_iter_v2_events", "_aiter_v2_events"), _events),
}
_TELLING: dict[str, Make] = {
    **dict.fromkeys(("on_llm_new_token", "on_stream_event"), _hearing),
    **dict.fromkeys(("on_llm_end", "on_llm_error"), within(outside)),
}
MAKERS: dict[type, dict[str, Make]] = {
    **{
        manager: {**starts, **dict.fromkeys(("on_chat_model_start", "on_llm_start"), _begins)}
        for manager, starts in STARTS.items()
    },
    **ENDS,
    BaseChatModel: _MODEL,
    BaseLLM: {**_MODEL, **dict.fromkeys(("batch", "abatch"), within(_entry))},
    **dict.fromkeys(
        (CallbackManagerForLLMRun, AsyncCallbackManagerForLLMRun),
        _TELLING,
    ),
}
"""What is wrapped. Never `_generate` or `_stream`: LangChain compares them with those of the base, and
tracing and caches would see another input than the model."""
