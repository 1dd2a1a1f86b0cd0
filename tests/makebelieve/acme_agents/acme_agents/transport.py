"""JSON over HTTP/1.1 with the standard library: whole documents, and lines as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit


class ModelError(Exception):
    """The provider refused, failed or broke off."""


def _failure(status: int, body: bytes) -> ModelError:
    try:
        said = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        said = "no reason given"
    return ModelError(f"{status}: {said}")


# Waiting


def lines(url: str, headers: Mapping[str, str], body: bytes) -> Iterator[bytes]:
    """Post, and give the lines of what comes back."""
    with _posted(url, headers, body) as response:
        try:
            yield from response
        except (HTTPException, OSError) as error:
            raise ModelError(f"broken off: {type(error).__name__}") from error


@contextmanager
def _posted(url: str, headers: Mapping[str, str], body: bytes) -> Iterator[HTTPResponse]:
    target = urlsplit(url)
    kind = HTTPSConnection if target.scheme == "https" else HTTPConnection
    connection = kind(target.netloc, timeout=120)
    try:
        connection.request("POST", target.path, body, dict(headers))
        response = connection.getresponse()
        if response.status != 200:
            raise _failure(response.status, response.read())
        yield response
    finally:
        connection.close()


# Awaiting


async def alines(url: str, headers: Mapping[str, str], body: bytes) -> AsyncIterator[bytes]:
    """The same, awaited."""
    async with _connected(url) as (reader, writer):
        target = urlsplit(url)
        sent = {**headers, "Host": target.netloc, "Content-Length": len(body)}
        head = [f"POST {target.path} HTTP/1.1", "Connection: close"]
        head += [f"{name}: {value}" for name, value in sent.items()]
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        status, told = await _head(reader)
        chunks = _chunks(reader, told)
        if status != 200:
            raise _failure(status, b"".join([chunk async for chunk in chunks]))
        rest = b""
        async for chunk in chunks:
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line
        if rest:
            yield rest


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    target = urlsplit(url)
    secure = target.scheme == "https"
    port = target.port or (443 if secure else 80)
    reader, writer = await asyncio.open_connection(target.hostname, port, ssl=secure or None)
    try:
        yield reader, writer
    except (asyncio.IncompleteReadError, OSError) as error:
        raise ModelError(f"broken off: {type(error).__name__}") from error
    finally:
        writer.close()


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    first, *others = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in others if line)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}


async def _chunks(reader: asyncio.StreamReader, headers: dict[str, Any]) -> AsyncIterator[bytes]:
    if headers.get("transfer-encoding") != "chunked":
        yield await reader.readexactly(int(headers["content-length"]))
        return
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
