"""An agent: instructions, a model, tools, colleagues, and the conversation so far."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, closing, contextmanager
from typing import Any, get_type_hints

from acme_agents.messages import Message, Piece, ToolCall, join
from acme_agents.model import Model, Schema


Tool = Callable[..., Any]

_KINDS = {int: "integer", float: "number", bool: "boolean"}


class Listener:
    """Hears what an agent does; override what you want to hear. Nobody catches what you raise."""

    def on_run_start(self, agent: Agent, text: str) -> None: ...

    def on_tool_start(self, agent: Agent, call: ToolCall) -> None: ...

    def on_tool_end(self, agent: Agent, call: ToolCall, result: Message) -> None: ...


class Agent:
    """One conversation with a model that may call tools, and ask colleagues by a tool of their name.

    A tool that raises does not end the run: the model is told of the error. A run that fails, is
    cancelled or left leaves the conversation as it was before.

    Args:
        tools: functions with types and a docstring; run in the order in which the model asks for
            them, and side by side where the run is awaited.
        colleagues: agents that this one may ask. Each goes on with its own conversation.
    """

    def __init__(
        self,
        name: str,
        model: Model,
        instructions: str,
        tools: Sequence[Tool] = (),
        colleagues: Sequence[Agent] = (),
    ) -> None:
        self.name = name
        self.model = model
        self.history = [Message("system", instructions)]
        self.listeners: list[Listener] = []
        self.tools = {tool.__name__: tool for tool in tools}
        self.colleagues = {f"ask_{colleague.name}": colleague for colleague in colleagues}
        self.schemas = [_schema(tool) for tool in tools]
        self.schemas += [_asking(colleague) for colleague in colleagues]

    def run(self, text: str, speaker: str = "") -> str:
        """Say something, and give the answer."""
        with self._running(text, speaker):
            while (answer := self._said(self.ask_model(self.history))).calls:
                self.history += [self._call(call) for call in answer.calls]
            return answer.text

    async def arun(self, text: str, speaker: str = "") -> str:
        """The same, awaited."""
        with self._running(text, speaker):
            while (answer := self._said(await self.aask_model(self.history))).calls:
                self.history += await asyncio.gather(*map(self._acall, answer.calls))
            return answer.text

    def stream(self, text: str, speaker: str = "") -> Iterator[str]:
        """Say something, and give the answer as it comes; what is said beside calls, too."""
        with self._running(text, speaker):
            asks = True
            while asks:
                pieces = []
                with closing(self.stream_model(self.history)) as found:  # type: ignore[type-var]  # a generator
                    for piece in found:
                        pieces.append(piece)
                        if piece.text:
                            yield piece.text
                calls = self._said(join(pieces)).calls
                self.history += [self._call(call) for call in calls]
                asks = bool(calls)

    async def astream(self, text: str, speaker: str = "") -> AsyncIterator[str]:
        """The same, awaited."""
        with self._running(text, speaker):
            asks = True
            while asks:
                pieces = []
                async with aclosing(self.astream_model(self.history)) as found:  # type: ignore[type-var]  # a generator
                    async for piece in found:
                        pieces.append(piece)
                        if piece.text:
                            yield piece.text
                calls = self._said(join(pieces)).calls
                self.history += await asyncio.gather(*map(self._acall, calls))
                asks = bool(calls)

    # How the model is asked; a subclass may ask in another way

    def ask_model(self, messages: list[Message]) -> Message:
        return self.model.complete(messages, self.schemas)

    async def aask_model(self, messages: list[Message]) -> Message:
        return await self.model.acomplete(messages, self.schemas)

    def stream_model(self, messages: list[Message]) -> Iterator[Piece]:
        yield from self.model.stream(messages, self.schemas)

    async def astream_model(self, messages: list[Message]) -> AsyncIterator[Piece]:
        async with aclosing(self.model.astream(messages, self.schemas)) as found:  # type: ignore[type-var]  # a generator
            async for piece in found:
                yield piece

    # What happens in a run

    @contextmanager
    def _running(self, text: str, speaker: str) -> Iterator[None]:
        before = len(self.history)
        try:
            self._tell("on_run_start", text)
            self.history.append(Message("user", text, speaker))
            yield
        except BaseException:
            del self.history[before:]
            raise

    def _said(self, answer: Message) -> Message:
        self.history.append(answer)
        return answer

    def _tell(self, event: str, *what: Any) -> None:
        for listener in list(self.listeners):
            getattr(listener, event)(self, *what)

    def _call(self, call: ToolCall) -> Message:
        self._tell("on_tool_start", call)
        try:
            result = str(self._tool(call.name)(**json.loads(call.arguments)))
        except Exception as error:
            return self._ended(call, f"{type(error).__name__}: {error}", failed=True)
        return self._ended(call, result)

    async def _acall(self, call: ToolCall) -> Message:
        self._tell("on_tool_start", call)
        try:
            tool, arguments = self._tool(call.name), json.loads(call.arguments)
            if call.name in self.colleagues:
                result = await self.colleagues[call.name].arun(speaker=self.name, **arguments)
            elif inspect.iscoroutinefunction(tool):
                result = str(await tool(**arguments))
            else:
                result = str(await asyncio.to_thread(tool, **arguments))
        except Exception as error:
            return self._ended(call, f"{type(error).__name__}: {error}", failed=True)
        return self._ended(call, result)

    def _ended(self, call: ToolCall, text: str, *, failed: bool = False) -> Message:
        result = Message("tool", text, answers=call.id, failed=failed)
        self._tell("on_tool_end", call, result)
        return result

    def _tool(self, name: str) -> Tool:
        if name in self.colleagues:
            return lambda text: self.colleagues[name].run(text, self.name)
        return self.tools[name]


def _schema(tool: Tool) -> Schema:
    hints = get_type_hints(tool)
    names = list(inspect.signature(tool).parameters)
    kinds = {name: {"type": _KINDS.get(hints.get(name, str), "string")} for name in names}
    return _function(tool.__name__, inspect.getdoc(tool) or "", kinds)


def _asking(colleague: Agent) -> Schema:
    kinds = {"text": {"type": "string"}}
    return _function(f"ask_{colleague.name}", f"Ask {colleague.name}.", kinds)


def _function(name: str, description: str, kinds: dict[str, Schema]) -> Schema:
    parameters = {"type": "object", "properties": kinds, "required": list(kinds)}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}
