"""Context engineering for Bolt flows: the whole adapter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from bolt_flows import Flow, Message, Tool

import ce_engine as ce
from ce_integrations.calls.agent_steps import Step, deeper, governing_step, in_step, step_around
from ce_integrations.calls.helper_calls import aside
from ce_integrations.calls.model_methods import ModelMethodCall
from ce_integrations.calls.tool_events import retrieved_doc
from ce_integrations.calls.tool_methods import RetrievalRecorder, RunInfo, ToolRecorder
from ce_integrations.install.adapter import (
    Adapter,
    CallInfo,
    Capabilities,
    Detach,
    Hooks,
    Stateless,
)
from ce_integrations.install.marks import Attribute, Mark, Marking
from ce_integrations.mapping.content_blocks import changed, tool_requests
from ce_integrations.mapping.usage import usage_of
from ce_integrations.wrapping.function_kinds import within


PLACE = Attribute("_ce_mark")
ORIGINS = {"system": "system", "user": "task", "assistant": "answer", "tool": "tool_result"}
BOTH = ("run", "arun")


def gives(name: str) -> Callable[[Any], bool]:
    """A kind of part: Bolt asks for no class either."""
    return lambda part: getattr(part, "gives", "") == name and hasattr(part, "arun")


def begin(part: Any, *_: Any, **__: Any) -> Step | None:
    """The step of a flow or an agent that is governed; parts that were added since are found here."""
    mark = PLACE.mark_of(part)
    if mark is None:
        return None
    with mark.hooks.guard("extend"):
        MARKING.extend(part, mark.hooks)
    return deeper(part, getattr(part, "name", ""), mark.hooks, conversation=Stateless(part))


def describe(call: ModelMethodCall) -> tuple[list[Message], CallInfo]:
    """Context Injection: the messages of a call, whose it is, and what goes out beside them."""
    step = step_around()
    call.owner.new_request()
    info = CallInfo(call.owner.request_id) if step is None else step.info()
    info.model, info.tools = call.subject.name, call.keywords.get("tools", ())
    return call.messages, info


def replies(result: dict[str, Any]) -> Iterator[tuple[Message, ce.Usage | None]]:
    yield result["replies"][0], usage_of(result["usage"])


def hits(result: dict[str, Any]) -> Iterator[ce.RetrievedDoc]:
    for page in result["documents"]:
        yield retrieved_doc(page["text"], page)


TOOLS = ToolRecorder(
    find=lambda _: governing_step(),
    describe=lambda run: RunInfo(run.subject.name, run.keywords, run.owner.info()),
)
SHELVES = RetrievalRecorder(
    find=lambda _: governing_step(),
    describe=lambda run: RunInfo("shelf", run.by_name("query")["query"], run.owner.info()),
    documents=hits,
)
MARKING = Marking(
    PLACE,
    {
        gives("replies"): BOTH,
        gives("messages"): dict.fromkeys(BOTH, in_step(begin)),
        gives("query"): dict.fromkeys(BOTH, within(aside)),
        gives("documents"): dict.fromkeys(BOTH, SHELVES),
        Tool: dict.fromkeys(("invoke", "ainvoke"), TOOLS),
        Flow: dict.fromkeys(BOTH, in_step(begin)),
    },
    text=lambda piece: piece["text"],
    packages=("bolt_flows",),
    describe=describe,
    answers=replies,
    callback="on_piece",
)


class BoltAdapter(Adapter[Any, Message]):
    """Installer (`accepts`, `attach`) and Mapper (the rest)."""

    name, requires, targets = "bolt", ("bolt-flows>=1.4,<2",), "a Flow, an Agent or a chat model"
    capabilities = Capabilities(
        ways=("sync", "async", "push", "apush"), teams=False, helpers=True, retrieval=True
    )

    def accepts(self, target: object) -> bool:
        return any(gives(name)(target) for name in ("everything", "messages", "replies"))

    def converses(self, target: object) -> bool:
        return not gives("replies")(target)

    def attach(self, target: Any, hooks: Hooks[Message]) -> Detach:
        return MARKING.attach(target, hooks, Mark)

    def is_attached(self, target: Any) -> bool:
        return MARKING.is_attached(target)

    def to_schema(self, native: Message) -> ce.HostMessage:
        message = ce.Message(role=ce.Role(native.role), content=native.text)
        message.tool_calls = tool_requests(native.calls) or None
        message.tool_call_id = native.result_of.id if native.result_of else None
        origin = ce.Origin("tool_call" if native.calls else ORIGINS[native.role])
        sent = tuple(json.dumps(call.args) for call in native.calls)  # as Bolt writes them
        return ce.HostMessage(message, origin, error=native.failed, arguments=sent)

    def to_native(self, step: ce.Step, native: Message | None) -> Message:
        if native is None:
            role = step.role if isinstance(step, ce.Insert) else ce.Role.SYSTEM
            return Message(role.value, changed("", step))
        return replace(native, text=changed(native.text, step))

    def parts(self, native: Message) -> tuple[object, ...]:
        return (native.text,)  # a message is never changed


ADAPTER = BoltAdapter()
