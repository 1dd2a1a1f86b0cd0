"""Records what runs beside the model: tools and retrievers, by LangChain's own callbacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool

from ce_integrations.calls.tool_events import at_work, retrieved_doc, working
from ce_integrations.langchain.graphs import is_interrupt
from ce_integrations.langchain.marks import Mark, mark_of, tree, with_mark
from ce_integrations.langchain.session import info_of
from ce_integrations.mapping.content_blocks import text_of
from ce_integrations.wrapping.function_kinds import Arguments, within
from ce_integrations.wrapping.patches import Make


@contextmanager
def _entry(_: object, subject: Any, /, *args: Any, **kwargs: Any) -> Iterator[Arguments]:
    """Around `invoke(input, config)`; a retriever's mark goes into its configuration."""
    config = args[1] if len(args) > 1 else kwargs.get("config")
    retrieves = isinstance(subject, BaseRetriever)
    mark = mark_of(getattr(subject, "callbacks", None)) if retrieves else None
    if mark is not None:
        callbacks = ensure_config(config).get("callbacks")
        if mark_of(callbacks) is None:
            config = {**(config or {}), "callbacks": with_mark(mark, "callbacks", callbacks)}
            args, kwargs = args[:1], {**kwargs, "config": config}
    argument = args[0] if args else kwargs.get("input")
    call_id = None
    if isinstance(argument, dict) and argument.get("type") == "tool_call":
        call_id = argument.get("id")
    with working(subject, config, retrieves=retrieves, call_id=call_id):
        yield (subject, *args), kwargs


ENTRIES: dict[type, dict[str, Make]] = {
    kind: dict.fromkeys(("invoke", "ainvoke"), within(_entry)) for kind in (BaseTool, BaseRetriever)
}
"""The methods by which an app calls them, to be wrapped."""


class Recorder(Mark):
    """The mark, listening: each tool run and retrieval is recorded once, by the outermost installation."""

    def _begin(self, run_id: UUID, name: object, argument: Any, kwargs: dict[str, Any]) -> None:
        with self.hooks.guard("callback"):
            if self.active and tree.of(run_id, self)[1] is self:
                parent, metadata, work = (
                    kwargs.get("parent_run_id"),
                    kwargs.get("metadata"),
                    at_work(),
                )
                info = info_of(work.config, parent=parent, run_id=run_id, metadata=metadata)
                info.lane_key = None  # a tool has a branch of its own: what it finds is its agent's
                call_id = kwargs.get("tool_call_id")
                if "tool_call_id" not in kwargs and getattr(work.subject, "name", None) == name:
                    call_id = work.call_id  # core 0.3 and 1.0: events do not tell it
                self.runs.begin(run_id, str(name), argument, info, call_id)

    def on_tool_start(
        self,
        /,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        name = (serialized or {}).get("name") or kwargs.get("name") or "tool"
        self._begin(run_id, name, input_str if inputs is None else inputs, kwargs)

    def on_tool_end(self, /, output: Any, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002 - theirs
        with self.hooks.guard("callback"):
            message = _message(output)
            failed = message is not None and message.status == "error"
            result = output if message is None else text_of(message.content)
            self.runs.tool_ended(run_id, result, failed=failed)

    def on_tool_error(self, /, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002 - theirs
        with self.hooks.guard("callback"):
            if is_interrupt(error):
                self.runs.forget(run_id)  # the graph pauses here and runs the tool again later
            else:
                self.runs.tool_failed(run_id, error)

    def on_retriever_start(
        self, /, serialized: dict[str, Any] | None, query: str, *, run_id: UUID, **kwargs: Any
    ) -> None:
        if not at_work().is_part:
            name = kwargs.get("name") or (serialized or {}).get("name") or "retriever"
            self._begin(run_id, name, query, kwargs)

    def on_retriever_end(
        self,
        /,
        documents: Sequence[Document],
        *,
        run_id: UUID,
        **kwargs: Any,  # noqa: ARG002 - theirs
    ) -> None:
        if hasattr(type(documents), "__next__"):  # whoever called reads it
            self.runs.forget(run_id)
            return
        with self.hooks.guard("callback"):
            hits = [retrieved_doc(d.page_content, d.metadata, d.id or "") for d in documents]
            self.runs.retrieved(run_id, hits)

    def on_retriever_error(self, /, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002 - theirs
        self.runs.forget(run_id)


def _message(output: Any) -> ToolMessage | None:
    """The message of a tool that gave one, itself or in a command to its graph."""
    update = getattr(output, "update", None)
    messages = update.get("messages") if isinstance(update, Mapping) else [output]
    return next((m for m in messages or () if isinstance(m, ToolMessage)), None)
