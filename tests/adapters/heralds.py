"""A make-believe framework that gives answers whole, and pushes their pieces to a callback."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from ce_integrations.testing import MODEL, SYSTEM, Wire


@dataclass(frozen=True)
class Note:
    role: str
    content: str


Push = Callable[[dict[str, Any]], None]
APush = Callable[[dict[str, Any]], Awaitable[None]]


class BrokenError(Exception):
    """The provider failed."""


class Herald:
    """One conversation; each answer is read piece by piece, also where nobody listens."""

    def __init__(self, wire: Wire) -> None:
        self.url = f"{wire.base_url}/chat/completions"
        self.history = [Note("system", SYSTEM)]
        self.received: list[list[Note]] = []

    def run(self, text: str, on_piece: Push | None = None) -> str:
        answer = self.ask_model([*self.history, Note("user", text)], on_piece=on_piece)
        self.history += [Note("user", text), *answer["replies"]]
        return self.history[-1].content

    async def arun(self, text: str, on_piece: APush | None = None) -> str:
        answer = await self.aask_model([*self.history, Note("user", text)], on_piece)
        self.history += [Note("user", text), *answer["replies"]]
        return self.history[-1].content

    def ask_model(self, messages: list[Note], on_piece: Push | None = None) -> dict[str, Any]:
        self.received.append(messages)
        said = []
        with (
            httpx.Client(trust_env=False) as client,
            client.stream("POST", self.url, json=body(messages)) as found,
        ):
            if found.status_code != 200:
                raise BrokenError(found.read())
            for piece in _pieces(_complete(found.iter_lines())):
                said.append(piece)
                if on_piece is not None:
                    on_piece({"text": piece})
        return {"replies": [Note("assistant", "".join(said))]}

    async def aask_model(
        self, messages: list[Note], on_piece: APush | None = None
    ) -> dict[str, Any]:
        self.received.append(messages)
        said, lines = [], []
        async with (
            httpx.AsyncClient(trust_env=False) as client,
            client.stream("POST", self.url, json=body(messages)) as found,
        ):
            if found.status_code != 200:
                raise BrokenError(await found.aread())
            async for line in found.aiter_lines():
                lines.append(line)
                for piece in _pieces([line]):
                    said.append(piece)
                    if on_piece is not None:
                        await on_piece({"text": piece})
        list(_complete(lines))
        return {"replies": [Note("assistant", "".join(said))]}


def body(messages: list[Note]) -> dict[str, Any]:
    return {"model": MODEL, "messages": [vars(each) for each in messages], "stream": True}


def _complete(lines: Iterable[str]) -> Iterator[str]:
    last = ""
    for line in lines:
        last = line or last
        yield line
    if last != "data: [DONE]":
        raise BrokenError("broken off")


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith("data: {"):
            choices = json.loads(line.removeprefix("data: "))["choices"]
            if choices and (text := choices[0]["delta"].get("content")):
                yield text
