"""Records what runs beside the model: tools with the calls that asked for them, and retrievers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from inspect import iscoroutinefunction
from threading import Lock
from typing import Any

from haystack.components.agents import agent
from haystack.dataclasses import ChatMessage, Document, ToolCall
from haystack.tools import Tool

from ce_engine import RetrievedDoc
from ce_engine.runtime.contexts import unset
from ce_integrations.blocks import media_digests
from ce_integrations.haystack.mapper import beside, text_of
from ce_integrations.hooks import Hooks
from ce_integrations.patches import Make
from ce_integrations.runs import OpenRuns, as_text, at_work, retrieved_doc, working
from ce_integrations.steps import step_around
from ce_integrations.wrappers import same_kind


class _Calls:
    """The calls of an answer that have no run yet: no tool is told which one it runs for."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self._waiting = [call for message in messages for call in message.tool_calls]
        self._lock = Lock()

    def claim(self, asked_for: Callable[[ToolCall], bool]) -> ToolCall | None:
        """The first one that is meant, once."""
        with self._lock:
            places = (n for n, call in enumerate(self._waiting) if asked_for(call))
            place = next(places, None)
            return None if place is None else self._waiting.pop(place)


_calls: ContextVar[_Calls | None] = ContextVar("ce_haystack_calls", default=None)


def _hooks_here() -> Hooks[Any] | None:
    step = step_around()
    return step.hooks if step is not None and step.hooks and step.hooks.active else None


class _Run:
    """A tool or a retriever at work in a governed run."""

    def __init__(
        self, hooks: Hooks[Any], name: str, given: Any, call_id: str | None = None
    ) -> None:
        self.id = secrets.token_hex(8)
        self.hooks = hooks
        self.runs: OpenRuns[str] = OpenRuns(hooks)
        step = step_around()
        assert step is not None, "who has hooks here is in a step"
        # What a stateless pipeline finds before it asks goes on with nobody's earlier run.
        info = step.info(conversation=None)
        self.runs.begin(self.id, name, given, info, call_id)

    def gave(self, result: Any) -> None:
        """A result that is texts, pictures and files goes to the model as those."""
        if isinstance(result, list) and beside(result):
            media = media_digests(beside(result))
            self.runs.tool_ended(self.id, text_of(result), media=media)
        else:
            self.runs.tool_ended(self.id, result if isinstance(result, str) else as_text(result))

    def failed(self, error: BaseException) -> None:
        # `ToolInvocationError` is what the framework makes of whatever a tool raised.
        self.runs.tool_failed(self.id, error.__cause__ or error)


class _Search(_Run):
    """The same of a retriever, which gives documents."""

    def gave(self, result: Any) -> None:
        self.runs.retrieved(self.id, list(map(_hit, result.get("documents") or ())))

    def failed(self, error: BaseException) -> None:  # noqa: ARG002 - it found nothing
        self.runs.forget(self.id)


def _hit(document: Document) -> RetrievedDoc:
    score = {} if document.score is None else {"score": float(document.score)}
    return retrieved_doc(document.content or "", {**document.meta, **score}, document.id)


# Wrappers


def _watched(begin: Callable[[Any, dict[str, Any]], _Run | None]) -> Make:
    """The maker of wrappers for what is called with its arguments by name, awaited or not."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        watch = partial(_watching, begin)

        async def awaited(subject: Any, *args: Any, **kwargs: Any) -> Any:
            with watch(subject, kwargs) as seen:
                seen.append(await original(subject, *args, **kwargs))
            return seen[0]

        def plain(subject: Any, *args: Any, **kwargs: Any) -> Any:
            with watch(subject, kwargs) as seen:
                seen.append(original(subject, *args, **kwargs))
            return seen[0]

        return same_kind(original)(awaited if iscoroutinefunction(original) else plain)

    return make


@contextmanager
def _watching(
    begin: Callable[[Any, dict[str, Any]], _Run | None], subject: Any, given: dict[str, Any]
) -> Iterator[list[Any]]:
    hooks, run, seen = _hooks_here(), None, list[Any]()
    if hooks is not None:
        with hooks.guard("begin"):
            run = begin(subject, given)
    if run is None:
        yield seen
        return
    token = _calls.set(None)  # what runs inside was not asked for by the model
    try:
        with working(subject, None, retrieves=isinstance(run, _Search)):
            yield seen
    except BaseException as error:
        with run.hooks.guard("failed"):
            run.failed(error)
        raise
    finally:
        unset(_calls, token)
    with run.hooks.guard("gave"):
        run.gave(seen[0])


def _tool(subject: Tool, given: dict[str, Any]) -> _Run | None:
    hooks, calls = _hooks_here(), _calls.get()
    if hooks is None or at_work().subject is subject:  # awaited, it may go on by its plain way
        return None

    def asked_for(call: ToolCall) -> bool:
        # The framework adds arguments of its own, such as those from an agent's state.
        args = call.arguments.items()
        return call.tool_name == subject.name and all(given.get(k, given) == v for k, v in args)

    call = calls.claim(asked_for) if calls is not None else None
    return _Run(hooks, subject.name, given if call is None else call.arguments, call and call.id)


def _retriever(subject: Any, given: dict[str, Any]) -> _Run | None:
    hooks = _hooks_here()
    if hooks is None or at_work().retriever is not None:
        return None
    asked = given.get("query") or given.get("queries") or ""
    query = asked if isinstance(asked, str) else "\n".join(map(str, asked))
    return _Search(
        hooks, getattr(subject, "__component_name__", "") or type(subject).__name__, query
    )


searches = _watched(_retriever)


def _batch(original: Callable[..., Any]) -> Callable[..., Any]:
    """The tools of one answer, `_run_tool(messages=...)`: some of those that it asks for may not exist."""

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        with _asking_for(kwargs) as calls:
            result = await original(*args, **kwargs)
        return _answered(calls, result)

    def plain(*args: Any, **kwargs: Any) -> Any:
        with _asking_for(kwargs) as calls:
            result = original(*args, **kwargs)
        return _answered(calls, result)

    return same_kind(original)(awaited if iscoroutinefunction(original) else plain)


@contextmanager
def _asking_for(kwargs: Mapping[str, Any]) -> Iterator[_Calls | None]:
    hooks, calls = _hooks_here(), None
    if hooks is not None:
        with hooks.guard("calls"):
            calls = _Calls(kwargs["messages"])
    token = _calls.set(calls)
    try:
        yield calls
    finally:
        unset(_calls, token)


def _answered(calls: _Calls | None, result: Any) -> Any:
    """What was answered without a run is recorded as the framework answered it."""
    hooks = _hooks_here()
    if hooks is not None and calls is not None:
        with hooks.guard("calls"):
            for message in result[0]:
                told = message.tool_call_result
                call = calls.claim(lambda each: each is told.origin)  # noqa: B023 - called at once
                if call is not None:
                    run = _Run(hooks, call.tool_name, call.arguments, call.id)
                    run.runs.tool_ended(run.id, as_text(told.result), failed=told.error)
    return result


TOOLS: dict[type, dict[str, Make]] = {
    Tool: dict.fromkeys(("invoke", "invoke_async"), _watched(_tool))
}
BATCHES = [(agent, name, _batch) for name in ("_run_tool", "_run_tool_async")]
"""Functions that an agent's module has, by their own names in all of 3.0 to 3.4."""
