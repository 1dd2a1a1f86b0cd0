"""The HTTP clients that an app gives to its framework; they note what goes out and what comes back."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from typing import Any

from openai import DefaultAsyncHttpxClient, DefaultHttpxClient


Body = dict[str, Any]


class Line:
    """The way of one app to a model."""

    def __init__(self, base_url: str, ending: ExitStack, *, asynchronous: bool) -> None:
        """What is opened is closed when `ending` ends."""
        self.base_url = base_url
        self.runner = ending.enter_context(asyncio.Runner())
        self.asynchronous = asynchronous
        """Where a framework has both ways to ask."""
        self.client = Client(self)
        self.async_client = AsyncClient(self)
        ending.callback(self.client.close)
        ending.callback(lambda: self.runner.run(self.async_client.aclose()))
        self.asked: list[Body] = []
        """What was on the wire, whatever the framework says."""
        self.answered: list[Body | None] = []
        """In the same order; none where the answer is a stream."""

    def note(self, response: Any) -> Any:
        """Gives the response as the framework is to have it."""
        self.asked.append(json.loads(response.request.content))
        self.answered.append(None if self.asked[-1].get("stream") else response.json())
        return _without_functions(response, self.answered[-1])


class Client(DefaultHttpxClient):
    def __init__(self, line: Line) -> None:
        super().__init__(verify=False)  # takes time, and the server is on this machine
        self._line = line

    def send(self, request: Any, **options: Any) -> Any:
        return self._line.note(super().send(_as_served(self, request), **options))


class AsyncClient(DefaultAsyncHttpxClient):
    def __init__(self, line: Line) -> None:
        super().__init__(verify=False)  # as above
        self._line = line

    async def send(self, request: Any, **options: Any) -> Any:
        return self._line.note(await super().send(_as_served(self, request), **options))


def _as_served(client: Client | AsyncClient, request: Any) -> Any:
    """A request as the recorded model can do something with it."""
    body = json.loads(request.content)
    body.pop("parallel_tool_calls", None)  # LlamaIndex says it from core 0.14 on, of one call too
    for message in body["messages"]:
        # llama-cpp-python 0.3.36 takes no `null` as the content of an answer that is calls only.
        message["content"] = message.get("content") or ""
    if body.get("tools"):
        _choose_tool(body)
    headers = {name: each for name, each in request.headers.items() if name != "content-length"}
    return client.build_request(
        request.method, request.url, headers=headers, json=body, extensions=request.extensions
    )


def _choose_tool(body: Body) -> None:
    """A model as small as this one calls a tool only when it must, and then without an end."""
    if any(message["role"] == "tool" for message in body["messages"]):
        del body["tools"]
        body.pop("tool_choice", None)
    else:
        name = body["tools"][0]["function"]["name"]
        body["tool_choice"] = {"type": "function", "function": {"name": name}}


def _without_functions(response: Any, body: Body | None) -> Any:
    """llama-cpp-python tells calls a second time, in the way of before there were tools; AutoGen refuses that."""
    told = [
        choice["message"].pop("function_call", None) for choice in (body or {}).get("choices", ())
    ]
    if not any(told):
        return response
    return type(response)(response.status_code, json=body, request=response.request)
