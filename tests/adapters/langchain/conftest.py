"""Models that talk to the wire, and the ways to call a runnable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any, Protocol

import pytest

from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.clients import no_certificates


class Model(Protocol):
    """Makes a ChatOpenAI that talks to the wire."""

    def __call__(self, wire: Wire, **settings: Any) -> Any: ...


@pytest.fixture
def chat(runner: asyncio.Runner) -> Iterator[Model]:
    from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

    client = DefaultHttpxClient(verify=no_certificates())
    async_client = DefaultAsyncHttpxClient(verify=no_certificates())

    def make(wire: Wire, **settings: Any) -> Any:
        from langchain_openai import ChatOpenAI

        given = {
            "model": "gpt-4o-mini",
            "base_url": wire.base_url,
            "api_key": "no key",
            "max_retries": 0,
            "http_client": client,
            "http_async_client": async_client,
        }
        return ChatOpenAI(**{**given, **settings})

    yield make
    client.close()
    runner.run(async_client.aclose())


@pytest.fixture
def install() -> Any:
    return install_ce


MODES = ["invoke", "ainvoke", "stream", "astream", "batch"]
Call = Callable[..., Any]


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def call(mode: str, runner: asyncio.Runner) -> Call:
    """Call a runnable in one of the five ways; a stream gives its chunks added up."""

    def run(target: Any, given: Any, config: Any = None, **kwargs: Any) -> Any:
        if mode == "invoke":
            return target.invoke(given, config, **kwargs)
        if mode == "ainvoke":
            return runner.run(target.ainvoke(given, config, **kwargs), context=copy_context())
        if mode == "batch":
            return target.batch([given], config, **kwargs)[0]
        if mode == "stream":
            return added(list(target.stream(given, config, **kwargs)))

        async def collect() -> list[Any]:
            return [chunk async for chunk in target.astream(given, config, **kwargs)]

        return added(runner.run(collect(), context=copy_context()))

    return run


def added(chunks: list[Any]) -> Any:
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    return whole
