"""Models that talk to the wire, and the ways in which apps of LlamaIndex are asked."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any, Protocol

import pytest
from llama_index.llms.openai import OpenAI
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.framework_apps import MODEL
from ce_integrations.testing.wire import Wire
from tests.adapters.clients import no_certificates


class Model(Protocol):
    """Makes a model that talks to the wire."""

    def __call__(self, wire: Wire, **settings: Any) -> Any: ...


@pytest.fixture
def install() -> Any:
    return install_ce


@pytest.fixture
def model(runner: asyncio.Runner) -> Iterator[Model]:
    client = DefaultHttpxClient(verify=no_certificates())
    async_client = DefaultAsyncHttpxClient(verify=no_certificates())

    def make(wire: Wire, kind: Any = OpenAI, **settings: Any) -> Any:
        given = {
            "model": MODEL,
            "api_base": wire.base_url,
            "api_key": "no key",
            "max_retries": 0,
            "http_client": client,
            "async_http_client": async_client,
        }
        return kind(**{**given, **settings})

    yield make
    client.close()
    runner.run(async_client.aclose())


WAYS = ["chat", "achat", "stream_chat", "astream_chat"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """How a model is asked, and a chat engine."""
    return str(request.param)


@pytest.fixture
def call(runner: asyncio.Runner) -> Callable[..., list[str]]:
    """Call a method of a model by its name; what it gave, piece by piece, as text."""

    def run(subject: Any, method: str, *args: Any, **kwargs: Any) -> list[str]:
        given = getattr(subject, method)(*args, **kwargs)
        if not inspect.isawaitable(given):
            return _pieces(given)

        async def awaited() -> list[str]:
            result = await given
            if hasattr(result, "__aiter__"):
                return [_text(each) async for each in result]
            if "Streaming" in type(result).__name__:
                return [_text(each) async for each in result.async_response_gen()]
            return _pieces(result)

        return runner.run(awaited(), context=copy_context())

    return run


def _pieces(given: Any) -> list[str]:
    if "Streaming" in type(given).__name__:
        return [_text(each) for each in given.response_gen]
    return [_text(each) for each in given] if inspect.isgenerator(given) else [_text(given)]


def _text(given: Any) -> str:
    delta = getattr(given, "delta", None)
    if delta is None and hasattr(given, "message"):
        return str(given.message.content)
    return str(given) if delta is None else str(delta)
