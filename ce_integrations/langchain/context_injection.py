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

_entry_around: ContextVar[tuple[object, Any, str] | None] = ContextVar("ce_asked", default=None)
"""The model, configuration and entry point of a call on its way down: `generate` sees them no more."""


@contextmanager
def _entry(entry: Any, model: Model, /, *args: Any, **kwargs: Any) -> Iterator[None]:
    config = args[1] if len(args) > 1 else kwargs.get("config")
    token = _entry_around.set((model, config, entry.__name__))
    try:
        yield
    finally:
        unset(_entry_around, token)


# Whole answers


def _generate(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    def generate(self: Model, /, *args: Any, **kwargs: Any) -> Any:
        prompts, rest, keywords = first_argument(args, kwargs, "messages", "prompts")
        call = _call(self, prompts, rest, keywords, original.__name__)
        if call is None:
            return original(self, *args, **kwargs)
        run = call.arun if original.__name__ == "agenerate" else call.run
        return run(lambda goes: original(self, goes, *rest, **keywords), _answers)

    return generate


def _call(
    model: Model, prompts: Any, rest: tuple[Any, ...], keywords: Mapping[str, Any], mode: str
) -> GovernedCall[BaseMessage] | None:
    """The call, if somebody governs it and it is not inside itself."""
    callbacks = rest[1] if len(rest) > 1 else keywords.get("callbacks")
    mark = None if is_inside(model) else _mark_for(model, callbacks)
    if mark is None or not isinstance(prompts, list):
        return None
    entry, arguments = _entry_around.get(), {**keywords, "callbacks": callbacks}
    config = None
    if entry is not None and entry[0] is model:
        _, config, mode = entry

    def describe() -> list[tuple[list[BaseMessage], CallInfo]]:
        n, natives = len(prompts), list[list[BaseMessage]]()
        natives += ([HumanMessage(p)] if isinstance(p, str) else p for p in prompts)
        return [
            (natives[i], _info(model, _of(i, n, arguments), _pick_item(config, i, n, dict), mode))
            for i in range(n)
        ]

    return GovernedCall(mark.hooks, model, prompts, describe, partial(_replaced, model))


def _replaced(model: Model, prompt: Any, messages: list[BaseMessage]) -> Any:
    """An input with other messages; for a model for texts, one text stays one text."""
    if isinstance(model, BaseLLM) and isinstance(prompt, str | StringPromptValue):
        return as_one_text(messages, lambda message: text_of(message.content))
    return messages


def _of(i: int, n: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for prompt `i` of `n`: a model for texts is given lists, one item a prompt."""
    kinds = {"callbacks": BaseCallbackManager | list, "metadata": dict, "tags": list}
    own = {name: _pick_item(arguments.get(name), i, n, kind) for name, kind in kinds.items()}
    run_id = arguments.get("run_id") if i == 0 else None
    return {**arguments, **own, "run_id": None if isinstance(run_id, list) else run_id}


def _pick_item(value: Any, i: int, n: int, kind: Any) -> Any:
    is_batch = isinstance(value, list) and len(value) == n and isinstance(value[i], kind)
    return value[i] if is_batch else value


def _mark_for(model: Model, callbacks: Any) -> Mark | None:
    """The installation that governs a call: the outermost explicit one, else the model's own."""
    is_batch = isinstance(callbacks, list) and isinstance(
        next(iter(callbacks), ()), list | BaseCallbackManager | None
    )
    for handlers in callbacks if is_batch else [callbacks]:
        parent = getattr(handlers, "parent_run_id", None)
        own = mark_of(handlers)
        mark = tree.of(parent, own)[1] if parent is not None else own
        if mark is not None:
            return mark
    return mark_of(model.callbacks)


def _info(model: Model, arguments: Mapping[str, Any], config: Any, mode: str) -> CallInfo:
    """What is known of a call: of its run, and of what goes out with the messages."""
    info = info_of(
        config,
        parent=getattr(arguments.get("callbacks"), "parent_run_id", None),
        run_id=arguments.get("run_id"),
        metadata=arguments.get("metadata"),
        tags=arguments.get("tags"),
    )
    info.mode, info.opaque = mode, isinstance(model, BaseLLM)
    info.takes_history = info.takes_history and not _has_cache(model)
    options = {"model": arguments["model"]} if "model" in arguments else {}
    params = model._get_ls_params(**options)  # noqa: SLF001 - the one place where providers name a model
    info.model, info.provider = params.get("ls_model_name"), params.get("ls_provider") or ""
    profile = vars(model).get("profile")  # core 1.0: a property that may raise, and warns
    info.context_window = profile.get("max_input_tokens") if isinstance(profile, dict) else None
    tools = [*(arguments.get("tools") or ()), *(arguments.get("functions") or ())]
    info.tools = [tool for tool in tools if isinstance(tool, Mapping)]
    info.response_format = schema_of(arguments.get("response_format"))
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
        def stream(self: Model, /, *args: Any, **kwargs: Any) -> Any:
            prompt, rest, keywords = first_argument(args, kwargs, "input")
            config = rest[0] if rest else keywords.get("config")
            call = _stream_call(self, prompt, config, keywords, original.__name__)
            if call is None:
                return original(self, *args, **kwargs)
            return start(call, lambda goes: original(self, goes[0], *rest, **keywords))

        return stream

    return make


def _stream_call(
    model: Model, prompt: Any, config: Any, kwargs: dict[str, Any], mode: str
) -> GovernedCall[BaseMessage] | None:
    around = ensure_config(config)
    mark = None if is_inside(model) else _mark_for(model, around.get("callbacks"))
    if mark is None or (mode.endswith("_events") and kwargs.get("version") != "v3"):
        return None  # events of other versions are made of a `stream` inside
    arguments = {**kwargs, "callbacks": around.get("callbacks"), "run_id": around.get("run_id")}
    with suppress(Exception):  # an input that LangChain refuses: its own call says so
        natives = model._convert_input(prompt).to_messages()  # noqa: SLF001 - what stream itself does

        def describe() -> list[tuple[list[BaseMessage], CallInfo]]:
            return [(natives, _info(model, arguments, config, mode))]

        return GovernedCall(mark.hooks, model, [prompt], describe, partial(_replaced, model))
    return None


def _events(original: Callable[..., Any]) -> Callable[..., Any]:
    """Drives a stream of events. Its reader hears of the end when the answer is recorded, not before."""

    @same_kind(original)
    def events(self: Model, /, *args: Any, stream: Any, **kwargs: Any) -> Any:
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
    notify = within(outside)(original)

    @same_kind(original)
    def start(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        around = call_around()
        turn = around.turn if around is not None else None
        if turn is not None and turn.run_id is None and len(args) < 3:
            turn.run_id = kwargs["run_id"] = kwargs.get("run_id") or new_run_id()
        return notify(self, *args, **kwargs)

    return start


def _hearing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Note what a whole answer's pieces tell other handlers: of one that is cancelled they are all there is."""
    notify = within(outside)(original)

    @same_kind(original)
    def tell(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        around = call_around()
        if around is not None and around.turn is not None and around.turn.run_id == self.run_id:
            around.turn.hear(_piece_text(first_argument(args, kwargs, "token", "event")[0]))
        return notify(self, *args, **kwargs)

    return tell


def _piece_text(piece: object) -> str:
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
