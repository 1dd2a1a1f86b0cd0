"""Puts the engine in front of every call of a model: of its eight public methods, which all ways lead to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.evaluation import BaseEvaluator
from llama_index.core.indices.base import BaseIndex
from llama_index.core.llms import LLM
from llama_index.core.memory import BaseMemory
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.mixin import PromptMixin
from llama_index.core.schema import TransformComponent
from workflows import Workflow

from ce_engine.runtime.scoped_variable import handing_over
from ce_integrations.calls.helper_calls import aside
from ce_integrations.calls.model_methods import ModelMethodCall, as_one_text, governed, schema_of
from ce_integrations.install.adapter import CallInfo
from ce_integrations.install.class_adapter import Entry
from ce_integrations.llamaindex.mapper import message_of
from ce_integrations.llamaindex.spans import info_here, owner_here
from ce_integrations.wrapping.function_kinds import same_kind, within


def _replace(call: ModelMethodCall, messages: list[ChatMessage]) -> Any:
    """An input with other messages; one text stays one text."""
    if isinstance(call.argument, str):
        return as_one_text(messages, lambda message: message.content or "")
    return messages


def _describe(call: ModelMethodCall) -> tuple[list[ChatMessage], CallInfo]:
    model, keywords, info = call.subject, call.keywords, info_here()
    metadata = None
    with suppress(ValueError):  # a model that its integration has no entry for
        metadata = model.metadata
    info.provider = str(model.class_name()).split("_")[0].lower()
    if metadata is not None:
        info.model = metadata.model_name
        # Its default is nobody's window.
        has_window = "context_window" in metadata.model_fields_set
        info.context_window = metadata.context_window if has_window else None
    is_text = isinstance(call.argument, str)
    if is_text:
        # One text for a model for chats: the framework asks for itself. Who chats gives messages.
        info.purpose = "helper" if metadata is None or metadata.is_chat_model else info.purpose
        info.opaque = True
    info.tools = [tool for tool in keywords.get("tools") or () if isinstance(tool, Mapping)]
    info.response_format = schema_of(keywords.get("response_format"))
    return [ChatMessage(role="user", content=call.argument)] if is_text else call.messages, info


def _text(chunk: ChatResponse | CompletionResponse) -> str:
    return chunk.delta or ""


def _joined(chunks: list[Any]) -> Any:
    """The last chunk has the whole answer; of an integration that gives pieces they are joined."""
    if not chunks:
        return None
    last, text = chunks[-1], "".join(map(_text, chunks))
    if len(message_of(last).content or "") >= len(text):
        return last
    if isinstance(last, CompletionResponse):
        return last.model_copy(update={"text": text})
    message = ChatMessage(
        role=last.message.role, content=text, additional_kwargs=last.message.additional_kwargs
    )
    return last.model_copy(update={"message": message})


PIECES = "stream_chat astream_chat stream_complete astream_complete"

_governed = partial(
    governed,
    owner_here,
    _describe,
    names=("messages", "prompt"),
    replace=_replace,
    text=_text,
    join=_joined,
)


def _runs(original: Callable[..., Any]) -> Callable[..., Any]:
    """A workflow's run, whose own span begins in a task of the framework."""

    @same_kind(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        with handing_over():
            return original(*args, **kwargs)

    return run


_aside = within(aside)
MAKERS: tuple[Entry, ...] = (
    (LLM, _governed(), "chat achat complete acomplete"),
    # A stream's method asks at once; what it gives is read later.
    (LLM, _governed(gives="stream"), PIECES),
    (Workflow, _runs, "run"),
    # What asks models for itself where no span tells so: it judges answers, or prepares documents.
    (BaseMemory, _aside, "get aget put aput put_messages aput_messages"),
    (BaseNodePostprocessor, _aside, "postprocess_nodes apostprocess_nodes"),
    (BaseEvaluator, _aside, "evaluate aevaluate"),
    # The generators of questions for evaluations, which have no base of their own.
    (PromptMixin, _aside, "agenerate_questions_from_nodes agenerate_dataset_from_nodes"),
    (BaseIndex, _aside, "build_index_from_nodes insert_nodes ainsert_nodes"),
    # Its `__call__` has a span; before 0.14 this may run on a thread that knows of none.
    (TransformComponent, _aside, "acall"),
)
"""What is wrapped. All others (`predict`, `chat_with_tools`, `structured_predict`) end in these."""
