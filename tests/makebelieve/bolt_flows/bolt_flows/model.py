"""Messages, and a chat model that pushes the pieces of its answer to a callback and gives the whole."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from acme_agents.transport import ModelError, alines, lines


Values = dict[str, Any]
OnPiece = Callable[[Values], None]
OnPieceAwaited = Callable[[Values], Awaitable[None]]

_DATA = b"data: "
_END = b"data: [DONE]"


@dataclass(frozen=True)
class Call:
    """A tool that the model asks for. The provider's id is kept for it, and told to nobody else."""

    name: str
    args: Values
    id: str


@dataclass(frozen=True)
class Message:
    """One message; never changed, and without an id.

    Attributes:
        calls: the tools that an assistant's message asks for.
        result_of: the call whose result a tool's message is.
        failed: a tool's message that tells of an error.
    """

    role: str
    text: str = ""
    calls: tuple[Call, ...] = ()
    result_of: Call | None = None
    failed: bool = False


class ChatModel:
    """Asks a chat model, and never retries. Where somebody listens, the answer comes in pieces."""

    gives = "replies"

    def __init__(self, name: str, base_url: str, on_piece: OnPiece | None = None) -> None:
        self.name = name
        self.on_piece = on_piece
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._headers = {"Content-Type": "application/json"}

    def run(
        self, messages: list[Message], tools: Sequence[Values] = (), on_piece: OnPiece | None = None
    ) -> Values:
        push = on_piece or self.on_piece
        body = self._body(messages, tools, is_streamed=push is not None)
        found = lines(self._url, self._headers, body)
        if push is None:
            return _whole(b"".join(found))
        answer = _Answer()
        for line in found:
            if text := answer.take(line):
                push({"text": text})
        return answer.whole()

    async def arun(
        self,
        messages: list[Message],
        tools: Sequence[Values] = (),
        on_piece: OnPieceAwaited | None = None,
    ) -> Values:
        body = self._body(messages, tools, is_streamed=on_piece is not None)
        answer = _Answer()
        async with aclosing(alines(self._url, self._headers, body)) as found:  # type: ignore[type-var]  # a generator
            if on_piece is None:
                return _whole(b"\n".join([line async for line in found]))
            async for line in found:
                if text := answer.take(line):
                    await on_piece({"text": text})
        return answer.whole()

    def _body(
        self, messages: Iterable[Message], tools: Sequence[Values], *, is_streamed: bool
    ) -> bytes:
        sent = {"model": self.name, "messages": [_sent(each) for each in messages]}
        options = {"tools": list(tools)} if tools else {}
        stream = {"stream": True} if is_streamed else {}
        return json.dumps({**sent, **options, **stream}, ensure_ascii=False).encode()


def _sent(message: Message) -> Values:
    sent: Values = {"role": message.role, "content": message.text}
    if message.result_of is not None:
        sent["tool_call_id"] = message.result_of.id
    if message.calls:
        sent["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.args)},
            }
            for call in message.calls
        ]
    return sent


class _Answer:
    """An answer in pieces, put together."""

    def __init__(self) -> None:
        self._text = ""
        self._calls: list[Values] = []
        self._usage: Values | None = None
        self._is_over = False

    def take(self, line: bytes) -> str:
        """Take an event of the stream, and give its text."""
        self._is_over |= line.strip() == _END
        if not line.startswith(_DATA) or self._is_over:
            return ""
        event = json.loads(line.removeprefix(_DATA))
        self._usage = event.get("usage") or self._usage
        delta = event["choices"][0]["delta"] if event["choices"] else {}
        for part in delta.get("tool_calls") or ():
            if part["index"] == len(self._calls):
                self._calls.append({"id": part["id"], "function": {**part["function"]}})
            else:
                self._calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
        text = delta.get("content") or ""
        self._text += text
        return str(text)

    def whole(self) -> Values:
        if not self._is_over:
            raise ModelError("broken off: the end of the answer is missing")
        return _values({"content": self._text, "tool_calls": self._calls}, self._usage)


def _whole(document: bytes) -> Values:
    try:
        found = json.loads(document)
    except ValueError as error:
        raise ModelError("broken off: this is no document") from error
    return _values(found["choices"][0]["message"], found.get("usage"))


def _values(said: Values, usage: Values | None) -> Values:
    calls = tuple(
        Call(
            call["function"]["name"], json.loads(call["function"]["arguments"] or "{}"), call["id"]
        )
        for call in said.get("tool_calls") or ()
    )
    reply = Message("assistant", said.get("content") or "", calls)
    return {"replies": [reply], "usage": usage}
