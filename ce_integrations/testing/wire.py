"""A strict OpenAI-compatible server on the loopback that records what it is really sent."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from types import TracebackType
from typing import Any, Self

from ce_integrations.testing.answers import (
    Answer,
    Call,
    Reply,
    Script,
    as_answer,
    cut,
    default_text,
    embeddings,
    error,
    hang,
    models,
    simple_count,
    text,
    tool_calls,
)
from ce_integrations.testing.body_tokens import count_body_tokens
from ce_integrations.testing.strict import Refusal, chat_faults, embedding_faults, prompt_faults


__all__ = [
    "Answer",
    "Call",
    "Refusal",
    "Sent",
    "Wire",
    "count_body_tokens",
    "cut",
    "default_text",
    "error",
    "hang",
    "simple_count",
    "text",
    "tool_calls",
]

JsonObject = dict[str, Any]

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"
MODELS = "/v1/models"
CLOSING_SECONDS = 5
"""How long `close` waits for answers in flight to notice."""
SECRET_HEADERS = frozenset({"authorization", "api-key", "x-api-key", "cookie"})


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as it arrived; header names in lower case, credentials left out."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: JsonObject
    """The parsed body; empty where there was none or it was no JSON object."""
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """What goes back: a document, or the events of a stream."""

    status: int
    document: JsonObject = field(default_factory=dict)
    events: Iterator[JsonObject] | None = None
    answer: Answer = field(default_factory=Answer)


class Wire:
    """A loopback provider: answers by a script, refuses like a real one, records every request.

    It listens from construction until `close` and serves `/v1/chat/completions` and
    `/v1/completions` (plain and streamed), `/v1/embeddings` and `/v1/models`.

    Args:
        answer: A text or `Answer`; a list of them, used in turn, of which the last repeats; or a
            callable that gets the body and runs on the thread of the request. Without one the
            answer names the number of messages and a digest of the last user text. Refused
            requests take nothing from the list.
        single_system: Refuse any system message that is not the first message.
        max_tokens: Refuse longer requests with `context_length_exceeded`.
        count: Counts the tokens of a body, for `max_tokens` and the usage; by default
            `simple_count`.
        message_keys: Keys of messages that this provider knows beyond OpenAI's.
    """

    def __init__(
        self,
        answer: Script = None,
        *,
        single_system: bool = False,
        max_tokens: int | None = None,
        count: Callable[[JsonObject], int] = simple_count,
        message_keys: Collection[str] = (),
    ) -> None:
        self._script = answer
        self._single_system = single_system
        self._max_tokens = max_tokens
        self._count = count
        self._message_keys = frozenset(message_keys)
        self._lock = threading.Lock()
        self._requests: list[Sent] = []
        self._received = 0
        self._answered = 0
        self._server = _Server(self)
        self.base_url = f"http://127.0.0.1:{self._server.port}/v1"

    @property
    def requests(self) -> list[Sent]:
        """All requests so far, in the order of their arrival."""
        with self._lock:
            return list(self._requests)

    @property
    def bodies(self) -> list[JsonObject]:
        """The bodies of all calls of a model, chat and legacy, the refused ones included."""
        return [request.body for request in self.requests if request.path in {CHAT, COMPLETIONS}]

    @property
    def refusals(self) -> list[Refusal]:
        """What was refused and why; scripted errors are not among them."""
        return [request.refusal for request in self.requests if request.refusal]

    def reset(self) -> None:
        """Forgets all requests and starts the script again; ids of calls stay unique."""
        with self._lock:
            self._requests.clear()
            self._answered = 0

    def close(self) -> None:
        """Stops listening and ends what is under way; may be called again."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def receive(self, method: str, path: str, headers: Mapping[str, str], raw: bytes) -> Response:
        """Records one request and decides what goes back; called by the server's threads."""
        try:
            parsed = json.loads(raw) if raw else {}
        except ValueError:
            parsed = None
        body = parsed if isinstance(parsed, dict) else {}
        refusal = next(self._faults(f"{method} {path}", parsed), None)
        with self._lock:
            self._requests.append(Sent(method, path, headers, raw, body, refusal))
            self._received += 1
            number = self._received
        if refusal:
            return Response(refusal.status, refusal.document())
        if path == MODELS:
            return Response(200, models())
        if path == EMBEDDINGS:
            return Response(200, embeddings(body, self._count(body)))
        return self._reply(number, body)

    def _faults(self, endpoint: str, body: Any) -> Iterator[Refusal]:
        endpoints = {f"GET {MODELS}", f"POST {CHAT}", f"POST {COMPLETIONS}", f"POST {EMBEDDINGS}"}
        if endpoint not in endpoints:
            yield Refusal(f"no such endpoint: {endpoint}", status=404)
        if not isinstance(body, dict):
            yield Refusal("the body is no JSON object")
        elif endpoint == f"POST {CHAT}":
            yield from chat_faults(
                body, single_system=self._single_system, message_keys=self._message_keys
            )
            yield from self._length_faults(body, "messages")
        elif endpoint == f"POST {COMPLETIONS}":
            yield from prompt_faults(body)
            yield from self._length_faults(body, "prompt")
        elif endpoint == f"POST {EMBEDDINGS}":
            yield from embedding_faults(body)

    def _length_faults(self, body: JsonObject, param: str) -> Iterator[Refusal]:
        if self._max_tokens is None or (tokens := self._count(body)) <= self._max_tokens:
            return
        # Clients show the message alone, and frameworks tell this error by its first words.
        message = f"Input tokens exceed the configured limit of {self._max_tokens}: found {tokens}"
        yield Refusal(message, param, "context_length_exceeded")

    def _reply(self, number: int, body: JsonObject) -> Response:
        try:
            answer = self._next_answer(body)
        except Exception as fault:  # noqa: BLE001 - a script that fails must reach the test
            answer = error(500, f"the script of this Wire failed: {fault!r}")
        if answer.status != 200:
            failed = Refusal(answer.content or "", None, answer.code, answer.status)
            return Response(answer.status, failed.document(), answer=answer)
        reply = Reply(number, body, answer, self._count(body))
        if body.get("stream"):
            return Response(200, events=reply.events(), answer=answer)
        return Response(200, reply.document(), answer=answer)

    def _next_answer(self, body: JsonObject) -> Answer:
        script = self._script
        if callable(script):
            return as_answer(script(body))
        if script is None or isinstance(script, str | Answer):
            return as_answer(script)
        with self._lock:
            turn = min(self._answered, len(script) - 1)
            self._answered += 1
        return as_answer(script[turn])


class _Server(ThreadingMixIn, TCPServer):
    """A thread for each connection, and all of them closed by `close`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port: int = self.socket.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="wire", daemon=True)
        self._acceptor.start()

    def _accept(self) -> None:
        # Not `serve_forever`: it looks for the end only every half second.
        while not self.closing.is_set():
            self.handle_request()

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 - fixed by the base
        return not self.closing.is_set()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - fixed by the base
        """Keeps quiet about clients that went away, and about nothing else."""
        fault = sys.exc_info()[1]
        if fault is not None and not isinstance(fault, OSError):
            raise fault

    def close(self) -> None:
        if self.closing.is_set():
            return
        self.closing.set()
        with contextlib.suppress(OSError):  # wakes the acceptor
            socket.create_connection(("127.0.0.1", self.port)).close()
        self._acceptor.join()
        self.server_close()
        with self._changed:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            ended = self._changed.wait_for(lambda: not self._open, CLOSING_SECONDS)
        if not ended:
            warnings.warn("an answer of a closed Wire is still under way", ResourceWarning, 3)


class _Handler(BaseHTTPRequestHandler):
    """Reads requests from one connection and writes what `Wire.receive` says."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        length = int(self.headers.get("content-length", 0))
        raw = self.rfile.read(length)
        headers = {name.lower(): value for name, value in self.headers.items()}
        for name in SECRET_HEADERS:
            headers.pop(name, None)
        path = self.path.partition("?")[0]
        response = self.server.wire.receive(self.command, path, headers, raw)
        at_once = response.events is None or response.answer.hang_after == 0
        if at_once and self._pause(response.answer):
            return
        if response.events is None:
            self._send_document(response)
        else:
            self._send_stream(response.events, response.answer)

    def do_POST(self) -> None:
        self.do_GET()

    def _pause(self, answer: Answer) -> bool:
        """Waits as the answer says; true when the Wire was closed meanwhile."""
        if not answer.hang_seconds or not self.server.closing.wait(answer.hang_seconds):
            return False
        self.close_connection = True
        return True

    def _send_document(self, response: Response) -> None:
        payload = json.dumps(response.document).encode()
        self.send_response(response.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        if response.status == HTTPStatus.TOO_MANY_REQUESTS or response.status >= 500:
            self.send_header("retry-after-ms", "1")
        self.end_headers()
        if response.answer.cut_after is not None:
            payload = payload[: len(payload) // 2]
            self.close_connection = True
        self.wfile.write(payload)

    def _send_stream(self, events: Iterator[JsonObject], answer: Answer) -> None:
        frames = [*map(json.dumps, events), "[DONE]"]
        last = len(frames) - 1
        pause_at = min(answer.hang_after, last)
        cut_at = None if answer.cut_after is None else min(answer.cut_after, last)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for position, frame in enumerate(frames):
            if position and position == pause_at and self._pause(answer):
                return
            if position == cut_at:
                self.close_connection = True
                return
            self._send_chunk(f"data: {frame}\n\n".encode())
        self._send_chunk(b"")

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by http.server
        """Says nothing."""
