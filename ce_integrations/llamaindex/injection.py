"""Puts the engine in front of every call of a model: of its eight public methods, which all ways lead to."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.llms import LLM
from llama_index.core.memory import BaseMemory

from ce_integrations.base import CallInfo, GovernedCall, is_inside
from ce_integrations.llamaindex.mapper import message_of
from ce_integrations.llamaindex.spans import info_here, owner_here, remembering
from ce_integrations.patches import Make
from ce_integrations.wrappers import first_argument, same_kind, within


def _governed(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    drive = _DRIVES[name.replace("complete", "chat")]

    @same_kind(original)
    def ask(self: LLM, *args: Any, **kwargs: Any) -> Any:
        # As Python binds it: a decorated method tells its span of the object by that.
        bound = original.__get__(self, type(self))
        given, rest, named = first_argument(args, kwargs, "messages", "prompt")
        mark = owner_here(self)
        if mark is None or given is None or is_inside(self):
            return bound(*args, **kwargs)
        describe = partial(_described, self, given, named, name)
        call = GovernedCall(mark.hooks, self, [given], describe, _replaced)
        return drive(call, lambda goes: bound(goes[0], *rest, **named))

    return ask


def _described(
    model: LLM, given: Any, named: Mapping[str, Any], mode: str
) -> list[tuple[list[ChatMessage], CallInfo]]:
    info, natives = info_here(), given
    metadata = None
    with suppress(ValueError):  # a model that its integration has no entry for
        metadata = model.metadata
    info.mode, info.provider = mode, str(model.class_name()).split("_")[0].lower()
    if metadata is not None:
        info.model = metadata.model_name
        # Its default is nobody's window.
        known = "context_window" in metadata.model_fields_set
        info.context_window = metadata.context_window if known else None
    if isinstance(given, str):
        natives = [ChatMessage(role="user", content=given)]
        # One text for a model for chats: the framework asks for itself. Who chats gives messages.
        info.purpose = "helper" if metadata is None or metadata.is_chat_model else info.purpose
        info.opaque = True
    elif not isinstance(given, list):
        natives = list(given)
    info.tools = [tool for tool in named.get("tools") or () if isinstance(tool, Mapping)]
    wanted = named.get("response_format")
    schema_of = getattr(wanted, "model_json_schema", None)
    wanted = schema_of() if schema_of is not None else wanted
    info.response_format = wanted if isinstance(wanted, Mapping) else None
    return [(natives, info)]


def _replaced(given: Any, sent: list[ChatMessage]) -> Any:
    """An input with other messages; one text stays one text."""
    return "\n\n".join(each.content or "" for each in sent) if isinstance(given, str) else sent


# Whole answers, and streams, which are called before they are read


def _answer(result: Any) -> list[tuple[Any, None]]:
    return [(result, None)]


def _open(call: GovernedCall[Any], start: Callable[..., Any]) -> Any:
    return _read(call, call.stream, call.run(start, lambda _: ()))


async def _aopen(call: GovernedCall[Any], start: Callable[..., Any]) -> Any:
    return _read(call, call.astream, await call.arun(start, lambda _: ()))


def _read(call: GovernedCall[Any], drive: Callable[..., Any], source: Any) -> Any:
    """The stream that the app reads; one that nobody ever reads ends, too."""
    unread: list[weakref.finalize[..., Any]] = []

    def begin(_: object) -> Any:
        for each in unread:
            each.detach()
        return source

    stream = drive(begin, _text, _joined)
    for turn in call.turns:
        unread.append(weakref.finalize(stream, call.hooks.failed, turn, GeneratorExit()))
        unread[-1].atexit = False
    return stream


def _text(chunk: ChatResponse | CompletionResponse) -> str:
    return chunk.delta or ""


def _joined(chunks: list[Any]) -> Any:
    """The last chunk has the whole answer; of an integration that gives pieces they are joined."""
    if not chunks:
        return None
    last, said = chunks[-1], "".join(map(_text, chunks))
    if len(message_of(last).content or "") >= len(said):
        return last
    if isinstance(last, CompletionResponse):
        return last.model_copy(update={"text": said})
    message = ChatMessage(
        role=last.message.role, content=said, additional_kwargs=last.message.additional_kwargs
    )
    return last.model_copy(update={"message": message})


_DRIVES: dict[str, Callable[..., Any]] = {
    "chat": lambda call, ask: call.run(ask, _answer),
    "achat": lambda call, ask: call.arun(ask, _answer),
    "stream_chat": _open,
    "astream_chat": _aopen,
}
_ENDPOINTS = [*_DRIVES, *(name.replace("chat", "complete") for name in _DRIVES)]
_MEMORY = [f"{a}{name}" for a in ("", "a") for name in ("get", "put", "put_messages")]

MAKERS: dict[type, dict[str, Make]] = {
    LLM: {name: partial(_governed, name) for name in _ENDPOINTS},
    BaseMemory: dict.fromkeys(_MEMORY, within(remembering)),
}
"""What is wrapped. All others (`predict`, `chat_with_tools`, `structured_predict`) end in these."""


def methods() -> Iterator[tuple[type, str, Make]]:
    """All of it, in every class that there is: a model may be made while its agent runs."""
    for base, by_name in MAKERS.items():
        classes: list[type] = [base]
        for cls in classes:
            derived: list[type] = cls.__subclasses__()
            classes += (each for each in derived if each not in classes)
            for name, make in by_name.items():
                if name in vars(cls):
                    yield cls, name, make
