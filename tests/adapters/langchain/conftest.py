"""An app run twice, without us and with us, against two equal model servers; and what was stored."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from ce_engine import ContextEngine
from ce_integrations.base import Installation
from ce_integrations.langchain import install_ce
from ce_integrations.testing.answers import JsonObject, Script
from ce_integrations.testing.wire import Wire


class Model(Protocol):
    """Makes a ChatOpenAI that talks to the wire."""

    def __call__(self, wire: Wire, **settings: Any) -> Any: ...


@pytest.fixture
def chat(runner: asyncio.Runner) -> Iterator[Model]:
    from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

    # Loading the machine's certificates takes a tenth of a second, and there is nothing to verify.
    no_certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client = DefaultHttpxClient(verify=no_certificates)
    async_client = DefaultAsyncHttpxClient(verify=no_certificates)

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


@dataclass
class Twins:
    """What the app without us and the app with us sent and got."""

    plain: list[bytes] = field(default_factory=list)
    ours: list[bytes] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    bodies: list[JsonObject] = field(default_factory=list)
    installation: Installation[Any, Any] | None = None


class Compare(Protocol):
    def __call__(
        self,
        build: Callable[[Wire], Any],
        drive: Callable[[Any], Any],
        script: Script = None,
        **options: Any,
    ) -> Twins: ...


@pytest.fixture
def twins(engine: ContextEngine) -> Compare:
    """Build the app and drive it twice; asserts that no request was refused."""

    def compare(
        build: Callable[[Wire], Any],
        drive: Callable[[Any], Any],
        script: Script = None,
        **options: Any,
    ) -> Twins:
        found = Twins()
        with Wire(script) as wire:
            found.results.append(drive(build(wire)))
            found.plain = [sent.raw for sent in wire.requests]
            assert wire.refusals == []
        with Wire(script) as wire:
            app = build(wire)
            found.installation = install_ce(app, engine=engine, **options)
            try:
                found.results.append(drive(app))
            finally:
                found.installation.uninstall()
            found.ours = [sent.raw for sent in wire.requests]
            found.bodies = wire.bodies
            assert wire.refusals == []
        return found

    return compare


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
