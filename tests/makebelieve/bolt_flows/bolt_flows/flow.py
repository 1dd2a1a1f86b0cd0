"""Parts of flows: agents, tools, shelves with pages, and flows themselves."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from bolt_flows.model import Call, Message, OnPiece, OnPieceAwaited, Values


_KINDS = {"int": "integer", "float": "number", "bool": "boolean"}


class Tool:
    """A function that a model may have called; an awaited run is one in a thread."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = function.__name__
        self._function = function

    def invoke(self, **args: Any) -> Any:
        return self._function(**args)

    async def ainvoke(self, **args: Any) -> Any:
        return await asyncio.to_thread(self.invoke, **args)

    @property
    def schema(self) -> Values:
        named = inspect.signature(self._function).parameters.items()
        kinds = {n: {"type": _KINDS.get(str(p.annotation), "string")} for n, p in named}
        parameters = {"type": "object", "properties": kinds, "required": list(kinds)}
        about = {"name": self.name, "description": inspect.getdoc(self._function) or ""}
        return {"type": "function", "function": {**about, "parameters": parameters}}


class Agent:
    """Answers the newest of the messages that it is handed, with tools; it keeps none of them.

    Args:
        model: any part that gives `replies`.
    """

    gives = "messages"

    def __init__(
        self, name: str, model: Any, instructions: str, tools: Sequence[Callable[..., Any]] = ()
    ) -> None:
        self.name = name
        self.model = model
        self.instructions = instructions
        self.tools = {tool.__name__: Tool(tool) for tool in tools}

    def run(
        self,
        messages: Sequence[Message],
        documents: Sequence[Values] = (),
        on_piece: OnPiece | None = None,
    ) -> Values:
        talk = self._begun(messages, documents)
        while True:
            reply = self.model.run(talk, tools=self._schemas, on_piece=on_piece)["replies"][0]
            talk.append(reply)
            if not reply.calls:
                return {"messages": talk[1:]}
            talk += [self._called(call) for call in reply.calls]

    async def arun(
        self,
        messages: Sequence[Message],
        documents: Sequence[Values] = (),
        on_piece: OnPieceAwaited | None = None,
    ) -> Values:
        talk = self._begun(messages, documents)
        while True:
            found = await self.model.arun(talk, tools=self._schemas, on_piece=on_piece)
            reply = found["replies"][0]
            talk.append(reply)
            if not reply.calls:
                return {"messages": talk[1:]}
            talk += await asyncio.gather(*map(self._acalled, reply.calls))

    @property
    def _schemas(self) -> list[Values]:
        return [tool.schema for tool in self.tools.values()]

    def _begun(self, messages: Sequence[Message], documents: Sequence[Values]) -> list[Message]:
        known = [self.instructions, *(page["text"] for page in documents)]
        return [Message("system", "\n".join(known)), *messages]

    def _called(self, call: Call) -> Message:
        try:
            return _result(call, self.tools[call.name].invoke(**call.args))
        except Exception as error:
            return _failed(call, error)

    async def _acalled(self, call: Call) -> Message:
        try:
            return _result(call, await self.tools[call.name].ainvoke(**call.args))
        except Exception as error:
            return _failed(call, error)


def _result(call: Call, result: object) -> Message:
    return Message("tool", str(result), result_of=call)


def _failed(call: Call, error: Exception) -> Message:
    text = f"{type(error).__name__}: {error}"
    return Message("tool", text, result_of=call, failed=True)


class Shelf:
    """Finds all its pages, best first."""

    gives = "documents"

    def __init__(self, pages: Sequence[Values]) -> None:
        self.pages = list(pages)

    def run(self, query: str) -> Values:
        return {"documents": [dict(page) for page in self.pages if query]}

    async def arun(self, query: str) -> Values:
        return await asyncio.to_thread(self.run, query)


_CONDENSE = Message("user", "Say in three words what is asked.")


class Condenser:
    """Has a model say in short what is asked, for those who look it up."""

    gives = "query"

    def __init__(self, model: Any) -> None:
        self.model = model

    def run(self, messages: Sequence[Message]) -> Values:
        reply: Message = self.model.run([*messages, _CONDENSE])["replies"][0]
        return {"query": reply.text}

    async def arun(self, messages: Sequence[Message]) -> Values:
        found = await self.model.arun([*messages, _CONDENSE])
        return {"query": found["replies"][0].text}


class Flow:
    """Runs parts one after the other: each takes what it has parameters for, and adds what it gives."""

    gives = "everything"

    def __init__(self, *parts: Any) -> None:
        self.parts = list(parts)

    def add(self, part: Any) -> None:
        self.parts.append(part)

    def run(self, **values: Any) -> Values:
        for part in self.parts:
            values |= part.run(**_taken(part.run, values))
        return values

    async def arun(self, **values: Any) -> Values:
        for part in self.parts:
            values |= await part.arun(**_taken(part.arun, values))
        return values


def _taken(method: Callable[..., Any], values: Values) -> Values:
    names = inspect.signature(method).parameters
    return {name: value for name, value in values.items() if name in names}
