"""Wire is what all adapter tests trust: it must record exactly, answer by script, refuse strictly."""

from __future__ import annotations

import http.client
import importlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from ce_integrations.testing.wire import (
    Answer,
    Sent,
    Wire,
    cut,
    error,
    hang,
    simple_count,
    text,
    tool_calls,
)


openai: Any = importlib.import_module("openai")  # as a program would use it: no types here
langchain_openai: Any = importlib.import_module("langchain_openai")


LOOKUP = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}
TEXTS = [
    "short",
    "A sentence that needs several pieces to be sent.",
    "上下文工程让每次调用都在预算之内。",
    "👩‍👩‍👧 ok",
]


@pytest.fixture
def connect() -> Iterator[Callable[..., Any]]:
    clients = []

    def connect(wire: Wire, **options: Any) -> Any:
        client = openai.OpenAI(
            base_url=wire.base_url, api_key="secret", **{"max_retries": 0, **options}
        )
        clients.append(client)
        return client

    yield connect
    for client in clients:
        client.close()


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def ask(client: Any, *contents: str, **options: Any) -> Any:
    return client.chat.completions.create(
        model="m", messages=[user(c) for c in contents], **options
    )


def drain(stream: Any, into: list[str]) -> None:
    for chunk in stream:
        into.append(chunk.choices[0].delta.content)  # noqa: PERF401 - kept when the stream breaks


def post(wire: Wire, raw: bytes, path: str = "/v1/chat/completions") -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(wire.base_url.split("/")[2])
    connection.request("POST", path, raw, {"Content-Type": "application/json"})
    response = connection.getresponse()
    document = json.loads(response.read())
    connection.close()
    return response.status, document


def send(wire: Wire, **body: Any) -> tuple[int, dict[str, Any]]:
    return post(wire, json.dumps({"model": "m", "messages": [user("hi")], **body}).encode())


# What was sent


def test_it_records_the_exact_bytes_and_no_credentials(connect: Callable[..., Any]) -> None:
    raw = b'{ "model":"m",\n "messages": [{"role":"user","content":"\\u4f60\xe5\xa5\xbd"}] }'
    with Wire() as wire:
        assert post(wire, raw)[0] == 200
        ask(connect(wire), "hi", temperature=0.5)
        first, second = wire.requests
    assert (first.raw, first.method, first.path) == (raw, "POST", "/v1/chat/completions")
    assert first.body == {"model": "m", "messages": [user("你好")]}
    assert second.body == {"model": "m", "messages": [user("hi")], "temperature": 0.5}
    assert "secret" not in repr(second)
    assert "user-agent" in second.headers


def test_bodies_are_those_of_model_calls_in_order_refused_ones_included(
    connect: Callable[..., Any],
) -> None:
    with Wire() as wire:
        client = connect(wire)
        client.models.list()
        ask(client, "one")
        client.embeddings.create(model="e", input="two")
        send(wire, messages=[])
        client.completions.create(model="m", prompt="three")
        assert [body.get("messages") or body.get("prompt") for body in wire.bodies] == [
            [user("one")],
            None,
            "three",
        ]
        assert len(wire.requests) == 5
        assert [refusal.param for refusal in wire.refusals] == ["messages"]
        wire.reset()
        assert (wire.requests, wire.bodies, wire.refusals) == ([], [], [])


def test_connections_are_kept_alive() -> None:
    with Wire() as wire:
        connection = http.client.HTTPConnection(wire.base_url.split("/")[2])
        connection.connect()
        mine = connection.sock.getsockname()
        for stream in (True, False, True):
            body = json.dumps({"model": "m", "messages": [user("hi")], "stream": stream})
            connection.request("POST", "/v1/chat/completions", body)
            assert connection.getresponse().read()
            assert connection.sock.getsockname() == mine
        connection.close()


# Answers


def test_the_default_answer_tells_different_inputs_apart(connect: Callable[..., Any]) -> None:
    inputs = [("a",), ("b",), ("a", "b"), ("a",)]
    with Wire() as wire:
        client = connect(wire)
        said = [ask(client, *contents).choices[0].message.content for contents in inputs]
    assert said[0] == said[3]
    assert len(set(said)) == 3
    assert "2 messages" in said[2]


def test_a_list_is_answered_in_turn_and_starts_again_after_reset(
    connect: Callable[..., Any],
) -> None:
    with Wire(["first", text("second")]) as wire:
        client = connect(wire)

        def say() -> str:
            return str(ask(client, "x").choices[0].message.content)

        assert [say(), say(), say()] == ["first", "second", "second"]
        wire.reset()
        send(wire, messages=[])  # refused: takes nothing from the list
        assert say() == "first"


def test_a_callable_answers_from_the_body_and_its_failure_is_heard(
    connect: Callable[..., Any],
) -> None:
    def shout(body: dict[str, Any]) -> str:
        return str(body["messages"][-1]["content"].upper())

    with Wire(shout) as wire:
        assert ask(connect(wire), "hey").choices[0].message.content == "HEY"
        with pytest.raises(openai.InternalServerError, match=r"has no attribute .*upper"):
            connect(wire).chat.completions.create(
                model="m", messages=[{"role": "user", "content": [{"type": "text", "text": "x"}]}]
            )


@pytest.mark.parametrize("content", TEXTS)
def test_a_stream_says_the_same_as_a_plain_answer(
    connect: Callable[..., Any], content: str
) -> None:
    with Wire(content) as wire:
        plain = ask(connect(wire), "x")
        chunks = list(ask(connect(wire), "x", stream=True))
    deltas = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(deltas) == plain.choices[0].message.content == content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "stop"
    assert all(chunk.usage is None for chunk in chunks)


def test_a_stream_ends_with_usage_only_when_asked(connect: Callable[..., Any]) -> None:
    with Wire() as wire:
        plain = ask(connect(wire), "how many tokens?")
        chunks = list(
            ask(
                connect(wire),
                "how many tokens?",
                stream=True,
                stream_options={"include_usage": True},
            )
        )
    assert chunks[-1].choices == []
    assert chunks[-1].usage == plain.usage
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert plain.usage.prompt_tokens == simple_count(wire.bodies[0]) > 0
    assert plain.usage.total_tokens > plain.usage.prompt_tokens


@pytest.mark.parametrize("stream", [False, True])
def test_tool_calls_go_out_and_their_results_come_back(
    connect: Callable[..., Any], stream: bool
) -> None:
    script: list[str | Answer] = [
        tool_calls([("lookup", {"q": "上海"}), ("lookup", {"q": "b" * 40})]),
        "done",
    ]
    messages: list[Any] = [user("x")]
    with Wire(script) as wire:
        client = connect(wire)

        def turn() -> Any:
            if not stream:
                return client.chat.completions.create(model="m", messages=messages, tools=[LOOKUP])
            with client.chat.completions.stream(
                model="m", messages=messages, tools=[LOOKUP]
            ) as events:
                return events.get_final_completion()

        first = turn().choices[0]
        calls = first.message.tool_calls
        messages.append(
            {
                "role": "assistant",
                "content": first.message.content,
                "tool_calls": [
                    call.model_dump(include={"id", "type", "function"}) for call in calls
                ],
            }
        )
        messages += [{"role": "tool", "tool_call_id": c.id, "content": "r"} for c in calls]
        for call in messages[1]["tool_calls"]:
            call["function"].pop("parsed_arguments", None)
        assert turn().choices[0].message.content == "done"
    assert first.finish_reason == "tool_calls"
    assert first.message.content is None
    assert [json.loads(call.function.arguments)["q"] for call in calls] == ["上海", "b" * 40]
    assert len({call.id for call in calls}) == 2


def test_ids_of_calls_are_the_scripts_or_occur_once(connect: Callable[..., Any]) -> None:
    mine = tool_calls([("lookup", {})], ids=["call_0"], content="I look.")
    with Wire([mine, tool_calls([("lookup", {})])]) as wire:
        client = connect(wire)
        replies = [ask(client, "x").choices[0].message for _ in range(3)]
    assert [replies[0].tool_calls[0].id, replies[0].content] == ["call_0", "I look."]
    assert replies[1].tool_calls[0].id != replies[2].tool_calls[0].id


async def test_the_async_client_is_served_too() -> None:
    with Wire(["plain", "in several pieces"]) as wire:
        async with openai.AsyncOpenAI(base_url=wire.base_url, api_key="k") as client:
            plain = await client.chat.completions.create(model="m", messages=[user("a")])
            stream = await client.chat.completions.create(
                model="m", messages=[user("b")], stream=True
            )
            pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert plain.choices[0].message.content == "plain"
    assert "".join(pieces) == "in several pieces"


def test_legacy_completions_answer_every_prompt(connect: Callable[..., Any]) -> None:
    with Wire() as wire:
        client = connect(wire)
        plain = client.completions.create(model="m", prompt=["one", "two"])
        chunks = list(client.completions.create(model="m", prompt=["one", "two"], stream=True))
    said: dict[int, str] = {0: "", 1: ""}
    for chunk in chunks:
        said[chunk.choices[0].index] += chunk.choices[0].text
    assert [choice.text for choice in plain.choices] == list(said.values())
    assert said[0] != said[1]


def test_embeddings_put_texts_that_share_words_together(connect: Callable[..., Any]) -> None:
    texts = ["The cat sat.", "the CAT slept", "stock market news", "猫在睡觉", "那只猫", [1, 2]]
    with Wire() as wire:
        client = connect(wire)
        vectors = [client.embeddings.create(model="e", input=t).data[0].embedding for t in texts]
        exact = client.embeddings.create(model="e", input=texts[:4], encoding_format="float")

    def like(left: int, right: int) -> float:
        return float(sum(a * b for a, b in zip(vectors[left], vectors[right], strict=True)))

    assert like(0, 1) > like(0, 2)
    assert like(3, 4) > like(3, 2)
    assert [item.embedding for item in exact.data] == [pytest.approx(v) for v in vectors[:4]]


# Faults on purpose


def test_errors_have_the_providers_shape_and_retries_are_quick(
    connect: Callable[..., Any],
) -> None:
    with Wire([error(429, "slow down", "rate_limit_exceeded"), error(500, "ouch"), "ok"]) as wire:
        assert ask(connect(wire, max_retries=2), "x").choices[0].message.content == "ok"
        assert len(wire.bodies) == 3
        wire.reset()
        with pytest.raises(openai.RateLimitError, match="slow down") as caught:
            ask(connect(wire), "x")
    assert caught.value.code == "rate_limit_exceeded"
    assert caught.value.response.headers["retry-after-ms"] == "1"
    assert wire.refusals == []


# openai 3 makes errors in the midst of a stream its own; 2 lets through those of its HTTP library.
BROKEN = (openai.APIConnectionError, httpx.RemoteProtocolError)
LATE = (openai.APITimeoutError, httpx.ReadTimeout)


@pytest.mark.parametrize("stream", [False, True])
def test_a_hanging_answer_times_out_and_does_not_hold_up_the_end(
    connect: Callable[..., Any], stream: bool
) -> None:
    before = threading.enumerate()
    with Wire(hang(3600)) as wire, pytest.raises(openai.APITimeoutError):
        ask(connect(wire, timeout=0.05), "x", stream=stream)
    made = [thread for thread in threading.enumerate() if thread not in before]
    assert not [thread for thread in made if thread.name == "wire"]


def test_a_stream_may_pause_in_its_midst(connect: Callable[..., Any]) -> None:
    got: list[str] = []
    with Wire(hang(3600, after_chunks=2, then="12345678abc")) as wire:
        stream = ask(connect(wire, timeout=0.2), "x", stream=True)
        with pytest.raises(LATE):
            drain(stream, got)
    assert got == ["", "12345678"]


@pytest.mark.parametrize("after", [0, 2])
def test_a_cut_stream_breaks_after_so_many_chunks(connect: Callable[..., Any], after: int) -> None:
    got: list[str] = []
    with Wire(cut(after, "12345678abcdefgh!")) as wire:
        stream = ask(connect(wire), "x", stream=True)
        with pytest.raises(BROKEN):
            drain(stream, got)
        with pytest.raises(openai.APIConnectionError):
            ask(connect(wire), "x")
    assert got == ["", "12345678"][:after]


# Many at once


def test_sixteen_threads_each_get_their_own_answer(connect: Callable[..., Any]) -> None:
    with Wire(lambda body: body["messages"][0]["content"]) as wire:
        client = connect(wire)

        def ask_ten(thread: int) -> list[str]:
            return [ask(client, f"{thread}/{n}").choices[0].message.content for n in range(10)]

        with ThreadPoolExecutor(16) as pool:
            said = list(pool.map(ask_ten, range(16)))
        sent: list[Sent] = wire.requests
    assert said == [[f"{thread}/{n}" for n in range(10)] for thread in range(16)]
    contents = [request.body["messages"][0]["content"] for request in sent]
    assert sorted(contents) == sorted(one for answers in said for one in answers)
    for thread in range(16):
        mine = [content for content in contents if content.startswith(f"{thread}/")]
        assert mine == said[thread]


def test_close_ends_kept_connections_and_may_be_repeated(connect: Callable[..., Any]) -> None:
    wire = Wire()
    client = connect(wire)
    ask(client, "x")
    wire.close()
    wire.close()
    with pytest.raises(openai.APIConnectionError):
        ask(client, "x")


# With a framework


async def test_langchain_speaks_with_it() -> None:
    script: list[str | Answer] = [tool_calls([("lookup", {"q": "a"})]), "done", "again"]
    with Wire(script, max_tokens=200) as wire:
        model = langchain_openai.ChatOpenAI(model="m", base_url=wire.base_url, api_key="k")
        asked = model.bind_tools([LOOKUP]).invoke("x")
        assert asked.tool_calls[0]["args"] == {"q": "a"}
        result = {"role": "tool", "tool_call_id": asked.tool_calls[0]["id"], "content": "r"}
        history = [("user", "x"), asked, result]
        assert (await model.ainvoke(history)).content == "done"
        assert "".join([chunk.content async for chunk in model.astream("y")]) == "again"
        with pytest.raises(langchain_openai.chat_models.base.OpenAIContextOverflowError):
            model.invoke("x" * 1000)
        await model.root_async_client.close()  # kept by langchain beyond this event loop
    assert [refusal.code for refusal in wire.refusals] == ["context_length_exceeded"]
