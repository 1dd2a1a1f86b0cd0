"""Scripted answers of `Wire`, and the documents and stream events they become."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


JsonObject = dict[str, Any]

CREATED = 1_700_000_000
"""The same second for every answer: what Wire says depends on nothing but requests."""
PIECE = 8
"""Characters a stream event carries."""
DIMENSIONS = 256
IDEOGRAPHS = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
WORD = re.compile(rf"[{IDEOGRAPHS}]|[^\W{IDEOGRAPHS}]+")
READ_BY_MODEL = ("messages", "prompt", "input", "tools", "response_format")


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of an answer; without an id, Wire numbers it."""

    name: str
    arguments: str
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What Wire does with one request; without content and calls it gives the default text."""

    content: str | None = None
    calls: tuple[Call, ...] = ()
    status: int = 200
    code: str | None = None
    hang_seconds: float = 0
    hang_after: int = 0
    """Stream events sent before the pause."""
    cut_after: int | None = None
    """Stream events sent before the connection breaks."""


Script = str | Answer | Sequence[str | Answer] | Callable[[JsonObject], str | Answer] | None


def text(content: str) -> Answer:
    """Answers with this text."""
    return Answer(content=content)


def tool_calls(
    calls: Sequence[tuple[str, Mapping[str, Any]]],
    ids: Sequence[str] | None = None,
    content: str | None = None,
) -> Answer:
    """Answers with calls of tools, given as names and arguments, and perhaps a word beside them.

    Without `ids` each call gets an id that occurs once in the life of the Wire.
    """
    result = (Call(name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls)
    if ids is not None:
        result = (replace(call, id=call_id) for call, call_id in zip(result, ids, strict=True))
    return Answer(content=content, calls=tuple(result))


def error(status: int, message: str, code: str | None = None) -> Answer:
    """Answers with an error of the provider, such as 429 or 400 `context_length_exceeded`.

    A client that retries is told to do so after 1 ms.
    """
    return Answer(status=status, content=message, code=code)


def hang(seconds: float, *, after_chunks: int = 0, then: str | Answer | None = None) -> Answer:
    """Answers late; a stream pauses behind its first `after_chunks` events."""
    return replace(as_answer(then), hang_seconds=seconds, hang_after=after_chunks)


def cut(after_chunks: int, then: str | Answer | None = None) -> Answer:
    """Breaks the connection after so many stream events, or in the midst of a plain answer."""
    return replace(as_answer(then), cut_after=after_chunks)


def as_answer(answer: str | Answer | None) -> Answer:
    """Makes an `Answer` of a text, or of None for the default text."""
    return answer if isinstance(answer, Answer) else Answer(content=answer)


def simple_count(body: JsonObject) -> int:
    """Counts a request the simple way: UTF-8 bytes of what the model reads, as JSON, by 4."""
    return _quarter([body[key] for key in READ_BY_MODEL if key in body])


def _quarter(value: Any) -> int:
    packed = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return -(-len(packed.encode("utf-8", "surrogatepass")) // 4)


def default_text(body: JsonObject) -> str:
    """Names the number of messages and a digest of the last user text (or of the prompt)."""
    messages = body.get("messages", ())
    words = body.get("prompt", "")
    for message in messages:
        if message["role"] == "user":
            words = message["content"]
    packed = json.dumps(words).encode()
    digest = hashlib.blake2b(packed, digest_size=4).hexdigest()
    return f"Answer to {len(messages)} messages, question {digest}."


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a certain request, ready to be written."""

    number: int
    """Position of the request among those of the Wire, from 1."""
    body: JsonObject
    answer: Answer
    prompt_tokens: int

    @property
    def content(self) -> str | None:
        if self.answer.content is None and not self.answer.calls:
            return default_text(self.body)
        return self.answer.content

    @property
    def usage(self) -> JsonObject:
        calls = [(call.name, call.arguments) for call in self.answer.calls]
        reply = _quarter([self.content, calls])
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": reply,
            "total_tokens": self.prompt_tokens + reply,
            "prompt_tokens_details": {"cached_tokens": 0},
        }

    def calls(self) -> list[JsonObject]:
        return [
            {
                "id": call.id or f"call_{self.number}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for index, call in enumerate(self.answer.calls)
        ]

    def _head(self, kind: str) -> JsonObject:
        return {
            "id": f"wire-{self.number}",
            "object": kind,
            "created": CREATED,
            "model": self.body["model"],
        }

    def document(self) -> JsonObject:
        """The whole answer as one document."""
        if "prompt" in self.body:
            choices = [_choice(i, "stop", text=t) for i, t in enumerate(self._texts())]
            return {**self._head("text_completion"), "choices": choices, "usage": self.usage}
        message: JsonObject = {"role": "assistant", "content": self.content, "refusal": None}
        if self.answer.calls:
            message["tool_calls"] = self.calls()
        choices = [_choice(0, self._finish(), message=message)]
        return {**self._head("chat.completion"), "choices": choices, "usage": self.usage}

    def events(self) -> Iterator[JsonObject]:
        """The answer in pieces; the last event carries the usage when the request asks for it."""
        wants_usage = (self.body.get("stream_options") or {}).get("include_usage")
        legacy = "prompt" in self.body
        head = self._head("text_completion" if legacy else "chat.completion.chunk")
        for choice in self._legacy_choices() if legacy else self._chat_choices():
            yield {**head, "choices": [choice], **({"usage": None} if wants_usage else {})}
        if wants_usage:
            yield {**head, "choices": [], "usage": self.usage}

    def _chat_choices(self) -> Iterator[JsonObject]:
        start = "" if self.content is not None else None
        yield _choice(0, None, delta={"role": "assistant", "content": start})
        for piece in _pieces(self.content or ""):
            yield _choice(0, None, delta={"content": piece})
        for index, call in enumerate(self.calls()):
            function = {**call["function"], "arguments": ""}
            opening = {"index": index, **call, "function": function}
            yield _choice(0, None, delta={"tool_calls": [opening]})
            for piece in _pieces(call["function"]["arguments"]):
                part = {"index": index, "function": {"arguments": piece}}
                yield _choice(0, None, delta={"tool_calls": [part]})
        yield _choice(0, self._finish(), delta={})

    def _legacy_choices(self) -> Iterator[JsonObject]:
        for index, whole in enumerate(self._texts()):
            for piece in _pieces(whole):
                yield _choice(index, None, text=piece)
            yield _choice(index, "stop", text="")

    def _texts(self) -> list[str]:
        prompt = self.body["prompt"]
        prompts = [prompt] if isinstance(prompt, str) else prompt
        content = self.answer.content
        return [default_text({"prompt": item}) if content is None else content for item in prompts]

    def _finish(self) -> str:
        return "tool_calls" if self.answer.calls else "stop"


def _choice(index: int, finish: str | None, **fields: Any) -> JsonObject:
    return {"index": index, **fields, "logprobs": None, "finish_reason": finish}


def _pieces(whole: str) -> Iterator[str]:
    return (whole[start : start + PIECE] for start in range(0, len(whole), PIECE))


def models() -> JsonObject:
    """The list of models; a request may name any other one too."""
    model = {"id": "wire", "object": "model", "created": CREATED, "owned_by": "wire"}
    return {"object": "list", "data": [model]}


def embeddings(body: JsonObject, prompt_tokens: int) -> JsonObject:
    """Vectors of unit length from the hashes of words: texts that share words lie close."""
    content = body["input"]
    inputs = [content] if isinstance(content, str) or isinstance(content[0], int) else content
    size = body.get("dimensions") or DIMENSIONS
    vectors = [_vector(item, size) for item in inputs]
    packed = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _pack(vector) if packed else vector}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens}
    return {"object": "list", "data": data, "model": body["model"], "usage": usage}


def _vector(item: str | list[int], size: int) -> list[float]:
    # A Chinese, Japanese or Korean character counts as a word; tokens stand for themselves.
    words = WORD.findall(item.casefold()) if isinstance(item, str) else map(str, item)
    vector = [0.0] * size
    for word in words:
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        vector[int.from_bytes(digest) % size] += 1.0
    length = math.hypot(*vector)
    return [value / length for value in vector] if length else [1.0, *vector[1:]]


def _pack(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
