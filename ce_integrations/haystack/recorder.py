"""Records what runs beside the model: tools, those that do not exist included, and what finds documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any

from haystack.components.agents import agent
from haystack.dataclasses import Document, ToolCall
from haystack.tools.tool import Tool

from ce_engine import RetrievedDoc
from ce_engine.runtime.contexts import unset
from ce_integrations.blocks import media_digests
from ce_integrations.class_adapter import Entry
from ce_integrations.haystack.mapper import beside, text_of
from ce_integrations.haystack.roles import owner_of
from ce_integrations.recorders import Called, Outcome, RetrievalRecorder, Run, RunInfo, ToolRecorder
from ce_integrations.runs import retrieved_doc
from ce_integrations.session import CallInfo
from ce_integrations.steps import Step
from ce_integrations.wrappers import same_kind, within


# Tools


def _described(called: Called) -> RunInfo:
    return RunInfo(called.subject.name, called.named, called.owner.info(conversation=None))


_Round = list[tuple[Run, Any]]
_round: ContextVar[_Round | None] = ContextVar("ce_haystack_round", default=None)
"""Tools that have run and whose messages are not made yet, of the answer that is at work."""


@contextmanager
def _in_round(*_: object, **__: object) -> Iterator[None]:
    """Around all that an answer asks for; of those of which no message came, what they gave is known."""
    token = _round.set(round_ := [])
    try:
        yield
    finally:
        unset(_round, token)
        for run, result in round_:
            with run.noting("tool"):
                run.ended(_said(result))


def _outcome(run: Run, result: Any) -> Outcome | None:
    """A text is what the model is told, unless the tool says how; what it is of an object, a message tells."""
    waiting = _round.get()
    if waiting is None or (isinstance(result, str) and not run.subject.outputs_to_string):
        return _said(result)
    waiting.append((run, result))
    return None


def _said(result: Any, *, failed: bool = False) -> Outcome:
    """Texts, pictures and files go to the model as those."""
    blocks = beside(result) if isinstance(result, list) else []
    media = media_digests(blocks) if blocks else ()
    return Outcome(text_of(result) if blocks else result, failed, media)


def _raised(error: BaseException) -> BaseException:
    """What a tool raised is the cause of the framework's `ToolInvocationError`."""
    return error.__cause__ or error


def _batch(original: Callable[..., Any]) -> Callable[..., Any]:
    """Runs what an answer asks for; what there is no tool for is answered all the same, and recorded so."""

    async def awaited(result: Any) -> Any:
        return _answered(await result)

    @same_kind(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        return awaited(result) if isawaitable(result) else _answered(result)

    return within(_in_round)(run)


def _answered(result: Any) -> Any:
    if (owner := owner_of.step()) is not None and owner.hooks is not None:
        with owner.hooks.guard("tools"):
            info = owner.info(conversation=None)
            for told in (message.tool_call_result for message in result[0]):
                run = _waiting_for(told.origin) or _never_run(owner, info, told.origin)
                if run is not None:
                    run.ended(_said(told.result, failed=told.error))
    return result


def _waiting_for(call: ToolCall) -> Run | None:
    """The run of a call that waits to hear what is told of it."""
    waiting, asked = _round.get() or [], (call.id, call.tool_name, call.arguments)
    for place, (run, _) in enumerate(waiting):
        if (run.call_id, run.subject.name, run.given) == asked:
            return waiting.pop(place)[0]
    return None


def _never_run(owner: Step, info: CallInfo, call: ToolCall) -> Run | None:
    """A run for what no tool ran for."""
    asked = owner.hooks.asked.claim(info, call.tool_name, call.arguments)
    if asked is None:
        return None
    called = Called(owner, None, (), call.arguments, "")
    return Run(called, RunInfo(call.tool_name, call.arguments, info, call.id))


MAKERS: tuple[Entry, ...] = (
    # Functions that an agent's module calls by these names in 3.0 to 3.4.
    (agent, _batch, "_run_tool _run_tool_async"),
    (
        Tool,
        ToolRecorder(find=owner_of.step, describe=_described, outcome=_outcome, raised=_raised),
        "invoke invoke_async",
    ),
)


# Documents


def _asked(called: Called) -> RunInfo:
    given = called.by_name("query")
    asked = given.get("query") or given.get("queries") or ""
    name = getattr(called.subject, "__component_name__", "") or type(called.subject).__name__
    # What a stateless pipeline finds before it asks goes on with nobody's earlier run.
    query = asked if isinstance(asked, str) else "\n".join(map(str, asked))
    return RunInfo(name, query, called.owner.info(conversation=None))


def _hits(result: Any) -> Iterator[RetrievedDoc]:
    found: list[Document] = result.get("documents") or []
    for each in found:
        yield retrieved_doc(each.content or "", each.meta, each.id, each.score)


searches = RetrievalRecorder(find=owner_of.step, describe=_asked, documents=_hits)
