"""A make-believe framework whose tools and retrievers tell nobody that they run, and no ids; with its adapter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from ce_engine import HostMessage, Message, Origin, RetrievedDoc, Role, ToolRequest
from ce_integrations import CallInfo, Hooks
from ce_integrations.calls.agent_steps import step_around
from ce_integrations.calls.tool_methods import MethodCall, RetrievalRecorder, RunInfo, ToolRecorder
from ce_integrations.install.adapter import Adapter, Detach
from ce_integrations.install.marks import Attribute, Mark, Marking
from ce_integrations.wrapping.patches import ClassPatches, Make, all_definitions
from tests.adapters.talkers import TalkerAdapter


@dataclass(eq=False)
class Note:
    role: str
    content: str = ""
    calls: list[ToolRequest] = field(default_factory=list)
    answers: str | None = None


Asks = list[tuple[str, dict[str, Any]]]


@dataclass(eq=False)
class Agent:
    """Asks a model that wants these tools, and hands its messages around."""

    wants: list[Asks] = field(default_factory=list)

    def ask(self, messages: list[Note]) -> Note:
        turn = len(messages)
        asks = self.wants.pop(0) if self.wants else []
        calls = [
            ToolRequest(name=name, args=args, id=f"call_{turn}_{n}")
            for n, (name, args) in enumerate(asks)
        ]
        return Note("assistant", "" if calls else "Done.", calls)


class Tool:
    """Runs a function, in every way that Python has; the framework adds an argument of its own."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function

    def invoke(self, **given: Any) -> Any:
        return self.function(**{k: v for k, v in given.items() if k != "state"})

    async def ainvoke(self, **given: Any) -> Any:
        return await asyncio.to_thread(self.invoke, **given)

    def pieces(self, **given: Any) -> Iterator[Any]:
        yield "so far"
        yield self.invoke(**given)

    async def apieces(self, **given: Any) -> AsyncIterator[Any]:
        yield "so far"
        yield self.invoke(**given)


class Loud(Tool):
    """An app's own tool, which lets the framework's do the rest."""

    def invoke(self, **given: Any) -> Any:
        return str(super().invoke(**given)).upper()


class Shelf:
    """A retriever, which asks another one if it has one."""

    def __init__(self, *pages: str, inner: Shelf | None = None) -> None:
        self.pages, self.inner = pages, inner

    def find(self, query: str) -> dict[str, list[str]]:
        found = self.inner.find(query)["documents"] if self.inner else []
        return {"documents": [*found, *self.pages]}

    async def afind(self, query: str) -> dict[str, list[str]]:
        await asyncio.sleep(0)
        return self.find(query)


class AgentMark(Mark):
    def info(self, subject: Agent) -> CallInfo:
        step = step_around()
        return CallInfo(session_id="s") if step is None else step.info(session_id="s")


def tool_run(called: MethodCall) -> RunInfo:
    return RunInfo(called.subject.name, dict(called.keywords), called.owner.info())


def retrieval(called: MethodCall) -> RunInfo:
    (query,) = called.by_name("query").values()
    return RunInfo("shelf", query, called.owner.info())


def owner(_: object) -> Any:
    step = step_around()
    return step if step is not None and step.hooks is not None else None


TOOLS = ToolRecorder(find=owner, describe=tool_run)
FINDS = RetrievalRecorder(
    find=owner,
    describe=retrieval,
    documents=lambda found: [RetrievedDoc(text=page) for page in found["documents"]],
)
MAKERS: dict[Any, dict[str, Make]] = {
    Tool: dict.fromkeys(("invoke", "ainvoke", "pieces", "apieces"), TOOLS),
    Shelf: dict.fromkeys(("find", "afind"), FINDS),
}
PATCHES = ClassPatches()
MARKING = Marking(Attribute("_ce_mark"), {Agent: ("ask",)}, packages=("tests",))


class AgentAdapter(Adapter[Agent, Note]):
    name, requires = "agents", ("pydantic>=2",)

    def accepts(self, target: object) -> bool:
        return isinstance(target, Agent)

    def attach(self, target: Agent, hooks: Hooks[Note]) -> Detach:
        with ExitStack() as undo:
            undo.callback(PATCHES.hold(all_definitions(MAKERS), hooks))
            undo.callback(MARKING.attach(target, hooks, AgentMark))
            return undo.pop_all().close

    def to_schema(self, native: Note) -> HostMessage:
        kinds = {"user": Origin.TASK, "tool": Origin.TOOL_RESULT, "assistant": Origin.ANSWER}
        message = Message(role=Role(native.role), content=native.content)
        message.tool_calls, message.tool_call_id = native.calls or None, native.answers
        return HostMessage(message, Origin.TOOL_CALL if native.calls else kinds[native.role])

    to_native = TalkerAdapter.to_native  # type: ignore[assignment]  # nothing is to be made here
