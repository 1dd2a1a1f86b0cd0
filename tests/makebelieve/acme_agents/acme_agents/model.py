"""A chat model behind an OpenAI-compatible server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from acme_agents.messages import Message, Piece, ToolCall
from acme_agents.transport import ModelError, alines, lines


Schema = dict[str, Any]

_DATA = b"data: "
_END = b"data: [DONE]"


class Model:
    """Asks a chat model; keeps nothing and never retries.

    A stream is not asked for its usage, since some servers refuse the option.
    """

    def __init__(self, name: str, base_url: str, api_key: str = "") -> None:
        self.name = name
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {api_key}"}

    def complete(self, messages: Sequence[Message], tools: Sequence[Schema] = ()) -> Message:
        return _whole(lines(self._url, self._headers, self._body(messages, tools)))

    async def acomplete(self, messages: Sequence[Message], tools: Sequence[Schema] = ()) -> Message:
        found = alines(self._url, self._headers, self._body(messages, tools))
        return _whole([line async for line in found])

    def stream(self, messages: Sequence[Message], tools: Sequence[Schema] = ()) -> Iterator[Piece]:
        for line in lines(self._url, self._headers, self._body(messages, tools, stream=True)):
            if (piece := _piece(line)) is not None:
                yield piece
            if line.strip() == _END:
                return
        raise ModelError("broken off: the end of the answer is missing")

    async def astream(
        self, messages: Sequence[Message], tools: Sequence[Schema] = ()
    ) -> AsyncIterator[Piece]:
        body = self._body(messages, tools, stream=True)
        async for line in alines(self._url, self._headers, body):
            if (piece := _piece(line)) is not None:
                yield piece
            if line.strip() == _END:
                return
        raise ModelError("broken off: the end of the answer is missing")

    def _body(self, messages: Sequence[Message], tools: Sequence[Schema], **options: Any) -> bytes:
        sent = {"model": self.name, "messages": [_sent(each) for each in messages], **options}
        if tools:
            sent["tools"] = list(tools)
        return json.dumps(sent, ensure_ascii=False).encode()


def _sent(message: Message) -> Schema:
    sent: Schema = {"role": message.role, "content": message.text}
    if message.speaker:
        sent["name"] = message.speaker
    if message.role == "tool":
        sent["tool_call_id"] = message.answers
    if message.calls:
        sent["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
    return sent


def _whole(found: Iterator[bytes] | list[bytes]) -> Message:
    try:
        document = json.loads(b"".join(found))
    except ValueError as error:
        raise ModelError("broken off: this is no document") from error
    said = document["choices"][0]["message"]
    calls = [
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in said.get("tool_calls") or ()
    ]
    text = said.get("content") or ""
    return Message("assistant", text, calls=calls, usage=document.get("usage"))


def _piece(line: bytes) -> Piece | None:
    """What an event of a stream says, if it says anything."""
    if not line.startswith(_DATA) or line.strip() == _END:
        return None
    choices = json.loads(line.removeprefix(_DATA))["choices"]
    delta = choices[0]["delta"] if choices else {}
    piece = Piece(delta.get("content") or "", tuple(delta.get("tool_calls") or ()))
    return piece if piece != Piece() else None
